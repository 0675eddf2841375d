//! Make before break behind the client's ACKs: what waits for what, and what stays meanwhile.
//!
//! In these scripts a cluster whose content begins with `eds` names endpoints: those of its own name, or
//! those behind a colon, as in `c=eds:e`.

use core::time::Duration;
use std::sync::Arc;

use crate::support::{Rig, run_all_with};
use xds_core::{
    Malformed,
    references::{Reference, ReferenceExtractor, Target},
    server::{
        AckGated, HeldBack, HeldBy, NackRecovery, Observation, OnStuck, OrderingPolicy,
        ServerConfig, Window,
    },
    types,
};

#[derive(Debug)]
struct ScriptReferences;

impl ReferenceExtractor for ScriptReferences {
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed> {
        let text = core::str::from_utf8(resource).expect("a script's resource");
        let (name, content) = text.split_once('=').expect("a script's resource");
        if let (types::CLUSTER, Some(rest)) = (type_url, content.strip_prefix("eds")) {
            let endpoints = rest.split_once(':').map_or(name, |(_, endpoints)| endpoints);
            let target = Target::Name(endpoints);
            found(Reference::new(types::CLUSTER_LOAD_ASSIGNMENT, target));
        }
        Ok(())
    }
}

fn gated(change: impl FnOnce(&mut AckGated)) -> ServerConfig {
    let mut policy = AckGated::default();
    policy.references = Some(Arc::new(ScriptReferences));
    change(&mut policy);
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::AckGated(policy);
    config
}

/// What was held back too long, as the held type, what of it, the type waited for, and why.
fn held(rig: &mut Rig) -> Vec<(String, HeldBack, String, HeldBy)> {
    let short = |url: &str| types::short_name(url).unwrap_or(url).to_owned();
    let held = |observation| match observation {
        Observation::Held { type_url, what, waits_for, why, after, .. } => {
            assert_eq!(after, Duration::from_secs(15));
            Some((short(type_url.as_str()), what, short(waits_for.as_str()), why))
        }
        _ => None,
    };
    rig.observations().into_iter().filter_map(held).collect()
}

/// A client with a listener, a route, a cluster and its endpoints, all accepted.
const SETTLED: &str = "
    set cds a=1; eds a=1; lds l=1; rds r=1
    > cds
    < cds first a=1
    > cds
    > eds a
    < eds first a=1
    > eds a
    > lds
    < lds first l=1
    > lds
    > rds r
    < rds first r=1
    > rds r
    <
";

const SETTLED_INCREMENTALLY: &str = "
    set cds a=1; eds a=1; lds l=1; rds r=1
    d> cds +*
    d< cds first a=1
    d> cds ack
    d> eds +a
    d< eds first a=1
    d> eds ack
    d> lds +*
    d< lds first l=1
    d> lds ack
    d> rds +r
    d< rds first r=1
    d> rds ack
    d<
";

fn settled(rest: &str) -> String {
    format!("{SETTLED}{rest}")
}

fn settled_incrementally(rest: &str) -> String {
    format!("{SETTLED_INCREMENTALLY}{rest}")
}

fn run(cases: &[(&str, String)]) {
    for (covers, script) in cases {
        run_all_with(&gated(|_| ()), &[(*covers, script.as_str())]);
    }
}

#[test]
fn each_step_waits_for_the_ack_of_the_one_before() {
    run(&[
        (
            "M146 IS17",
            String::from(
                "
            set cds a=1; eds a=1; lds l=1; rds r=1; srds q=1; vhds v=1; ecds x=1
            > vhds v
            > srds q
            > rds r
            > lds
            > eds a
            > ecds x
            > cds
            < cds first a=1
            < eds first a=1
            <                        # neither is accepted
            > cds
            <
            > eds a
            < lds first l=1
            < ecds first x=1
            <
            > lds
            < rds first r=1
            > rds r
            < srds first q=1
            > srds q
            < vhds first v=1
            <
        ",
            ),
        ),
        (
            "M146",
            settled(
                "
            set cds b=1; rds r=2
            < cds changed a=1 b=1
            <
            > rds r                  # listing the route again opens nothing
            <
            > cds
            < rds changed r=2
            <
        ",
            ),
        ),
        (
            "M146",
            settled_incrementally(
                "
            set cds b=1; rds r=2
            d< cds changed b=1
            d<
            d> cds ack
            d< rds changed r=2
            d<
        ",
            ),
        ),
    ]);
}

