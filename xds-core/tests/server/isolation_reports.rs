//! Reports of rejections and of client status while rejected resources are sent alone.

use crate::{
    nack_isolation::{culprits, isolating},
    support::Rig,
};
use xds_core::{ResourceName, server::SyncState};

// M108, M233: rejected resources are reported, and remembered until they change.
#[test]
fn isolated_resources_are_reported_until_changed() {
    let known = |rig: &Rig| {
        let status = rig.server.status().next().expect("a subscription");
        status.rejected_resources.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let mut rig = Rig::new(isolating());
    rig.run(
        "
        set eds a=bad b=1 c=bad
        d> eds +a +b +c
        d< eds first a=bad b=1 c=bad
        d> eds nack
        d< eds recovery a=bad
        ",
    );
    assert_eq!(culprits(&mut rig), [""; 0]);
    rig.run("d> eds nack\nd< eds recovery b=1\nd> eds ack\nd< eds recovery c=bad\nd> eds nack");
    assert_eq!(culprits(&mut rig), ["a", "c"]);
    assert_eq!(known(&rig), ["a", "c"]);
    assert_eq!(rig.server.stats().causes.recovery, 3);
    rig.run("set eds a=good\nd< eds changed a=good");
    assert_eq!(known(&rig), ["c"]);
    rig.run("d> eds ack\nset eds c=worse\nd< eds changed c=worse\nd> eds nack\nd<");
    assert_eq!(culprits(&mut rig), ["c"], "it was the only one");
    let status = rig.server.status().next().expect("a subscription");
    assert_eq!((status.state, status.rejected_resources.len()), (SyncState::Nacked, 1));
    println!("covers: M108 M233");
}

// IS29: the report names the isolated resource, and is empty once its replacement is accepted.
#[test]
fn rejection_report_names_isolated_resource() {
    for script in [
        "
        set cds a=1 b=bad
        d> cds +*
        d< cds first a=1 b=bad
        d> cds nack
        d< cds recovery a=1
        d> cds ack
        d< cds recovery b=bad
        d> cds nack
        d<",
        "
        set cds a=1 b=bad
        d> cds +a +b
        d< cds first a=1 b=bad
        d> cds nack
        d< cds recovery a=1
        d> cds ack
        d< cds recovery b=bad
        d> cds nack
        d<",
    ] {
        let mut rig = Rig::new(isolating());
        rig.run(script);
        let reported = |rig: &Rig| -> Vec<Vec<String>> {
            let names = |names: &[ResourceName]| names.iter().map(ToString::to_string).collect();
            rig.server.rejections().map(|rejection| names(rejection.names)).collect()
        };
        assert_eq!(reported(&rig), [["b"]]);
        rig.run(
            "
            set cds b=good
            d< cds changed b=good
            d> cds ack",
        );
        assert_eq!(reported(&rig), Vec::<Vec<String>>::new());
    }
}

// A rejection stays in the report until nothing is left of it, whatever is accepted meanwhile.
#[test]
fn rejection_of_a_full_state_ends_when_nothing_is_left_of_it() {
    for end in [
        "set cds b=good c=good\n< cds changed a=1 b=good c=good d=1\n> cds",
        "set cds -b -c\n< cds changed a=1 d=1\n> cds",
        "set cds b=1 -c\n< cds changed a=1 b=1 d=1\n> cds",
    ] {
        let mut rig = Rig::new(isolating());
        rig.run(
            "
            set cds a=1 b=1
            > cds
            < cds first a=1 b=1
            > cds
            set cds b=bad c=bad d=1
            < cds changed a=1 b=bad c=bad d=1
            > cds nack
            < cds recovery a=1 b=bad
            sync cds a:synced b:stale c:error d:error
            > cds nack
            < cds recovery a=1 b=1 c=bad
            sync cds a:synced b:error c:stale d:error
            > cds nack
            < cds recovery a=1 b=1 d=1
            sync cds a:synced b:error c:error d:stale
            > cds
            <
            sync cds a:synced b:error c:error d:synced
            lag cds 2 rejected 1
            lag cds 1",
        );
        let reported = |rig: &Rig| -> Vec<String> {
            rig.server.rejections().flat_map(|it| it.names).map(ToString::to_string).collect()
        };
        assert_eq!(reported(&rig), ["c"]);
        rig.run(end);
        assert_eq!(reported(&rig), [""; 0], "{end}");
    }
}

// The same, where what is left is the state that the client has, so nothing is sent.
#[test]
fn rejection_of_a_full_state_ends_without_a_response() {
    let mut rig = Rig::new(isolating());
    rig.run(
        "
        set cds a=1 b=1
        > cds
        < cds first a=1 b=1
        > cds
        set cds b=bad c=bad
        < cds changed a=1 b=bad c=bad
        > cds nack
        < cds recovery a=1 b=bad
        > cds
        <
        lag cds 2 rejected 1
        set cds -c
        <
        lag cds 3",
    );
    assert_eq!(rig.server.rejections().count(), 0);
}

// An incremental client has the resources that it accepted alone, and no others of the rejected response.
#[test]
fn status_of_incremental_client_shows_which_resources_it_accepted_alone() {
    for names in ["+*", "+a +b +c"] {
        Rig::new(isolating()).run(&format!(
            "
            set cds a=1 b=bad c=1
            d> cds {names}
            d< cds first a=1 b=bad c=1
            d> cds nack
            d< cds recovery a=1
            sync cds a:stale b:error c:error
            d> cds ack
            d< cds recovery b=bad
            sync cds a:synced b:stale c:error
            d> cds nack
            d< cds recovery c=1
            d> cds ack
            d<
            sync cds a:synced b:error c:synced
            lag cds 1 rejected 1"
        ));
    }
    println!("covers: M108 M234");
}

// The report ends when the client subscribes to nothing that it rejected, not only to the last of it.
#[test]
fn rejection_ends_when_all_rejected_names_are_dropped() {
    let mut rig = Rig::new(isolating());
    rig.run(
        "
        set lds a=1 b=1 c=1
        > lds a b c
        < lds first a=1 b=1 c=1
        > lds a b c
        set lds b=bad c=bad
        < lds changed a=1 b=bad c=bad
        > lds nack a b c
        < lds recovery a=1 b=bad c=1
        > lds nack a b c
        < lds recovery a=1 b=1 c=bad
        > lds nack a b c
        > lds a b
        lag lds 2 rejected 1
        > lds a
        lag lds 2",
    );
    println!("covers: M108 IS29");
}

// A rejected resource that is sent again because the client subscribed again is stale until it is answered.
#[test]
fn rejected_resource_in_flight_again_is_stale() {
    Rig::new(isolating()).run(
        "
        set eds a=bad
        d> eds +a
        d< eds first a=bad
        d> eds nack
        d> eds +a
        d< eds resubscribed a=bad
        sync eds a:stale
        d> eds nack
        sync eds a:error",
    );
    println!("covers: M108 M234");
}
