//! Label versions: set by the application, with no conclusions drawn from them.

use crate::support::{Rig, payload, run_all_with, transaction, url};
use xds_core::{
    Time,
    server::{
        NackDetection, NackRecovery, Observation, ReconnectTrust, Server, ServerConfig,
        Transaction, TransactionError, TypeConfig, VersionMode,
    },
};

fn labels_and(mut change: impl FnMut(&mut TypeConfig)) -> ServerConfig {
    ServerConfig::default().with_every_type(|it| {
        it.versions = VersionMode::Label;
        change(it);
    })
}

fn labels() -> ServerConfig {
    labels_and(|_| {})
}

#[test]
fn label_may_be_reused_for_other_resources() {
    run_all_with(
        &labels(),
        &[
            (
                "M72",
                "
                set cds v:1 a=1; eds v:1 a^1=1
                > cds
                < cds first v:1 a=1
                > cds
                2d> eds +a +b
                2d< eds first v:1 a^1=1 -b
                2d> eds ack
                set cds v:1 b=1; eds v:1 b^1=1
                < cds changed v:1 a=1 b=1
                > cds
                2d< eds changed v:1 b^1=1
                2d> eds ack
                set cds v:1 a=1 b=1; eds v:1 b^1=1
                <
                2d<",
            ),
            // A change without a label keeps the label; a new label without a change is sent in
            // full (M69).
            (
                "M69 M72",
                "
                set cds v:1 a=1
                > cds
                < cds first v:1 a=1
                > cds
                set cds c=1
                < cds changed v:1 a=1 c=1
                > cds
                set cds v:2
                < cds changed v:2 a=1 c=1
                > cds
                set cds -c
                < cds changed v:2 a=1",
            ),
        ],
    );
}

// M101: the replacement of a rejected state under the same label is not the accepted state.
#[test]
fn reused_label_after_nack_is_sent_again() {
    for recovery in [NackRecovery::ResendBatch, NackRecovery::Minimal, NackRecovery::Isolate] {
        let mut rig = Rig::new(labels_and(|it| it.nack_recovery = recovery));
        rig.run(
            "
            set cds v:1 a=1
            > cds
            < cds first v:1 a=1
            > cds
            set cds v:1 a=2
            < cds changed v:1 a=2
            > cds nack
            <
            set cds v:1 a=3
            < cds changed v:1 a=3
            > cds",
        );
    }
    println!("covers: M72");
}

// M41, M42: a reconnecting client gets the current state, whatever version it states.
#[test]
fn label_is_not_trusted_on_reconnect() {
    for trust in [ReconnectTrust::Never, ReconnectTrust::WildcardOnly, ReconnectTrust::SameNames] {
        let mut rig = Rig::new(labels_and(|it| it.reconnect_trust = trust));
        rig.run(
            "
            set cds v:1 a=1 b=1; eds v:1 e=1
            > cds
            < cds first v:1 a=1 b=1
            > cds
            close
            set cds v:1 c=1
            2> cds version:1
            2< cds first v:1 a=1 b=1 c=1
            2> cds
            3> cds version:1 c
            3< cds first v:1 c=1
            3> cds c
            4> eds version:1 e
            4< eds first v:1 e=1
            3> cds c
            set cds v:1 -c
            5> cds version:1 c
            5< cds first v:1",
        );
    }
    println!("covers: M41 M42 M72");
}

// S0.078, M108: the label identifies the ACKs of old clients, and partial states have the same
// label.
#[test]
fn partial_responses_have_the_label() {
    let mut rig = Rig::new(labels_and(|it| {
        it.nack_detection = NackDetection::ErrorDetailOrVersion;
        it.nack_recovery = NackRecovery::Isolate;
    }));
    rig.run(
        "
        set cds v:1 a=1
        > cds
        < cds first v:1 a=1
        > cds
        set cds v:2 b=1 c=1
        < cds changed v:2 a=1 b=1 c=1
        > cds version:1
        < cds recovery v:2 a=1 b=1
        > cds",
    );
    let is_nack =
        |it: &Observation| matches!(it, Observation::Nacked { version, .. } if *version == "2");
    assert_eq!(rig.observations().iter().filter(|it| is_nack(it)).count(), 1);
    println!("covers: M57 M72 M108");
}

#[test]
fn invalid_label_is_refused() {
    let mut server = Server::new(labels(), 1, Time::ZERO);
    let mut apply =
        |changes: &str| server.apply(transaction(changes), Time::ZERO).map(|it| it.changed);
    let type_url = || url("eds").into();
    assert_eq!(apply("eds a=1"), Ok(1));
    assert_eq!(apply("eds v:1 b^1=1"), Ok(1));
    assert_eq!(apply("eds v:1 a=2"), Ok(1));
    let length = TransactionError::VersionLength { type_url: type_url(), bytes: 0, limit: 2_048 };
    assert_eq!(apply("eds v: a=3"), Err(length));
    // Incremental clients state resource versions when they reconnect.
    assert_eq!(apply("eds v:2 b^1=2"), Err(TransactionError::ReusedResourceVersion { change: 0 }));
    assert_eq!(server.version(&url("eds")), Some("1".into()));
    println!("covers: M72 M218");
}

#[test]
fn snapshot_may_reuse_label() {
    let mut rig = Rig::new(labels());
    let mut set = |names: &[&str]| {
        let mut snapshot = Transaction::snapshot("");
        for name in names {
            snapshot.set(url("cds"), *name, payload(name, "1"));
        }
        snapshot.set_version(url("cds"), "1");
        let applied = rig.server.apply(snapshot, rig.now).unwrap();
        rig.drain();
        (applied.changed, applied.removed)
    };
    assert_eq!(set(&["a", "b"]), (2, 0));
    assert_eq!(set(&["b", "c"]), (1, 1));
    rig.run("> cds\n< cds first v:1 b=1 c=1");
    println!("covers: M72 M216");
}

// M52, M72: a rejected state is not sent again under another version.
#[test]
fn rejected_state_with_new_version_is_not_resent() {
    let script = "
        set cds v:1 a=1
        > cds a
        < cds first a=1
        > cds nack a
        set cds v:2 b=1
        set cds v:3 -b
        > cds nack a
        <
        set cds v:4 b=1
        > cds nack a
        <
        > cds nack b             # without the invalid resource it is another state
        < cds resubscribed b=1
        > cds b";
    let without = ["v:1 ", "v:2 ", "v:3 ", "v:4 "];
    let without = without.iter().fold(script.to_owned(), |script, it| script.replace(it, ""));
    let of = |versions| ServerConfig::default().with_every_type(|it| it.versions = versions);
    for versions in [VersionMode::Caller, VersionMode::Label] {
        Rig::new(of(versions)).run(script);
    }
    for versions in [VersionMode::Content, VersionMode::Counter] {
        Rig::new(of(versions)).run(&without);
    }
    println!("covers: M52 M72");
}

// S0.078: a NACK without an error is recognized only if the label has changed.
#[test]
fn nack_by_version_needs_changed_label() {
    let mut rig =
        Rig::new(labels_and(|it| it.nack_detection = NackDetection::ErrorDetailOrVersion));
    rig.run(
        "
        set cds v:1 a=1
        > cds
        < cds first v:1 a=1
        > cds
        set cds v:1 a=2
        < cds changed v:1 a=2
        > cds version:1              # the label cannot tell
        set cds v:2 a=3
        < cds changed v:2 a=3
        > cds version:1
        <",
    );
    assert_eq!((rig.server.stats().acks, rig.server.stats().nacks), (2, 1));
    println!("covers: S0.078 M57 M72");
}