#[test]
fn what_is_not_subscribed_is_not_waited_for() {
    run(&[
        (
            "M150 M158 IS17",
            String::from(
                "
            set lds l=1; rds r=1; cds x=eds; eds x=1
            > lds l
            < lds first l=1
            > lds l
            > rds r
            < rds first r=1
            > rds r
            > cds x                  # a client that learns of clusters from routes
            < cds first x=eds
            > cds x
            > eds x
            < eds first x=1
            > eds x
            set cds y=eds -x; eds y=1 -x; rds r=2
            < rds changed r=2        # it cannot ask for y before
            <                        # but it still routes to x
            > rds r
            > cds x y
            < cds changed y=eds
            > cds y
            > eds y
            < eds resubscribed y=1
            > eds y
            <
        ",
            ),
        ),
        (
            "M150 M147",
            String::from(
                "
            set cds a=1 b=1
            > cds
            < cds first a=1 b=1
            > cds
            set cds -a               # nobody routes here
            < cds changed b=1
            > cds
            <
        ",
            ),
        ),
        (
            "M150 M147",
            String::from(
                "
            set cds a=1 b=1
            d> cds +*
            d< cds first a=1 b=1
            d> cds ack
            set cds -a
            d< cds changed -a
            d> cds ack
            d<
        ",
            ),
        ),
    ]);
}

#[test]
fn what_is_deleted_stays_until_nothing_refers_to_it() {
    run(&[
        (
            "M147 S0.160 S0.166",
            settled(
                "
            set cds -a b=1; eds -a b=1; rds r=2
            < cds changed a=1 b=1    # old and new
            > cds
            > eds a b
            < eds resubscribed b=1
            > eds a b
            < rds changed r=2
            <
            > rds r
            < cds changed b=1
            > cds
            > eds b
            < eds warming b=1
            > eds b
            <
        ",
            ),
        ),
        (
            "M147 S0.160 S0.166",
            settled_incrementally(
                "
            set cds -a b=1; eds -a b=1; rds r=2
            d< cds changed b=1
            d> cds ack
            d> eds +b
            d< eds resubscribed b=1
            d> eds ack
            d< rds changed r=2
            d<
            d> rds ack
            d< cds changed -a
            d<                       # the endpoints go when the cluster has gone
            d> cds ack
            d< eds changed -a
            d> eds ack
            d<
        ",
            ),
        ),
        (
            "M147 S0.166",
            settled_incrementally(
                "
            set lds -l m=1; rds -r s=1
            d< lds changed m=1 -l
            d> rds +s
            d<
            d> lds ack
            d< rds changed s=1 -r    # routes that no listener has are as good as gone
            d> rds ack
            d<
        ",
            ),
        ),
        // Only what is deleted after the last response is new to who lingers.
        (
            "M147 M81",
            settled(
                "
            set cds -a; rds r=2
            < rds changed r=2
            <
            set cds b=1
            < cds changed a=1 b=1
            set cds b=2 c=1
            > cds
            < cds changed a=1 b=2 c=1
            set cds -c
            > cds
            <
            > rds r
            < cds changed b=2
            > cds
            <
        ",
            ),
        ),
        (
            "M147",
            settled(
                "
            set cds x=1              # gone before anybody heard of it
            set cds -x
            <
            set cds y=1; rds r=2
            < cds changed a=1 y=1
            > cds
            < rds changed r=2
            > rds r
            <
        ",
            ),
        ),
        (
            "M147 M115",
            String::from(
                "
            set cds a=1 b=1; rds r=1
            d> cds +a +b
            d< cds first a=1 b=1
            d> cds ack
            d> rds +r
            d< rds first r=1
            d> rds ack
            set cds -a b=2; rds r=2
            d< cds changed b=2
            d> cds ack
            d< rds changed r=2
            d<
            d> rds ack
            d< cds changed -a
            d> cds ack
            d<
        ",
            ),
        ),
    ]);
}

