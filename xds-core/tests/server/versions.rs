//! Version modes: content digests, counters, and versions set by the application.

use crate::support::{Rig, payload, run_all_with, transaction, url};
use xds_core::{
    Time, VersionPrefix,
    server::{
        MakeBeforeBreakPolicy, NackDetection, NackRecovery, Observation, OrderingPolicy,
        ReconnectTrust, Server, ServerConfig, Transaction, TransactionError, TypeConfig,
        VersionMode,
    },
};

fn every_type(change: impl FnMut(&mut TypeConfig)) -> ServerConfig {
    ServerConfig::default().with_every_type(change)
}

fn callers() -> ServerConfig {
    every_type(|it| it.versions = VersionMode::Caller)
}

fn counted(prefix: &str) -> ServerConfig {
    let mut config = every_type(|it| it.versions = VersionMode::Counter);
    config.version_prefix = VersionPrefix::from(prefix);
    config
}

/// Versions last sent of a type, by stream.
fn sent(rig: &Rig, short: &str) -> Vec<String> {
    let of_type = rig.server.status().filter(|it| it.type_url.as_str() == url(short));
    of_type.map(|it| it.sent_version.map_or_else(String::new, |it| it.to_string())).collect()
}

#[test]
fn application_sets_type_version() {
    run_all_with(
        &callers(),
        &[
            // All clients get the same version, in both variants.
            (
                "M72",
                "
                set cds v:one a=1 b=1; eds v:1 a=1 b=1
                > cds
                < cds first v:one a=1 b=1
                2> cds a
                2< cds first v:one a=1
                3> eds a
                3< eds first v:1 a=1
                4d> eds +*
                4d< eds first v:1 a=1 b=1
                > cds
                2> cds a
                4d> eds ack
                set cds v:two a=2; eds v:2 b=2
                < cds changed v:two a=2 b=1
                2< cds changed v:two a=2
                3<                       # no subscribed resource
                4d< eds changed v:2 b=2
                > cds
                set cds v:three -a -b
                < cds changed v:three",
            ),
            // M68: an unchanged state is not sent; the same state with another version is.
            (
                "M69 M68 M216",
                "
                set cds v:1 a=1 b=1; eds v:1 a=1 b=1
                > cds
                < cds first v:1 a=1 b=1
                > cds
                > eds a
                < eds first v:1 a=1
                > eds a
                2> eds *
                2< eds first v:1 a=1 b=1
                2> eds *
                3d> eds +a
                3d< eds first v:1 a=1
                3d> eds ack
                set cds v:1 a=1; eds v:1 b=1
                <
                2<
                3d<
                set eds v:2
                < eds changed v:2 a=1
                > eds a
                2< eds changed v:2 a=1 b=1
                2> eds *
                3d<                      # resources have their own versions
                set cds v:2 a=1 b=1
                < cds changed v:2 a=1 b=1
                > cds
                <
                set cds -none; eds -none
                <
                2<",
            ),
            // A new subscription is answered with the current version (M46).
            (
                "M72 M46",
                "
                set cds v:x a=1 b=1
                > cds a
                < cds first v:x a=1
                > cds a b
                < cds resubscribed v:x a=1 b=1",
            ),
            // A version is set while there are no resources.
            (
                "M72",
                "
                > cds
                < cds first v:0000000000000000
                > cds
                set cds v:1
                < cds changed v:1
                > cds
                set cds v:2 a=1
                < cds changed v:2 a=1",
            ),
        ],
    );
}

/// A resource keeps its explicit version when others change; other resources have digests.
#[test]
fn application_sets_resource_version() {
    run_all_with(
        &callers(),
        &[
            (
                "M72",
                "
                set eds v:1 a^1=1 b^1=1 c=1
                d> eds +*
                d< eds first v:1 a^1=1 b^1=1 c=1
                d> eds ack
                set eds v:2 a^2=2
                d< eds changed v:2 a^2=2
                d> eds ack
                set eds v:3 b^2=1        # the same in another version
                d< eds changed v:3 b^2=1
                d> eds ack
                2d> eds +a +b +c
                2d< eds first v:3 a^2=2 b^2=1 c=1",
            ),
            (
                "M116 M117 M118",
                "
                set eds v:1 a^1=1 b^1=1 c=1
                d> eds +a +b +c has:a@1 has:b@0 has:c@1
                d< eds first b^1=1 c=1
                d> eds ack
                2d> eds +* has:a@1 has:b@1
                2d< eds first c=1",
            ),
        ],
    );
}

