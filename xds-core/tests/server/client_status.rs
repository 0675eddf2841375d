//! Status of each client's resources, as in client status discovery (CSDS).

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Rig, run_all, run_all_with, url};
use proptest::prelude::*;
use xds_core::{
    ViewName,
    client::{Contents, WallClock},
    proto::ConfigStatus,
    server::{LagReason, NackRecovery, ResourceSync, ServerConfig, Warming},
    types,
};

#[test]
fn client_status_follows_sends_acks_and_nacks() {
    run_all(&[
        // A rejected resource that is re-sent is pending like a new one.
        (
            "M234 M107",
            "
            set cds a=1 c=1
            d> cds +*
            d< cds first a=1 c=1
            set cds -c
            d> cds nack
            sync cds a:error
            d< cds changed a=1 -c
            sync cds a:stale
            d> cds nack
            set cds b=1
            d< cds changed b=1
            sync cds a:error b:stale
            d> cds ack
            sync cds a:error b:synced",
        ),
        (
            "M234 IS30",
            "
            set cds a=1 b=1
            > cds
            sync cds a:notsent b:notsent
            < cds first a=1 b=1
            sync cds a:stale b:stale
            > cds
            sync cds a:synced b:synced
            set cds b=2 c=1
            sync cds a:synced b:notsent c:notsent
            < cds changed a=1 b=2 c=1
            sync cds a:synced b:stale c:stale
            > cds nack
            sync cds a:synced b:error c:error
            set cds b=3 -a
            sync cds b:notsent c:error
            < cds changed b=3 c=1
            sync cds b:stale c:stale
            > cds
            sync cds b:synced c:synced
        ",
        ),
        // A full state re-sent without a removed resource is no update of the others.
        (
            "M234 IS30 M107",
            "
            set cds b=1 c=1
            > cds b c
            < cds first b=1 c=1
            set cds b=2
            set cds -b
            > cds nack b c
            sync cds b:missing c:error
            < cds changed c=1
            sync cds b:missing c:stale
            > cds b c
            sync cds b:missing c:synced
            ",
        ),
        // What the client has accepted stays accepted when a rejected state is sent without the removed resource.
        (
            "M234 IS30 M107",
            "
            set cds c=1
            > cds a b c
            < cds first c=1
            > cds a b c
            set cds a=1 b=1
            < cds changed a=1 b=1 c=1
            set cds -a
            > cds nack a b c
            sync cds a:missing b:error c:synced
            < cds changed b=1 c=1
            sync cds a:missing b:stale c:synced
            ",
        ),
        (
            "M234 IS30",
            "
            set eds a=1 b=1
            > eds a b x
            sync eds a:notsent b:notsent x:missing
            < eds first a=1 b=1
            > eds nack a b x
            sync eds a:error b:error x:missing
            set eds a=2 x=1
            sync eds a:notsent b:error x:notsent
            < eds changed a=2 b=1 x=1
            sync eds a:stale b:stale x:stale
            > eds a b x
            sync eds a:synced b:synced x:synced
            > eds a
            sync eds a:synced
            sync cds
        ",
        ),
        (
            "M234 IS30",
            "
            set eds a=1 b=1
            d> eds +* +a
            sync eds a:notsent b:notsent
            d< eds first a=1 b=1
            d> eds ack
            sync eds a:synced b:synced
            set eds -b c=1
            sync eds a:synced c:notsent
            d< eds changed c=1 -b
            d> eds nack
            sync eds a:synced c:error
        ",
        ),
        // Versions stated on reconnect count as synced.
        (
            "M234 IS30",
            "
            set eds a=1
            2d> eds +a
            2d< eds first a=1
            2close
            2d> eds has:a=1 +a
            2sync eds a:synced
        ",
        ),
    ]);
    let mut config = ServerConfig::default();
    config = config.with_every_type(|it| it.nack_recovery = NackRecovery::Minimal);
    run_all_with(
        &config,
        &[(
            "M234 IS30",
            "
        set eds a=1 b=1
        > eds a b
        < eds first a=1 b=1
        > eds nack a b
        set eds a=2
        < eds changed a=2
        sync eds a:stale b:error
        > eds a b
        sync eds a:synced b:error
    ",
        )],
    );
}

