//! How long an answer may take that a client has asked for: less than the 15 seconds after which the client concludes
//! that what it asked for does not exist, whatever waits for what, and whatever it does not answer.

use std::collections::BTreeMap;

use super::*;
use crate::support::Received;
use xds_core::{server::DOES_NOT_EXIST_TIMER, service::Variant};

/// In the order in which they are sent: what a client asks for of each type. Each refers to something before it.
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

/// How a client answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// Everything at once, except responses of this type, which it never answers.
    AllBut(usize),
    /// Everything at once, except that it rejects responses of this type.
    Rejecting(usize),
    /// Everything so long after it has come.
    After(Duration),
}

/// A client that has just asked for one resource of each type.
struct Patient {
    rig: Rig,
    prefix: &'static str,
    answers: Answers,
    /// What it still has to say, and when.
    owed: Vec<(xds_core::Time, String)>,
    /// When each type came first.
    came: BTreeMap<usize, Duration>,
}

impl Patient {
    fn new(config: ServerConfig, variant: Variant, answers: Answers) -> Self {
        let mut rig = Rig::new(config);
        rig.run(EXISTING);
        let prefix = if variant == Variant::Incremental { "d" } else { "" };
        let (owed, came) = (Vec::new(), BTreeMap::new());
        Self { rig, prefix, answers, owed, came }
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
        self.owed.push((self.rig.now.after(after), step));
    }

    /// Lets time pass, and does what is to be done meanwhile.
    fn live(&mut self, time: Duration) {
        let (end, step) = (self.rig.now.after(time), Duration::from_millis(100));
        loop {
            let now = self.rig.now;
            while let Some(due) = self.owed.iter().position(|(at, _)| *at <= now) {
                let (_, says) = self.owed.remove(due);
                self.rig.run(&says);
            }
            if let Some(received) = self.rig.receive(1) {
                self.answer(&received);
            } else if now >= end {
                return;
            } else if !self.owed.iter().any(|(at, _)| *at <= now) {
                self.rig.wait(step);
            }
        }
    }
}