#[test]
fn missing_or_reused_application_version_is_refused() {
    let mut server = Server::new(callers(), 1, Time::ZERO);
    let mut apply =
        |changes: &str| server.apply(transaction(changes), Time::ZERO).map(|it| it.changed);
    let type_url = || url("eds").into();
    let missing = || Err(TransactionError::MissingVersion { type_url: type_url() });
    let reused = |version: &str| {
        Err(TransactionError::ReusedVersion { type_url: type_url(), version: version.into() })
    };
    assert_eq!(apply("eds a=1"), missing());
    assert_eq!(apply("eds v:1 a^1=1"), Ok(1));
    assert_eq!(apply("eds a^1=1 -none"), Ok(0), "nothing changes");
    assert_eq!(apply("eds !a=7"), Ok(1), "errors are no resources");
    assert_eq!(apply("cds v:1 a=1; eds a=2"), missing());
    assert_eq!(apply("eds -a"), missing());
    assert_eq!(apply("eds v:1 a=2"), reused("1"));
    assert_eq!(apply("eds v:1 b=2"), reused("1"));
    assert_eq!(apply("@other eds v:1 b=2"), Ok(1), "another view is another set of resources");
    let error = TransactionError::ReusedResourceVersion { change: 1 };
    assert_eq!(apply("eds v:2 b=1 a^1=2"), Err(error.clone()));
    assert_eq!(apply("eds v:2 b=1 a+x^1=1"), Err(error));
    let long = "x".repeat(2_049);
    let length =
        |bytes| Err(TransactionError::VersionLength { type_url: type_url(), bytes, limit: 2_048 });
    assert_eq!(apply(&format!("eds v:{long} b=1")), length(2_049));
    assert_eq!(apply(&format!("eds v:2 b^{long}=1")), length(2_049));
    assert_eq!(apply("eds v: b=1"), length(0));
    assert_eq!(server.stats().resources, 2, "nothing of it was applied");
    assert_eq!(server.version(&url("eds")), Some("1".into()));

    let mut server = Server::new(counted("run-"), 1, Time::ZERO);
    let mut apply =
        |changes: &str| server.apply(transaction(changes), Time::ZERO).map(|it| it.changed);
    let unexpected = || Err(TransactionError::UnexpectedVersion { type_url: type_url() });
    assert_eq!(apply("eds v:1 a=1"), unexpected());
    assert_eq!(apply("eds a^1=1"), unexpected());
    assert_eq!(apply("eds a=1"), Ok(1));
    println!("covers: M72 M218");
}

#[test]
fn snapshot_carries_application_versions() {
    let mut rig = Rig::new(callers());
    let mut set = |version: &str, contents: [&str; 2]| {
        let mut snapshot = Transaction::snapshot("");
        for (name, content) in ["a", "b"].iter().zip(contents) {
            snapshot.set(url("cds"), *name, payload(name, content));
        }
        snapshot.set_version(url("cds"), version);
        let applied = rig.server.apply(snapshot, rig.now);
        rig.drain();
        applied.map(|it| it.changed)
    };
    assert_eq!(set("1", ["1", "1"]), Ok(2));
    assert_eq!(set("1", ["1", "1"]), Ok(0));
    assert!(set("1", ["1", "2"]).is_err());
    assert_eq!(set("2", ["1", "2"]), Ok(1));
    assert_eq!(set("3", ["1", "2"]), Ok(0));
    rig.run("> cds\n< cds first v:3 a=1 b=2");
    let mut only_a_version = Transaction::snapshot("");
    assert!(only_a_version.is_empty());
    only_a_version.set_version(url("cds"), "4");
    assert!(!only_a_version.is_empty(), "it has an effect");
    println!("covers: M72 M216");
}

