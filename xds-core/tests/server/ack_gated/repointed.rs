//! Clusters that come to name other endpoints: a proxy warms such a cluster with the new ones and uses the old ones
//! until it has them, which therefore stay as long (M147).

use super::*;

/// An incremental client with a cluster that names endpoints `e`, all accepted; `cds` says how it asks for the
/// cluster.
fn using_e(cds: &str, rest: &str) -> String {
    format!(
        "
        set cds a=eds:e; eds e=1
        d> cds +{cds}
        d< cds first a=eds:e
        d> cds ack
        d> eds +e
        d< eds first e=1
        d> eds ack
        d<
        {rest}"
    )
}

/// The same, and the cluster names `f` from now on, which the client has accepted.
fn repointed(cds: &str, rest: &str) -> String {
    using_e(
        cds,
        &format!(
            "
        set cds a=eds:f; eds -e f=1
        d< cds changed a=eds:f
        d<
        d> cds ack
        d<                       # it uses e yet
        {rest}"
        ),
    )
}

#[test]
fn old_endpoints_stay_until_the_new_ones_are_accepted() {
    for cds in ["*", "a"] {
        run(&[
            (
                "M147 M151 IS17",
                repointed(
                    cds,
                    "
                d> eds +f
                d< eds resubscribed f=1
                d<
                d> eds ack
                d< eds changed -e
                d> eds ack
                d<
                ",
                ),
            ),
            // Whoever has asked before it accepts the cluster is sent them as soon.
            (
                "M147",
                using_e(
                    cds,
                    "
                set cds a=eds:f; eds -e f=1
                d< cds changed a=eds:f
                d> eds +f
                d< eds resubscribed f=1
                d> cds ack
                d<
                d> eds ack
                d< eds changed -e
                ",
                ),
            ),
            // It has let go of them itself.
            (
                "M147",
                repointed(
                    cds,
                    "
                d> eds +f -e
                d< eds resubscribed f=1
                d> eds ack
                d<
                ",
                ),
            ),
            // What it rejects it has not got.
            (
                "M147 M148",
                repointed(
                    cds,
                    "
                d> eds +f
                d< eds resubscribed f=1
                d> eds nack
                d<
                wait 60s
                d<
                set eds f=2
                d< eds changed f=2
                d<
                d> eds ack
                d< eds changed -e
                ",
                ),
            ),
            // The newest target counts.
            (
                "M147 M149",
                repointed(
                    cds,
                    "
                d> eds +f
                d< eds resubscribed f=1
                set cds a=eds:g; eds -f g=1
                d> eds ack
                d< cds changed a=eds:g
                d> cds ack
                d<
                d> eds +g
                d< eds resubscribed g=1
                d<
                d> eds ack
                d< eds changed -e -f
                d> eds ack
                d<
                ",
                ),
            ),
        ]);
    }
    println!("covers: M147 IS17");
}

/// A cluster that needs no endpoints any more, or is gone, is warmed with none.
#[test]
fn what_nothing_takes_the_place_of_goes_with_the_cluster() {
    run(&[
        (
            "M147",
            using_e(
                "*",
                "
                set cds a=1; eds -e
                d< cds changed a=1
                d<
                d> cds ack
                d< eds changed -e
                d> eds ack
                d<
                ",
            ),
        ),
        (
            "M147",
            using_e(
                "*",
                "
                set cds b=1 -a; eds -e
                d< cds changed b=1 -a
                d<
                d> cds ack
                d< eds changed -e
                d> eds ack
                d<
                ",
            ),
        ),
    ]);
}

/// The cluster goes before its new endpoints came: what routes lead to uses the old ones until it is gone.
#[test]
fn a_cluster_that_stays_for_routes_keeps_the_endpoints_that_it_uses() {
    run(&[(
        "M147 M149",
        String::from(
            "
            set cds a=eds:e; eds e=1; rds r=1
            d> cds +*
            d< cds first a=eds:e
            d> cds ack
            d> eds +e
            d< eds first e=1
            d> eds ack
            d> rds +r
            d< rds first r=1
            d> rds ack
            set cds a=eds:f; eds -e f=1
            d< cds changed a=eds:f
            d> cds ack
            set cds b=1 -a; eds -f; rds r=2
            d< cds changed b=1
            d> cds ack
            d< rds changed r=2
            d<
            d> rds ack
            d< cds changed -a
            d> cds ack
            d< eds changed -e
            d> eds ack
            d<
            ",
        ),
    )]);
}

/// M148, IS17: like routes, old endpoints wait for a question that may never come no longer than the timeout, and
/// for an answer as long as the policy says.
#[test]
fn nobody_is_waited_for_who_never_asks_for_the_new_ones() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&repointed("*", "wait 4s\nd<"));
    assert_eq!(held(&mut rig), []);
    rig.run("wait 1s\nd< eds changed -e\nd> eds ack\nd<");
    let not_asked = HeldBy::NotAsked("f".into());
    assert_eq!(held(&mut rig), [("eds".into(), HeldBack::Deletions, "eds".into(), not_asked)]);

    let mut rig = Rig::new(gated(|it| it.on_stuck = OnStuck::Hold));
    rig.run(&repointed("*", "d> eds +f\nd< eds resubscribed f=1\nd> eds nack\nwait 5s\nd<"));
    let rejected = ("eds".to_owned(), HeldBack::Deletions, "eds".to_owned(), HeldBy::Rejected);
    assert_eq!(held(&mut rig), core::slice::from_ref(&rejected));

    let mut rig = Rig::new(gated(|it| it.on_stuck = OnStuck::Continue));
    rig.run(&repointed("*", "d> eds +f\nd< eds resubscribed f=1\nd> eds nack\nwait 5s"));
    rig.run("d< eds changed -e\nd> eds ack\nd<");
    assert_eq!(held(&mut rig), [rejected]);
    println!("covers: M148 IS17");
}