/// Every answer comes before the client's own timer, and no later than the stage timeout: however many types
/// wait for each other, their times do not add up.
#[test]
fn whatever_a_client_does_not_ack_it_is_answered_in_time() {
    let stage_timeout = AckGated::default().stage_timeout;
    assert!(stage_timeout < DOES_NOT_EXIST_TIMER);
    let stages = 0..ASKED.len();
    let just_in_time = stage_timeout - Duration::from_millis(100);
    let slow = [Answers::After(just_in_time), Answers::After(Duration::from_secs(2))];
    let stuck = stages.flat_map(|stage| [Answers::AllBut(stage), Answers::Rejecting(stage)]);
    for answers in stuck.chain(slow) {
        for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
            for on_stuck in [OnStuck::Hold, OnStuck::Continue] {
                let case = format!("{answers:?} {variant:?} {on_stuck:?}");
                let config = gated(|policy| policy.on_stuck = on_stuck);
                let mut client = Patient::new(config, variant, answers);
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

/// The same of names that a client asks for while it leaves a change of something else unanswered.
#[test]
fn names_that_are_asked_for_later_are_answered_in_time_as_well() {
    for (d, plus, ack) in [("", "", "c"), ("d", "+", "ack")] {
        for (answer, cause) in [("nack c", "rejected"), ("", "unanswered")] {
            for on_stuck in [OnStuck::Hold, OnStuck::Continue] {
                println!("case {d:?} {cause} {on_stuck:?}");
                let mut rig = Rig::new(gated(|policy| policy.on_stuck = on_stuck));
                rig.run(&format!(
                    "
                    set cds c=1; rds r=1
                    {d}> cds {plus}c
                    {d}< cds first c=1
                    {d}> cds {ack}
                    {d}> rds {plus}r
                    {d}< rds first r=1
                    set cds c=bad; rds q=1
                    {d}< cds changed c=bad
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

/// A client that comes back and says which older versions it has keeps these for as long as it rejects what they wait for.
#[test]
fn a_client_that_comes_back_with_older_versions_is_not_answered_early() {
    run(&[(
        "M148 M117",
        settled_incrementally(
            "
            set cds a=bad; lds l=2; rds r=2
            d< cds changed a=bad
            d> cds nack
            close
            2d> cds +* has:a=1
            2d< cds first a=bad
            2d> cds nack
            2d> lds +* has:l=1
            2d> rds +r has:r=1
            2d<
            wait 60s
            2d<
            set cds a=2
            2d< cds changed a=2
            2d> cds ack
            2d< lds first l=2
            2d> lds ack
            2d< rds first r=2
            ",
        ),
    )]);
}

/// After a rejection under `OnStuck::Hold` a client keeps what it has. What it has asked for and never received it is
/// sent, and nothing else with it.
#[test]
fn a_nack_under_hold_keeps_what_is_held_and_does_not_keep_back_what_never_came() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&settled(
        "
        set cds b=bad; rds r=2 q=1
        < cds changed a=1 b=bad
        > cds nack
        > rds r q
        <
        wait 5s
        < rds resubscribed q=1
        > rds r q
        wait 60s
        <                            # r stays as it is
        set cds b=2
        < cds changed a=1 b=2
        > cds
        < rds changed r=2
        ",
    ));
    let sent = |observation: &Observation| {
        matches!(observation, Observation::SentOutOfOrder { type_url, after, .. }
            if type_url.as_str() == types::ROUTE_CONFIGURATION
                && *after == AckGated::default().stage_timeout)
    };
    assert_eq!(rig.observations().iter().filter(|it| sent(it)).count(), 1);

    run(&[
        (
            "M148 M150",
            settled_incrementally(
                "
                set cds b=bad; rds r=2 q=1
                d< cds changed b=bad
                d> cds nack
                d> rds +q
                d<
                wait 5s
                d< rds resubscribed q=1
                d> rds ack
                wait 60s
                d<
                set cds b=2
                d< cds changed b=2
                d> cds ack
                d< rds changed r=2
                ",
            ),
        ),
        // A name that the client has asked for comes into being later.
        (
            "M148 M150",
            settled_incrementally(
                "
                d> rds +q
                d< rds resubscribed -q
                d> rds ack
                set cds b=bad; rds r=2 q=1
                d< cds changed b=bad
                d> cds nack
                wait 4s
                d<
                wait 1s
                d< rds changed q=1
                d> rds ack
                wait 60s
                d<
                ",
            ),
        ),
        // What it asks for again it has dropped before.
        (
            "M148 M96",
            settled_incrementally(
                "
                set rds q=1
                d> rds +q
                d< rds resubscribed q=1
                d> rds ack
                set cds b=bad; rds r=2 q=2
                d< cds changed b=bad
                d> cds nack
                d> rds -q
                d> rds +q
                d<
                wait 5s
                d< rds resubscribed q=2
                d> rds ack
                wait 60s
                d<
                ",
            ),
        ),
        // Everything, as well.
        (
            "M148",
            String::from(
                "
                set cds a=bad; lds l=1 m=1
                > cds
                < cds first a=bad
                > cds nack
                > lds
                <
                wait 5s
                < lds first l=1 m=1
                > lds
                set lds l=2
                wait 60s
                <
                ",
            ),
        ),
    ]);
    println!("covers: M148");
}

/// A client that does not ask for endpoints at all, as one that shows what there is, is waited for in vain.
#[test]
fn a_type_that_is_not_subscribed_to_on_the_stream_is_not_waited_for() {
    run(&[
        (
            "M150 M158",
            String::from(
                "
                set cds c=eds; eds c=1; lds l=1; rds r=1
                > cds
                > lds
                > rds *
                < cds first c=eds
                <
                > cds
                < lds first l=1
                > lds
                < rds first r=1
                > rds *
                <
                ",
            ),
        ),
        (
            "M150 M158",
            String::from(
                "
                set cds c=eds; eds c=1; lds l=1; rds r=1
                d> cds +*
                d> lds +*
                d> rds +*
                d< cds first c=eds
                d<
                d> cds ack
                d< lds first l=1
                d> lds ack
                d< rds first r=1
                d> rds ack
                d<
                ",
            ),
        ),
        // Nor are clusters, by a client of listeners and routes.
        (
            "M150 M158",
            String::from(
                "
                set cds c=eds; eds c=1; lds l=1; rds r=1
                > lds
                < lds first l=1
                > lds
                > rds r
                < rds first r=1
                ",
            ),
        ),
    ]);
}

/// A client that asks for endpoints on its stream is expected to ask for those of new clusters, too.
#[test]
fn a_proxy_that_asks_before_it_answers_is_waited_for_from_the_start() {
    run(&[(
        "M146 M150",
        String::from(
            "
            set cds c=eds; eds c=1; lds l=1
            > cds
            > lds
            < cds first c=eds
            > eds c
            > cds
            < eds first c=1
            <
            > eds c
            < lds first l=1
            ",
        ),
    )]);
}

/// The time of a request goes on where its client comes to see another view.
#[test]
fn a_move_to_another_view_does_not_begin_the_time_anew() {
    let script = "
        set cds c=1; rds r=1
        set @v cds c=2; rds r=2
        > cds
        < cds first c=1
        > rds r
        wait 3s
        <
        assign 1 v
        <
        wait 1900ms
        <
        wait 100ms
        < rds first r=2
    ";
    run_all_with(&gated(|_| ()), &[("M148 M223", script)]);
}