#[test]
fn the_newest_target_counts() {
    run(&[
        // A name that comes back no longer lingers.
        (
            "M149",
            settled(
                "
            set cds -a b=1; rds r=2
            < cds changed a=1 b=1
            set cds a=2 -b; rds r=3
            > cds
            < cds changed a=2 b=1
            > cds
            < rds changed r=3
            > rds r
            < cds changed a=2
            > cds
            <
        ",
            ),
        ),
        (
            "M149",
            settled_incrementally(
                "
            set cds -a b=1; rds r=2
            d< cds changed b=1
            set cds a=2 -b; rds r=3
            d> cds ack
            d< cds changed a=2
            d> cds ack
            d< rds changed r=3
            d> rds ack
            d< cds changed -b
            d> cds ack
            d<
        ",
            ),
        ),
        // It came back and went again before it was told.
        (
            "M149",
            settled_incrementally(
                "
            set cds -a b=1; rds r=2
            d< cds changed b=1
            set cds a=2
            set cds -a
            d> cds ack
            d< rds changed r=2
            d> rds ack
            d< cds changed -a
            d> cds ack
            d<
        ",
            ),
        ),
        // And it came back as it was: there is nothing to say.
        (
            "M149 M104",
            settled(
                "
            set cds -a
            set cds a=1
            <
        ",
            ),
        ),
    ]);
}

/// What never stops changing holds up nothing: what waits needs only what was there when it changed.
#[test]
fn endpoints_that_change_all_the_time_hold_up_nothing() {
    run(&[
        (
            "M146 IS17",
            settled(
                "
            set eds a=2
            < eds changed a=2
            set cds b=1; rds r=2; eds a=3
            < cds changed a=1 b=1
            > cds
            > eds a
            < eds changed a=3
            set eds a=4
            > eds a
            < rds changed r=2
            < eds changed a=4
        ",
            ),
        ),
        (
            "M147 IS17",
            settled(
                "
            set cds -a; rds r=2
            < rds changed r=2
            set rds r=3
            > rds r                  # it was sent after the cluster was deleted, and accepted
            < rds changed r=3
            < cds changed
        ",
            ),
        ),
    ]);
}

/// With references the server knows which endpoints a cluster needs before the client asks.
#[test]
fn endpoints_that_clusters_name_are_waited_for() {
    run(&[
        (
            "M146 M151",
            settled(
                "
            set cds b=eds c=eds:d; eds b=1 d=1; rds r=2
            < cds changed a=1 b=eds c=eds:d
            > cds
            <                        # the client has yet to ask
            > eds a b
            < eds resubscribed a=1 b=1
            > eds a b
            <
            > eds a b d
            < eds resubscribed d=1
            <
            > eds a b d
            < rds changed r=2
        ",
            ),
        ),
        (
            "M146 M151",
            settled_incrementally(
                "
            set cds b=eds; eds b=1; rds r=2
            d< cds changed b=eds
            d> cds ack
            d<
            d> eds +b
            d< eds resubscribed b=1
            d<
            d> eds ack
            d< rds changed r=2
        ",
            ),
        ),
        (
            "M146",
            String::from(
                "
            set cds a=eds; eds a=1; rds r=1
            > cds
            < cds first a=eds
            > cds
            > eds *                  # who asks for all asks for these
            < eds first a=1
            > rds r
            <
            > eds *
            < rds first r=1
        ",
            ),
        ),
    ]);
}

/// Without them it waits for those that are asked for.
#[test]
fn without_references_the_clusters_acks_count() {
    let config = gated(|policy| policy.references = None);
    let script = settled(
        "
        set cds b=eds; eds b=1; rds r=2
        < cds changed a=1 b=eds
        > cds
        < rds changed r=2
        ",
    );
    run_all_with(&config, &[("M146", &script)]);
}

#[test]
fn a_step_that_is_rejected_or_not_answered_is_reported_and_held() {
    let (changes, deletions) = (HeldBack::Changes, HeldBack::Deletions);
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&settled("set cds b=1; rds r=2\n< cds changed a=1 b=1\nwait 14s"));
    assert_eq!(held(&mut rig), []);
    rig.run("wait 1s\n<");
    let unanswered = ("rds".into(), changes, "cds".into(), HeldBy::Unanswered);
    assert_eq!(held(&mut rig), [unanswered]);
    rig.run("wait 60s\n<");
    assert_eq!(held(&mut rig), [], "said once");
    rig.run(
        "
        > cds nack
        <
        set rds r=3
        wait 60s
        <
        set cds b=2
        < cds changed a=1 b=2
        > cds
        < rds changed r=3
        ",
    );
    assert_eq!(held(&mut rig), []);
    rig.run("> rds r\nset cds b=3; lds l=2\n< cds changed a=1 b=3\n> cds nack\nwait 15s\n<");
    assert_eq!(held(&mut rig), [("lds".into(), changes, "cds".into(), HeldBy::Rejected)]);

    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&settled("set cds -a; rds r=2\n< rds changed r=2\n> rds nack r\nwait 15s\n<"));
    assert_eq!(held(&mut rig), [("cds".into(), deletions, "rds".into(), HeldBy::Rejected)]);
    rig.run("set rds r=3\n< rds changed r=3\n> rds r\n< cds changed");
    println!("covers: M148");
}