// M234: the client status message.
#[test]
fn client_status_message_has_versions_times_and_errors() {
    let mut rig = Rig::default();
    rig.run("set cds a=1; sds s=1\n> cds\n> sds s\nwait 5s\n< cds first a=1\n> cds nack");
    rig.run("2> cds\n2< cds first a=1\nwait 2s\n2> cds");
    let clock = WallClock::new(Duration::from_secs(1_000), rig.now);
    let stream = rig.stream(1);
    let clients: Vec<_> = rig.server.client_statuses().collect();
    assert_eq!(clients.len(), 2);
    assert_eq!((clients[0].node_id(), clients[0].stream()), ("node-1", stream));
    assert_eq!(clients[0].view().map(|view| view.as_str().to_owned()), Some(String::new()));

    let clients: Vec<_> = rig
        .server
        .client_statuses()
        .map(|client| client.to_message(Contents::All, clock))
        .collect();
    let [first, second] = &clients[..] else { panic!("two clients") };
    assert_eq!(first.node.as_ref().map(|node| &*node.id), Some("node-1"));
    let [cluster, secret] = &first.generic_xds_configs[..] else { panic!("two resources") };
    assert_eq!((&*cluster.type_url, &*cluster.name), (types::CLUSTER, "a"));
    assert_eq!(cluster.config_status(), ConfigStatus::Error);
    assert_eq!(cluster.version_info.len(), 16);
    assert_eq!(cluster.xds_config.as_ref().map(|any| &any.value[..]), Some(&b"a=1"[..]));
    assert_eq!(cluster.last_updated.map(|at| at.seconds), Some(998), "when it was answered");
    let error = cluster.error_state.as_ref().expect("an error");
    assert_eq!((&*error.details, &error.version_info), ("bad", &cluster.version_info));
    assert_eq!(secret.config_status(), ConfigStatus::NotSent);
    assert_eq!(secret.last_updated, None);
    assert!(secret.xds_config.is_some());
    let cluster = &second.generic_xds_configs[0];
    assert_eq!(cluster.config_status(), ConfigStatus::Synced);
    assert_eq!(cluster.last_updated.map(|at| at.seconds), Some(1_000));
    assert_eq!(cluster.error_state, None);

    let told = |contents| {
        let status = rig.server.client_status(stream).expect("a client");
        let message = status.to_message(contents, clock);
        let configs = message.generic_xds_configs.into_iter();
        configs.map(|config| config.xds_config.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(told(Contents::WithoutSecrets), [true, false]);
    assert_eq!(told(Contents::None), [false, false]);
    println!("covers: M234");
}

#[derive(Clone, Debug)]
enum Step {
    Set(&'static str, &'static str),
    Remove(&'static str, &'static str),
    Receive(u32),
    Ack(u32),
    Nack(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let types = || prop_oneof![Just("cds"), Just("eds")];
    let names = || prop_oneof![Just("a"), Just("b"), Just("c")];
    let step = prop_oneof![
        4 => (types(), names()).prop_map(|(ty, name)| Step::Set(ty, name)),
        1 => (types(), names()).prop_map(|(ty, name)| Step::Remove(ty, name)),
        4 => (1..5_u32).prop_map(Step::Receive),
        3 => (1..5_u32).prop_map(Step::Ack),
        1 => (1..5_u32).prop_map(Step::Nack),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Status of a client, computed from its messages.
#[derive(Default)]
struct Fold {
    /// Last sent content and best status by type and name.
    sent: BTreeMap<(String, String), (String, ResourceSync)>,
    /// Names in unanswered responses by type.
    waiting: BTreeMap<String, Vec<String>>,
}

/// The lag of a stream behind the newest state of a type.
fn lag(rig: &mut Rig, stream: u32, short: &str) -> Option<LagReason> {
    let id = rig.stream(stream);
    let convergence = rig.server.convergence(&ViewName::default(), &url(short), u64::MAX);
    convergence.lagging.iter().find(|it| it.stream == id).map(|it| it.reason)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // IS30: the reported status follows from the messages sent and answered.
    #[test]
    fn client_status_matches_model(steps in steps()) {
        // Without warming: resources re-sent for it would wait for an answer again.
        let mut config = ServerConfig::default();
        config.warming = Warming::Off;
        let mut rig = Rig::new(config);
        let asks = [
            (1, "> cds", "> cds", "> cds nack"),
            (1, "> eds a b c", "> eds a b c", "> eds nack a b c"),
            (2, "> cds a b c", "> cds a b c", "> cds nack a b c"),
            (2, "> eds *", "> eds *", "> eds nack *"),
            (3, "d> cds", "d> cds ack", "d> cds nack"),
            (3, "d> eds +a +b +c", "d> eds ack", "d> eds nack"),
            (4, "d> cds +a +b +c", "d> cds ack", "d> cds nack"),
            (4, "d> eds +*", "d> eds ack", "d> eds nack"),
        ];
        for (stream, first, ..) in asks {
            rig.run(&format!("{stream}{first}"));
        }
        let mut store: BTreeMap<(String, String), String> = BTreeMap::new();
        let mut folds: BTreeMap<u32, Fold> = (1..5).map(|n| (n, Fold::default())).collect();
        for (position, step) in steps.into_iter().enumerate() {
            match step {
                Step::Set(ty, name) => {
                    // A content that was never used before.
                    rig.run(&format!("set {ty} {name}={position}"));
                    store.insert((ty.into(), name.into()), position.to_string());
                    folds.values_mut().for_each(|fold| drop(fold.sent.remove(&(ty.into(), name.into()))));
                }
                Step::Remove(ty, name) => {
                    rig.run(&format!("set {ty} -{name}"));
                    store.remove(&(ty.into(), name.into()));
                    folds.values_mut().for_each(|fold| drop(fold.sent.remove(&(ty.into(), name.into()))));
                }
                Step::Receive(stream) => {
                    let Some(received) = rig.receive(stream) else { continue };
                    let ty = types::short_name(received.transmit.type_url.as_str()).expect("a known type");
                    let fold = folds.get_mut(&stream).expect("a stream");
                    let mut names = Vec::new();
                    for text in received.resources() {
                        let Some((name, content)) = text.split_once('=') else { continue };
                        names.push(name.to_owned());
                        let entry = fold.sent.entry((ty.into(), name.into()));
                        let entry = entry.or_insert_with(|| (content.into(), ResourceSync::Stale));
                        if entry.1 == ResourceSync::Error {
                            entry.1 = ResourceSync::Stale;
                        }
                    }
                    fold.waiting.insert(ty.into(), names);
                }
                Step::Ack(stream) | Step::Nack(stream) => {
                    let fold = folds.get_mut(&stream).expect("a stream");
                    let Some((ty, names)) = fold.waiting.pop_first() else { continue };
                    let is_ack = matches!(step, Step::Ack(_));
                    let (_, _, ack, nack) = asks
                        .into_iter()
                        .find(|(of, first, ..)| *of == stream && first.contains(&*ty))
                        .expect("a request");
                    rig.run(&format!("{stream}{}", if is_ack { ack } else { nack }));
                    for name in names {
                        // A resource that changed since was not answered.
                        let Some(entry) = fold.sent.get_mut(&(ty.clone(), name)) else { continue };
                        entry.1 = match entry.1 {
                            _ if is_ack => ResourceSync::Synced,
                            ResourceSync::Stale => ResourceSync::Error,
                            other => other,
                        };
                    }
                }
            }
            for (stream, fold) in &folds {
                for ty in ["cds", "eds"] {
                    let named = matches!((stream, ty), (1 | 3, "eds") | (2 | 4, "cds"));
                    let wanted: BTreeSet<_> = ["a", "b", "c"]
                        .into_iter()
                        .filter_map(|name| {
                            let key = (ty.to_owned(), name.to_owned());
                            let status = match (store.get(&key), fold.sent.get(&key)) {
                                (None, _) if !named => return None,
                                (None, _) => ResourceSync::Missing,
                                (Some(_), None) => ResourceSync::NotSent,
                                (Some(_), Some((_, status))) => *status,
                            };
                            Some(format!("{name}:{}", format!("{status:?}").to_lowercase()))
                        })
                        .collect();
                    prop_assert_eq!(&rig.sync(*stream, ty), &wanted, "stream {} type {}", stream, ty);
                    // A client without lag has every resource synced (IS29).
                    let is_good = |status: &String| status.ends_with(":synced") || status.ends_with(":missing");
                    let lag = lag(&mut rig, *stream, ty);
                    prop_assert!(lag.is_some() || wanted.iter().all(is_good), "{stream} {ty}: {wanted:?}");
                }
            }
        }
        // After all responses are accepted, only clients with an unchanged rejected resource lag.
        for (stream, first, ack, _) in asks {
            for _ in 0..3 {
                while rig.receive(stream).is_some() {}
                rig.run(&format!("{stream}{ack}"));
            }
            let ty = if first.contains("cds") { "cds" } else { "eds" };
            rig.run(&format!("{stream}<"));
            let has_rejected = rig.sync(stream, ty).iter().any(|status| status.ends_with(":error"));
            let lag = lag(&mut rig, stream, ty);
            // The rejected response may also have been a removal.
            prop_assert!(lag != Some(LagReason::Pending), "stream {stream} type {ty}");
            prop_assert!(lag.is_some() || !has_rejected, "stream {stream} type {ty}");
            let id = rig.stream(stream);
            let reported = rig.server.rejections().any(|it| it.stream == Some(id) && it.type_url.as_str() == url(ty));
            prop_assert_eq!(reported, lag.is_some(), "stream {} type {}", stream, ty);
        }
        println!("covers: IS29 IS30");
    }
}