#[test]
fn counter_versions_increase() {
    let mut rig = Rig::new(counted("run-"));
    rig.run(
        "
        set cds a=1 b=1
        > cds
        < cds first a=1 b=1
        > cds
        2> cds a
        2< cds first a=1
        3d> cds +a
        3d< cds first a=1",
    );
    let number = |text: &str| text.strip_prefix("run-").and_then(|it| it.parse::<u64>().ok());
    let first = sent(&rig, "cds");
    assert!(number(&first[0]).is_some(), "{first:?}");
    assert!(first[1].starts_with("run-~"), "a part of the state is no state (B06): {first:?}");
    assert_eq!(first[2], first[0]);
    rig.run("set cds a=1\n<\nset cds b=2\n< cds changed a=1 b=2\n> cds\n2<");
    let second = sent(&rig, "cds");
    assert!(number(&second[0]) > number(&first[0]), "{second:?}");
    assert_eq!(rig.server.version(&url("cds")).map(|it| it.to_string()), Some(second[0].clone()));
    // Restoring the previous content is another change.
    rig.run("set cds b=1\n< cds changed a=1 b=1");
    assert!(number(&sent(&rig, "cds")[0]) > number(&second[0]));
    rig.run("set @v cds a=1 b=1\nlayers w over v");
    assert_ne!(rig.server.version_in(&"v".into(), &url("cds")), rig.server.version(&url("cds")));
    assert_eq!(rig.server.version_in(&"w".into(), &url("cds")), None);
    println!("covers: M72 B06");
}

// M41, M42, B06: a stated version is trusted only for what it proves.
#[test]
fn reconnect_version_is_trusted_only_if_conclusive() {
    let returns = |config: &ServerConfig, given: &str, first: &str, then: &str| {
        let mut rig = Rig::new(config.clone());
        rig.run(&format!("set cds{given} a=1 b=1"));
        rig.request(1, &format!("cds{first}"));
        assert!(rig.receive(1).is_some());
        let version = sent(&rig, "cds").remove(0);
        rig.run("close");
        rig.request(2, &format!("cds version:{version}{then}"));
        rig.receive(2).is_none()
    };
    let mut config = counted("run-");
    assert!(returns(&config, "", "", ""));
    assert!(!returns(&config, "", " a", ""), "it has a part only");
    assert!(!returns(&config, "", " a b", " a b"), "new names may be among them");
    config.version_prefix = VersionPrefix::default();
    assert!(!returns(&config, "", "", ""), "it may be of another run");
    config = config.with_every_type(|it| it.reconnect_trust = ReconnectTrust::SameNames);
    assert!(returns(&config, "", "", ""));
    assert!(returns(&config, "", " a", " a"));
    assert!(!returns(&config, "", " a", ""));

    let mut config = callers();
    assert!(!returns(&config, " v:1", "", ""), "that is no proof");
    config = config.with_every_type(|it| it.reconnect_trust = ReconnectTrust::SameNames);
    assert!(returns(&config, " v:1", "", ""));
    assert!(returns(&config, " v:1", " a", " a"));
    println!("covers: M41 M42 B06 M72");
}

/// Two views have equal change counts, and a client of one reconnects to the other.
#[test]
fn counter_versions_are_per_view() {
    let mut config = counted("run-");
    config.admission = xds_core::server::Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run(
        "
        set @v cds a=1
        set @w cds a=2
        > cds
        assign 1 v
        < cds first a=1",
    );
    let version = sent(&rig, "cds").remove(0);
    rig.run("close");
    rig.request(2, &format!("cds version:{version}"));
    rig.run("assign 2 w\n2< cds first a=2");
    println!("covers: M72");
}

// IS15: a state that differs from the application's versioned state has a marked version.
#[test]
fn deferred_and_isolated_states_have_marked_version() {
    let mut config = callers();
    config.ordering = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
    let mut rig = Rig::new(config);
    for (list, names) in [("", "a=1 b=1"), (" a b", "a=1 b=1")] {
        rig.run(&format!(
            "
            set cds v:1 a=1 b=1; lds v:1 l=1
            > cds{list}
            < cds first v:1 {names}
            > cds{list}
            > lds
            < lds first v:1 l=1
            > lds
            set cds v:2 a=2 -b; lds v:2 l=2
            < cds changed a=2 b=1"
        ));
        let version = sent(&rig, "cds").remove(0);
        assert!(version.starts_with("2~"), "{version}");
        rig.run(&format!(
            "
            > cds{list}
            < lds changed v:2 l=2
            > lds
            < cds changed v:2 a=2
            close
            set cds v:3 -a; lds v:3 -l"
        ));
    }
    let config = every_type(|it| {
        it.versions = VersionMode::Caller;
        it.nack_recovery = NackRecovery::Isolate;
    });
    let mut rig = Rig::new(config);
    rig.run(
        "
        set cds v:1 a=1
        > cds
        < cds first v:1 a=1
        > cds
        set cds v:2 b=1 c=1
        < cds changed v:2 a=1 b=1 c=1
        > cds nack
        < cds recovery a=1 b=1",
    );
    let version = sent(&rig, "cds").remove(0);
    assert!(version.starts_with("2~"), "{version}");
    println!("covers: M72 M108 M147");
}

