//! Maximum delay of an answer: shorter than the client's does-not-exist timer of 15 seconds,
//! whatever the answer waits for and whatever the client leaves unanswered.

use std::collections::BTreeMap;

use super::*;
use crate::support::Received;
use xds_core::{server::DOES_NOT_EXIST_TIMER, service::Variant};

/// One resource of each type in the order of sending; each references an earlier one.
const ASKED: [(&str, &str); 7] = [
    ("cds", "c"),
    ("eds", "c"),
    ("sds", "s"),
    ("lds", "l"),
    ("rds", "r"),
    ("srds", "s"),
    ("vhds", "r/v"),
];

const EXISTING: &str = "set cds c=eds; eds c=1; sds s=1; lds l=1; rds r=1; srds s=1; vhds r/v=1";

/// A client's answers to responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// ACKs everything at once, except responses of this type, which it never answers.
    AllBut(usize),
    /// ACKs everything at once, except that it NACKs responses of this type.
    Rejecting(usize),
    /// ACKs everything after this delay.
    After(Duration),
}

/// A client with a new subscription to one resource of each type.
struct Subscriber {
    rig: Rig,
    prefix: &'static str,
    answers: Answers,
    /// Requests to send, with their times.
    pending: Vec<(xds_core::Time, String)>,
    /// Time of the first response of each type.
    came: BTreeMap<usize, Duration>,
}

impl Subscriber {
    fn new(config: ServerConfig, variant: Variant, answers: Answers) -> Self {
        let mut rig = Rig::new(config);
        rig.run(EXISTING);
        let prefix = if variant == Variant::Incremental { "d" } else { "" };
        let (pending, came) = (Vec::new(), BTreeMap::new());
        Self { rig, prefix, answers, pending, came }
    }

    fn ask(&mut self) {
        let (prefix, plus) = (self.prefix, if self.prefix.is_empty() { "" } else { "+" });
        for (short, name) in ASKED {
            self.rig.run(&format!("{prefix}> {short} {plus}{name}"));
        }
    }

    fn answer(&mut self, received: &Received) {
        let short = types::short_name(received.transmit.type_url.as_str()).expect("a known type");
        let at = ASKED.iter().position(|(it, _)| *it == short).expect("asked for");
        let since = self.rig.now.since(xds_core::Time::ZERO);
        self.came.entry(at).or_insert(since);
        let name = ASKED[at].1;
        let (says, after) = match self.answers {
            Answers::AllBut(stuck) if stuck == at => return,
            Answers::Rejecting(stuck) if stuck == at => ("nack", Duration::ZERO),
            Answers::AllBut(_) | Answers::Rejecting(_) => ("ack", Duration::ZERO),
            Answers::After(after) => ("ack", after),
        };
        let step = match (self.prefix, says) {
            ("", "ack") => format!("> {short} {name}"),
            ("", says) => format!("> {short} {says} {name}"),
            (d, says) => format!("{d}> {short} {says}"),
        };
        self.pending.push((self.rig.now.after(after), step));
    }

    /// Lets time pass while the client receives and answers.
    fn live(&mut self, time: Duration) {
        let (end, step) = (self.rig.now.after(time), Duration::from_millis(100));
        loop {
            let now = self.rig.now;
            while let Some(due) = self.pending.iter().position(|(at, _)| *at <= now) {
                let (_, says) = self.pending.remove(due);
                self.rig.run(&says);
            }
            if let Some(received) = self.rig.receive(1) {
                self.answer(&received);
            } else if now >= end {
                return;
            } else if !self.pending.iter().any(|(at, _)| *at <= now) {
                self.rig.wait(step);
            }
        }
    }
}

