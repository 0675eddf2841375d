//! Clusters that change their EDS service: a proxy warms the cluster with the new endpoints and
//! uses the old ones meanwhile, so these stay.
// M147

use super::*;

/// An incremental client with a cluster that references the endpoints `e`, all ACKed.
const USING_E: &str = "
    set cds a=eds:e; eds e=1
    d> cds +*  | d< cds first a=eds:e
    d> cds ack
    d> eds +e  | d< eds first e=1
    d> eds ack | d<
";

/// The cluster references `f` afterwards, which the client has ACKed.
const USING_F: &str = "
    using-e
    set cds a=eds:f; eds -e f=1 | d< cds changed a=eds:f | d<
    d> cds ack                  | d<  # it still uses e
";

const STARTS: [(&str, &str); 2] = [("using-f", USING_F), ("using-e", USING_E)];

fn started(script: &str) -> String {
    expanded(&STARTS, script)
}

#[test]
fn old_endpoints_stay_until_replacement_is_acked() {
    let table = "
        == old endpoints stay until the new ones are ACKed [M147 M151 IS17]
        using-f
        d> eds +f  | d< eds resubscribed f=1 | d<
        d> eds ack | d< eds changed -e
        d> eds ack | d<
        == EDS request before the CDS ACK [M147]
        using-e
        set cds a=eds:f; eds -e f=1 | d< cds changed a=eds:f
        d> eds +f                   | d< eds resubscribed f=1
        d> cds ack                  | d<
        d> eds ack                  | d< eds changed -e
        == client unsubscribes from the old endpoints itself [M147]
        using-f
        d> eds +f -e | d< eds resubscribed f=1
        d> eds ack   | d<
        == NACKed endpoints keep the old ones [M147 M148]
        using-f
        d> eds +f   | d< eds resubscribed f=1
        d> eds nack | d<
        wait 60s    | d<
        set eds f=2 | d< eds changed f=2 | d<
        d> eds ack  | d< eds changed -e
        == newest target counts [M147 M149]
        using-f
        d> eds +f  | d< eds resubscribed f=1
        set cds a=eds:g; eds -f g=1
        d> eds ack | d< cds changed a=eds:g
        d> cds ack | d<
        d> eds +g  | d< eds resubscribed g=1 | d<
        d> eds ack | d< eds changed -e -f
        d> eds ack | d<
        ";
    for cds in ["*", "a"] {
        let starts =
            STARTS.map(|(name, start)| (name, start.replace("cds +*", &format!("cds +{cds}"))));
        let starts = starts.each_ref().map(|(name, start)| (*name, start.as_str()));
        run_table(&gated(|_| ()), &starts, table);
    }
    println!("covers: M147 IS17");
}

// Endpoints are held back for the clusters that named them, and for no others.
#[test]
fn removed_endpoints_wait_only_for_clusters_that_named_them() {
    let table = "
        == a cluster that warms does not hold the endpoints of another one [M147 M151]
        using-e
        set cds b=eds:h; eds h=1          | d< cds changed b=eds:h
        d> cds ack
        d> eds +h                         | d< eds resubscribed h=1
        d> eds ack                        | d<
        set cds a=eds:f b=1; eds -h f=1   | d< cds changed a=eds:f b=1
        d> cds ack                        | d< eds changed -h
        d> eds ack
        set eds -e                        | d<  # it still uses e, while it warms with f
        d> eds +f                         | d< eds resubscribed f=1 | d<
        d> eds ack                        | d< eds changed -e
        == endpoints of a version that was replaced before it was warm [M147 M151]
        using-f
        set cds a=eds:g; eds -f g=1       | d< cds changed a=eds:g
        d> cds ack                        | d<  # it uses e, or f if it had requested it
        d> eds +g                         | d< eds resubscribed g=1 | d<
        d> eds ack                        | d< eds changed -e
        ";
    run_table(&gated(|_| ()), &STARTS, table);
    println!("covers: M147 M151");
}

// A client that rejected new endpoints of a cluster uses the old ones until the cluster is removed.
#[test]
fn endpoints_are_removed_after_a_cluster_whose_change_was_rejected() {
    run_table(
        &gated(|_| ()),
        &STARTS,
        "
        == the cluster is removed after its change was rejected [M147 M148]
        using-e
        set lds l=1
        d> lds +*                 | d< lds first l=1
        d> lds ack
        set cds a=eds:f; eds f=1  | d< cds changed a=eds:f
        d> cds nack               | d<
        set cds -a b=1; eds -e    | d< cds changed b=1 -a | d<
        d> cds ack                | d< eds changed -e
        == the client requested the endpoints of a change that it rejected [M147 M148]
        using-e
        set cds a=eds:f; eds f=1    | d< cds changed a=eds:f
        d> cds nack                 | d<
        d> eds +f                   | d< eds resubscribed f=1
        d> eds ack
        set cds a=eds:g; eds -f g=1 | d< cds changed a=eds:g
        d> cds ack                  | d<  # it uses e or f, while it warms with g
        d> eds +g                   | d< eds resubscribed g=1 | d<
        d> eds ack                  | d< eds changed -f
        ",
    );
    println!("covers: M147 M148");
}