#[test]
fn or_it_goes_on() {
    let mut rig = Rig::new(gated(|policy| policy.on_stuck = OnStuck::Continue));
    rig.run(&settled(
        "
        set cds -a b=1; rds r=2
        < cds changed a=1 b=1
        > cds nack
        <
        wait 15s
        < rds changed r=2
        < cds changed b=1            # nor does it stay any longer
        > rds r
        > cds
        set cds c=1; rds r=3
        < cds changed b=1 c=1
        wait 14s
        <                            # the next change waits again
        wait 1s
        < rds changed r=3
        ",
    ));
    let held = held(&mut rig);
    assert_eq!(held.len(), 2, "{held:?}");
    println!("covers: M148");
}

/// IS17: a client is not waited for for ever that does not ask for what the server would expect, even
/// where what is rejected holds.
#[test]
fn a_client_that_does_not_ask_is_waited_for_once() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(
        "
        set cds a=eds; eds a=1; rds r=1
        > cds
        < cds first a=eds
        > cds
        > rds r
        <
        wait 15s
        < rds first r=1
        > rds r
        set cds b=eds; eds b=1; rds r=2
        < cds changed a=eds b=eds
        > cds
        < rds changed r=2            # it never asks for endpoints at all
        > rds r
        ",
    );
    let not_asked = |name: &str| {
        (String::from("rds"), HeldBack::Changes, String::from("eds"), HeldBy::NotAsked(name.into()))
    };
    assert_eq!(held(&mut rig), [not_asked("a")]);
    rig.run(
        "
        > eds a
        < eds first a=1
        > eds a
        set cds c=eds; eds c=1; rds r=3
        < cds changed a=eds b=eds c=eds
        > cds
        > eds a
        < eds warming a=1
        > eds a
        <                            # now it does, so it may ask for these
        wait 15s
        < rds changed r=3
        > rds r
        <
        ",
    );
    assert_eq!(held(&mut rig), [not_asked("b")]);
    println!("covers: IS17 M150 M148");
}

/// The time may run out while something else is waited for than in the end.
#[test]
fn a_client_that_answers_too_late_is_still_waited_for_once_to_ask() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(
        "
        set cds a=eds; eds a=1; lds l=1
        > cds a
        < cds first a=eds
        > cds a
        > lds l
        <
        wait 14s
        set cds a=eds:a
        < cds changed a=eds:a
        set lds l=2
        wait 1s                      # now it is the answer that is waited for
        > cds a
        <
        wait 15s
        < lds first l=2
        > lds l
        ",
    );
    println!("covers: IS17 M150");
}

#[test]
fn heartbeats_do_not_begin_the_wait_anew() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(
        "
        set lds k~10s=1
        td> lds +k +l
        td< lds first k~10s=1 -l
        td> lds ack
        set cds a=eds; eds a=1
        td> cds +a
        td< cds first a=eds
        td> cds ack
        wait 1s
        set lds l=1
        td<
        wait 4s
        td< lds heartbeat k~10s
        td> lds ack
        wait 5s
        td< lds heartbeat k~10s
        td> lds ack
        wait 5s
        td< lds heartbeat k~10s
        td> lds ack
        wait 1s
        td< lds changed l=1
        td> lds ack
        ",
    );
    println!("covers: IS17 M148 M150");
}

#[test]
fn a_stuck_client_delays_only_itself() {
    let script = format!(
        "{SETTLED}
        2> cds
        2< cds first a=1
        2> cds
        2> rds r
        2< rds first r=1
        2> rds r
        set cds -a b=1; rds r=2
        < cds changed a=1 b=1
        2< cds changed a=1 b=1
        2> cds
        2< rds changed r=2
        2> rds r
        2< cds changed b=1
        2> cds
        <                        # the first has not answered yet
        set rds r=3
        2< rds changed r=3
        > cds
        < rds changed r=3        # the newest, once
        > rds r
        < cds changed b=1
        "
    );
    run_all_with(&gated(|_| ()), &[("IS25 M147", &script)]);
}