// No answer takes longer than the stage timeout, however many types wait for each other.
#[test]
fn each_subscription_is_answered_within_stage_timeout() {
    let stage_timeout = MakeBeforeBreakPolicy::default().stage_timeout;
    assert!(stage_timeout < DOES_NOT_EXIST_TIMER);
    let stages = 0..ASKED.len();
    let just_in_time = stage_timeout - Duration::from_millis(100);
    let slow = [Answers::After(just_in_time), Answers::After(Duration::from_secs(2))];
    let stuck = stages.flat_map(|stage| [Answers::AllBut(stage), Answers::Rejecting(stage)]);
    for answers in stuck.chain(slow) {
        for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
            for on_stage_timeout in [StageTimeoutAction::Hold, StageTimeoutAction::Continue] {
                let case = format!("{answers:?} {variant:?} {on_stage_timeout:?}");
                let config = gated(|policy| policy.on_stage_timeout = on_stage_timeout);
                let mut client = Subscriber::new(config, variant, answers);
                client.ask();
                client.live(DOES_NOT_EXIST_TIMER);
                for (at, (short, _)) in ASKED.into_iter().enumerate() {
                    let came = client.came.get(&at);
                    let came = came.unwrap_or_else(|| panic!("{case}: {short} never came"));
                    assert!(*came <= stage_timeout, "{case}: {short} came after {came:?}");
                }
            }
        }
    }
    println!("covers: M146 M148 M150");
}

// Names subscribed to while another change is unanswered or rejected.
#[test]
fn later_subscriptions_are_answered_within_stage_timeout() {
    for (d, plus, ack) in [("", "", "c"), ("d", "+", "ack")] {
        for (answer, cause) in [("nack c", "rejected"), ("", "unanswered")] {
            for on_stage_timeout in [StageTimeoutAction::Hold, StageTimeoutAction::Continue] {
                println!("case {d:?} {cause} {on_stage_timeout:?}");
                let mut rig = Rig::new(gated(|policy| policy.on_stage_timeout = on_stage_timeout));
                rig.run(&format!(
                    "
                    set cds c=1; rds r=1
                    {d}> cds {plus}c       | {d}< cds first c=1
                    {d}> cds {ack}
                    {d}> rds {plus}r       | {d}< rds first r=1
                    set cds c=bad; rds q=1 | {d}< cds changed c=bad
                    "
                ));
                match (d, answer) {
                    (_, "") => {}
                    ("d", _) => rig.run("d> cds nack"),
                    (_, answer) => rig.run(&format!("> cds {answer}")),
                }
                let ask = if d.is_empty() { "> rds r q" } else { "d> rds ack +q" };
                rig.run(&format!("{ask}\n{d}<\nwait 4900ms\n{d}<\nwait 100ms"));
                rig.run(&format!("{d}< rds resubscribed q=1"));
            }
        }
    }
    println!("covers: M148");
}

// After a NACK under `StageTimeoutAction::Hold` a client keeps its resources. A subscribed resource that it
// never received is sent after the timeout, and nothing else with it.
#[test]
fn nack_under_hold_sends_only_missing_subscribed_resources() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&started(
        "
        settled
        set cds b=bad; rds r=2 q=1 | < cds changed a=1 b=bad
        > cds nack
        > rds r q                  | <
        wait 5s                    | < rds resubscribed q=1
        > rds r q
        wait 60s                   | <  # r stays as it is
        set cds b=2                | < cds changed a=1 b=2
        > cds                      | < rds changed r=2
        ",
    ));
    let sent = |observation: &Observation| {
        matches!(observation, Observation::SentOutOfOrder { type_url, after, .. }
            if type_url.as_str() == types::ROUTE_CONFIGURATION
                && *after == MakeBeforeBreakPolicy::default().stage_timeout)
    };
    assert_eq!(rig.observations().iter().filter(|it| sent(it)).count(), 1);

    println!("covers: M148");
}