// A removed cluster came back, and was sent with endpoints before it changed back.
#[test]
fn cluster_that_came_back_is_known_by_what_was_accepted() {
    run_table(
        &gated(|_| ()),
        &[],
        "
        == the cluster came back with endpoints, and then changed back [M147 M151]
        set cds a=1; lds l=1; eds e=1 x=1
        > cds *                     | < cds first a=1
        > cds ack *
        > eds x                     | < eds first x=1
        > eds ack x
        > lds *                     | < lds first l=1
        > lds ack *
        set cds -a b=1; lds l=2     | < cds changed a=1 b=1
        > cds ack *                 | < lds changed l=2
        set cds a=eds:e             | < cds changed a=eds:e b=1
        set cds a=1
        > cds ack *                 | < cds changed a=1 b=1
        > cds ack *
        set lds l=3
        > lds ack *                 | < lds changed l=3
        ",
    );
    println!("covers: M147 M151");
}

// The listener refers to a cluster whose endpoints were deleted before they were sent. It waits until
// the client has ACKed the endpoints that are created again.
#[test]
fn listener_waits_for_endpoints_that_are_created_again() {
    let table = "
        == endpoints are deleted before they warm a cluster, and come back [M147 M151 IS17]
        using-e
        set eds f=1
        d> eds +f                  | d< eds resubscribed f=1
        d> eds ack
        d> lds +*                  | d< lds first
        d> lds ack                 | d<
        set cds b=eds:e; lds l=1   | d< cds changed b=eds:e
        set cds -a b=1; eds -e f=2 | d< eds changed f=2
        d> cds ack                 | d< cds changed b=1
        d> eds ack                 | d<
        d> cds nack                | d<
        set cds c=eds:e; eds e=2   | d< cds changed b=1 c=eds:e | d< eds changed e=2 | d<
        d> eds ack                 | d< lds changed l=1
        ";
    run_table(&gated(|_| ()), &STARTS, table);
    println!("covers: M147 M151 IS17");
}

// IS26: endpoints that fit into no response are reported as an error and hold nothing back.
#[test]
fn endpoints_that_are_too_long_block_nothing() {
    for script in [
        "
        d> cds +*    | d< cds first a=eds:e b=eds:f
        d> cds ack
        d> eds +e +f | d< eds first !f=8 e=1
        d> eds ack
        d> lds +*    | d< lds first l=1",
        "
        > cds *      | < cds first a=eds:e b=eds:f
        > cds ack *
        > eds e f    | < eds first !f=8 e=1
        > eds ack e f
        > lds *      | < lds first l=1",
    ] {
        let mut config = gated(|_| ());
        config.limits.response_bytes = 300;
        let mut rig = Rig::new(config);
        let long = "x".repeat(400);
        rig.run(&format!("set cds a=eds:e b=eds:f; eds e=1 f={long}; lds l=1"));
        rig.run(script);
    }
    println!("covers: IS26 M147");
}

#[test]
fn endpoints_without_replacement_are_removed_with_cluster() {
    run_table(
        &gated(|_| ()),
        &STARTS,
        "
        == cluster without EDS releases its endpoints [M147]
        using-e
        set cds a=1; eds -e | d< cds changed a=1 | d<
        d> cds ack          | d< eds changed -e
        d> eds ack          | d<
        == removed cluster releases its endpoints [M147]
        using-e
        set cds b=1 -a; eds -e | d< cds changed b=1 -a | d<
        d> cds ack             | d< eds changed -e
        d> eds ack             | d<
        == cluster deferred for routes keeps the endpoints in use [M147 M149]
        set cds a=eds:e; eds e=1; rds r=1
        d> cds +*                       | d< cds first a=eds:e
        d> cds ack
        d> eds +e                       | d< eds first e=1
        d> eds ack
        d> rds +r                       | d< rds first r=1
        d> rds ack
        set cds a=eds:f; eds -e f=1     | d< cds changed a=eds:f
        d> cds ack
        set cds b=1 -a; eds -f; rds r=2 | d< cds changed b=1
        d> cds ack                      | d< rds changed r=2 | d<
        d> rds ack                      | d< cds changed -a
        d> cds ack                      | d< eds changed -e
        d> eds ack                      | d<
        ",
    );
}

// M148, IS17: a missing EDS request is awaited until the timeout, and a missing ACK as the policy
// says.
#[test]
fn missing_eds_request_is_awaited_until_timeout() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&started("using-f\nwait 4s\nd<"));
    assert_eq!(held(&mut rig), []);
    rig.run("wait 1s\nd< eds changed -e\nd> eds ack\nd<");
    let not_asked = BlockedBy::NotRequested("f".into());
    assert_eq!(held(&mut rig), [("eds".into(), BlockedChange::Deletions, "eds".into(), not_asked)]);

    let mut rig = Rig::new(gated(|it| it.on_stage_timeout = StageTimeoutAction::Hold));
    rig.run(&started("using-f\nd> eds +f\nd< eds resubscribed f=1\nd> eds nack\nwait 5s\nd<"));
    let rejected =
        ("eds".to_owned(), BlockedChange::Deletions, "eds".to_owned(), BlockedBy::Rejected);
    assert_eq!(held(&mut rig), core::slice::from_ref(&rejected));

    let mut rig = Rig::new(gated(|it| it.on_stage_timeout = StageTimeoutAction::Continue));
    rig.run(&started("using-f\nd> eds +f\nd< eds resubscribed f=1\nd> eds nack\nwait 5s"));
    rig.run("d< eds changed -e\nd> eds ack\nd<");
    assert_eq!(held(&mut rig), [rejected]);
    println!("covers: M148 IS17");
}