/// A client that comes back says what it has, and keeps what is gone until its routes are new.
#[test]
fn a_client_that_comes_back_keeps_what_it_routes_to() {
    run(&[(
        "M147 M117",
        settled_incrementally(
            "
        close
        set cds -a b=1; rds r=2
        2d> cds +* has:a=1
        2d> rds +r has:r=1
        2d< cds first b=1
        2d> cds ack
        2d< rds first r=2
        2d<
        2d> rds ack
        2d< cds changed -a
        2d> cds ack
        2d<
    ",
        ),
    )]);
}

/// M83, M231: whatever lingers is bounded like other deletions.
#[test]
fn no_more_lingers_than_is_remembered() {
    let mut config = gated(|_| ());
    config.limits.deletions_per_type = 2;
    run_all_with(
        &config,
        &[(
            "M147 M231",
            "
            set cds a=1 b=1 c=1 d=1; rds r=1
            > cds
            < cds first a=1 b=1 c=1 d=1
            > cds
            > rds r
            < rds first r=1
            > rds r
            set rds r=2
            < rds changed r=2
            set cds -a
            set cds -b
            set cds -c
            set cds e=1
            < cds changed c=1 d=1 e=1
            > cds
            > rds r
            < cds changed d=1 e=1
            > cds
            <
            ",
        )],
    );
}

#[test]
fn rejected_resources_hold_what_depends_on_them_until_they_are_accepted() {
    let script = settled_incrementally(
        "
        set cds b=bad; rds r=2
        d< cds changed b=bad
        d> cds nack
        d<
        d> cds +a                # an answer to something else does not make up for it
        d< cds resubscribed a=1
        d> cds ack
        d<
        set cds b=2
        d< cds changed b=2
        d> cds ack
        d< rds changed r=2
        ",
    );
    let mut config = gated(|_| ());
    config.type_defaults.full_state.nack_recovery = NackRecovery::ResendBatch;
    config.type_defaults.others.nack_recovery = NackRecovery::ResendBatch;
    run_all_with(&config, &[("M148", &script)]);
}

/// What the client is known to reject holds what depends on it, however well the rest went.
#[test]
fn a_culprit_holds_what_depends_on_it_until_its_successor_is_accepted() {
    let script = settled_incrementally(
        "
        set cds b=1 c=bad; rds r=2
        d< cds changed b=1 c=bad
        d> cds nack
        d< cds recovery b=1
        d> cds ack
        d< cds recovery c=bad
        d> cds nack
        d<
        set cds c=2
        d< cds changed c=2
        d> cds ack
        d< rds changed r=2
        ",
    );
    let config = gated(|_| ()).with_every_type(|it| it.nack_recovery = NackRecovery::Isolate);
    run_all_with(&config, &[("M148 M108", &script)]);
}

/// One step is one response, however many a type may have on their way elsewhere.
#[test]
fn a_wide_window_is_closed_to_one_response() {
    let config = gated(|_| ()).with_every_type(|it| it.window = Window::new(3));
    run_all_with(
        &config,
        &[(
            "M146 M113",
            "
            set cds a=1
            > cds
            < cds first a=1
            set cds b=1
            <
            > cds
            < cds changed a=1 b=1
            ",
        )],
    );
}

/// IS7: what is asked about and was never there waits for nothing, also after a move.
#[test]
fn a_question_is_answered_though_clusters_are_not_accepted() {
    run(&[(
        "M223 M92",
        "
            set cds a=1; eds a=1
            set @v cds a=1; eds a=1
            d> cds +*
            d< cds first a=1
            d> eds +*
            d< eds first a=1
            d> eds ack
            d> eds +b -b
            assign 1 v
            d< eds changed -b
            "
        .to_owned(),
    )]);
}

/// Requests are served as they come.
#[test]
fn without_an_order_types_go_out_as_they_become_due() {
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::Off;
    run_all_with(
        &config,
        &[(
            "M144 S0.167",
            "
            set lds l=1; rds r=1; cds c=1; eds e=1
            > rds r
            > lds
            > cds
            < rds first r=1
            < lds first l=1
            < cds first c=1
            <
            > lds
            > rds r
            > cds
            set rds r=2
            set cds c=2
            set lds l=2
            < rds changed r=2
            > rds r
            set rds r=3
            < cds changed c=2
            < lds changed l=2
            < rds changed r=3
            <
            ",
        )],
    );
}