#[test]
fn answers_wait_at_most_for_the_stage_timeout() {
    run(
        "
        == incremental NACK under hold: missing subscribed resource is sent after timeout [M148 M150]
        settled-delta
        set cds b=bad; rds r=2 q=1 | d< cds changed b=bad
        d> cds nack
        d> rds +q                  | d<
        wait 5s                    | d< rds resubscribed q=1
        d> rds ack
        wait 60s                   | d<
        set cds b=2                | d< cds changed b=2
        d> cds ack                 | d< rds changed r=2
        == subscribed resource created after the NACK is sent after timeout [M148 M150]
        settled-delta
        d> rds +q                  | d< rds resubscribed -q
        d> rds ack
        set cds b=bad; rds r=2 q=1 | d< cds changed b=bad
        d> cds nack
        wait 4s                    | d<
        wait 1s                    | d< rds changed q=1
        d> rds ack
        wait 60s                   | d<
        == resubscribed resource is sent after timeout [M148 M96]
        settled-delta
        set rds q=1
        d> rds +q                  | d< rds resubscribed q=1
        d> rds ack
        set cds b=bad; rds r=2 q=2 | d< cds changed b=bad
        d> cds nack
        d> rds -q
        d> rds +q                  | d<
        wait 5s                    | d< rds resubscribed q=2
        d> rds ack
        wait 60s                   | d<
        == unsubscription from a name that the wildcard covers is answered alone [M148 M93]
        set cds a=1; rds r=1 q=1
        d> cds +*             | d< cds first a=1
        d> cds ack
        d> rds +* +q          | d< rds first r=1 q=1
        d> rds ack
        set cds a=bad; rds r=2 | d< cds changed a=bad
        d> cds nack
        d> rds -q             | d<
        wait 5s               | d< rds resubscribed q=1
        d> rds ack
        wait 60s              | d<
        set cds a=2           | d< cds changed a=2
        d> cds ack            | d< rds changed r=2
        == subscription to a name that the wildcard covers is answered alone, SotW [M148 M75]
        set cds a=1; rds r=1 q=1
        > cds                 | < cds first a=1
        > cds
        > rds *               | < rds first r=1 q=1
        > rds *
        set cds a=bad; rds r=2 | < cds changed a=bad
        > cds nack
        > rds * q             | <
        wait 5s               | < rds resubscribed q=1
        > rds * q
        wait 60s              | <
        set cds a=2           | < cds changed a=2
        > cds                 | < rds changed r=2
        == name that got an error and was then sent by the wildcard is not sent after timeout [M148 M178]
        set cds c=1; lds l=1
        set lds !l=5
        d> cds +*             | d< cds first c=1
        d> cds ack
        d> lds +l             | d< lds first !l=5
        d> lds ack
        d> lds +*             | d< lds resubscribed l=1
        d> lds nack
        set cds c=bad         | d< cds changed c=bad
        d> cds nack
        set lds l=2           | d<
        wait 60s              | d<
        == wildcard first response is sent after timeout [M148]
        set cds a=bad; lds l=1 m=1
        > cds    | < cds first a=bad
        > cds nack
        > lds    | <
        wait 5s  | < lds first l=1 m=1
        > lds
        set lds l=2
        wait 60s | <
        == reconnected client keeps stated versions while it NACKs [M148 M117]
        settled-delta
        set cds a=bad; lds l=2; rds r=2 | d< cds changed a=bad
        d> cds nack
        close
        2d> cds +* has:a=1              | 2d< cds first a=bad
        2d> cds nack
        2d> lds +* has:l=1
        2d> rds +r has:r=1              | 2d<
        wait 60s                        | 2d<
        set cds a=2                     | 2d< cds changed a=2
        2d> cds ack                     | 2d< lds first l=2
        2d> lds ack                     | 2d< rds first r=2
        == SotW client without EDS is not waited for [M150 M158]
        set cds c=eds; eds c=1; lds l=1; rds r=1
        > cds
        > lds
        > rds * | < cds first c=eds | <
        > cds   | < lds first l=1
        > lds   | < rds first r=1
        > rds * | <
        == incremental client without EDS is not waited for [M150 M158]
        set cds c=eds; eds c=1; lds l=1; rds r=1
        d> cds +*
        d> lds +*
        d> rds +*  | d< cds first c=eds | d<
        d> cds ack | d< lds first l=1
        d> lds ack | d< rds first r=1
        d> rds ack | d<
        == client without CDS is not waited for [M150 M158]
        set cds c=eds; eds c=1; lds l=1; rds r=1
        > lds   | < lds first l=1
        > lds
        > rds r | < rds first r=1
        == client that requests EDS before the CDS ACK is waited for [M146 M150]
        set cds c=eds; eds c=1; lds l=1
        > cds
        > lds   | < cds first c=eds
        > eds c
        > cds   | < eds first c=1 | <
        > eds c | < lds first l=1
        == view change does not restart the timeout [M148 M223]
        set cds c=1; rds r=1
        set @v cds c=2; rds r=2
        > cds       | < cds first c=1
        > rds r
        wait 3s     | <
        assign 1 v  | <
        wait 1900ms | <
        wait 100ms  | < rds first r=2
        ",
    );
}