// M161, M57, M108: a version that was accepted long ago is still known.
#[test]
fn old_application_versions_are_remembered() {
    let mut config = callers();
    let mut types = TypeConfig::of(&url("cds"));
    types.versions = VersionMode::Caller;
    types.nack_detection = NackDetection::ErrorDetailOrVersion;
    config = config.with_type(url("cds"), types);
    let mut rig = Rig::new(config);
    rig.run(
        "
        set eds v:first a~200s=1 b=1; cds v:one a=1
        t> eds a
        t< eds first v:first a~200s=1
        t> eds a
        2> cds
        2< cds first v:one a=1
        2> cds",
    );
    for number in 0..100 {
        rig.run(&format!("set eds v:v{number} b=x{number}"));
    }
    let accepted: Vec<_> = rig.server.status().filter_map(|it| it.acked_version).collect();
    assert_eq!(accepted, ["first", "one"]);
    rig.run("wait 100s\n< eds heartbeat v:first a~200s\n> eds a");
    rig.run("set eds v:last a~200s=2\n< eds changed v:last a~200s=2\n> eds a");

    rig.observations();
    rig.run("set cds v:two a=2\n2< cds changed v:two a=2\n2> cds version:one\n2<");
    let is_nack =
        |it: &Observation| matches!(it, Observation::Nacked { version, .. } if *version == "two");
    assert!(rig.observations().iter().any(is_nack));
    println!("covers: M72 M161");
}

// M224: a layered view has content versions, because no layer's version applies to all.
#[test]
fn layered_view_has_content_versions() {
    let mut config = callers();
    config.admission = xds_core::server::Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run(
        "
        set @base eds v:1 a=1 b=1
        set @top eds v:1 a=2
        layers over top base
        > eds *
        assign 1 over
        < eds first a=2 b=1
        > eds *
        2> eds *
        assign 2 base
        2< eds first v:1 a=1 b=1
        2> eds *",
    );
    let mut plain = Server::new(ServerConfig::default(), 1, Time::ZERO);
    plain.apply(transaction("eds a=2 b=1"), Time::ZERO).expect("good resources");
    let version = plain.version(&url("eds")).map(|it| it.to_string());
    assert_eq!(sent(&rig, "eds").first(), version.as_ref());
    rig.run(
        "
        set @base eds v:2            # does not apply to the layered view
        <
        2< eds changed v:2 a=1 b=1
        2> eds *
        assign 2 over
        2< eds changed a=2
        2> eds *
        assign 1 base
        < eds changed v:2 a=1",
    );
    let acked = |rig: &Rig| -> Vec<_> {
        rig.server.status().filter_map(|it| Some(it.acked_version?.to_string())).collect()
    };
    assert_eq!(acked(&rig), [version.clone().unwrap(), version.unwrap()]);
    rig.run("> eds *");
    assert_eq!(acked(&rig)[0], "2");
    println!("covers: M72 M223 M224");
}

// M225: the last version set counts.
#[test]
fn last_version_of_transaction_wins() {
    let mut server = Server::new(callers(), 1, Time::ZERO);
    let mut transaction = Transaction::new();
    assert!(transaction.is_empty());
    transaction.set_version(url("eds"), "1").set_version(url("eds"), "2");
    assert!(!transaction.is_empty());
    transaction.set(url("eds"), "a", payload("a", "1"));
    let applied = server.apply(transaction, Time::ZERO).expect("a good transaction");
    assert_eq!((applied.sequence, applied.changed), (1, 1));
    let mut transaction = Transaction::new();
    transaction.set_version(url("eds"), "3");
    let applied = server.apply(transaction, Time::ZERO).expect("a good transaction");
    assert_eq!((applied.sequence, applied.changed), (2, 0), "clients can be waited for");
    assert_eq!(server.version(&url("eds")), Some("3".into()));
    println!("covers: M72 M219");
}
