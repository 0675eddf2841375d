//! Client against server in both variants, over the aggregated stream and over one stream per type.

use core::net::SocketAddr;

use crate::support::{
    CLUSTER, ENDPOINTS, config, next, resource,
    server::{Running, set, start, streams},
    soon, value,
};
use tokio::{select, sync::mpsc};
use xds_core::{
    client::{Change, ClientConfig, Notice, Streams, WatchErrorKind},
    server::{Observation, SyncState, Transaction},
    service::Variant,
};
use xds_tokio::{ClientOptions, WatchAll, client, server::Observed};

const ALL: [(Variant, Streams); 4] = [
    (Variant::StateOfTheWorld, Streams::Aggregated),
    (Variant::StateOfTheWorld, Streams::PerType),
    (Variant::Incremental, Streams::Aggregated),
    (Variant::Incremental, Streams::PerType),
];

fn speaking(address: SocketAddr, variant: Variant, streams: Streams) -> ClientConfig {
    let mut config = config(address);
    config.servers[0] = config.servers[0].clone().with_variant(variant).with_streams(streams);
    config
}

/// Handles every change at once. An unhandled change would block its stream.
fn follow(mut watch: WatchAll) -> mpsc::UnboundedReceiver<Change> {
    let (told, changes) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            select! {
                change = watch.next() => match change {
                    Some(Ok(change)) => drop(told.send(change)),
                    _ => return,
                },
                () = told.closed() => return,
            }
        }
    });
    changes
}

#[tokio::test]
async fn set_change_reject_and_delete_work_for_every_variant_and_stream_kind() {
    for (variant, kind) in ALL {
        let context = format!("{variant:?} {kind:?}");
        let Running { handle, address, .. } = start().await;
        handle.apply(set(&[(CLUSTER, "a", "1"), (CLUSTER, "b", "1")])).await.unwrap();
        let mut observations = handle.observations();
        let client = client::connect(speaking(address, variant, kind), ClientOptions::default());
        let mut all = follow(client.watch_all_untyped(CLUSTER));
        let mut seen = Vec::new();
        while seen.len() < 2 {
            if let Change::Resource { name, result: Ok(_) } = soon(all.recv()).await.unwrap() {
                seen.push(name.to_string());
            }
        }
        assert_eq!(seen, ["a", "b"], "{context}");

        // A missing resource is reported when it exists.
        let mut later = client.watch_untyped(ENDPOINTS, "e");
        handle.apply(set(&[(ENDPOINTS, "e", "1")])).await.unwrap();
        loop {
            match next(&mut later).await {
                Notice::Changed(Ok(endpoints)) => {
                    assert_eq!(endpoints.bytes, resource("e", "1"), "{context}");
                    break;
                }
                // The incremental variant reports a missing resource at once.
                Notice::Changed(Err(_)) | Notice::Ambient(_) => later.handled(),
                other => panic!("{context}: {other:?}"),
            }
        }
        later.handled();
        streams(&handle, if kind == Streams::PerType { 2 } else { 1 }).await;

        // An invalid change is rejected with its reason, once, and the valid one in the same
        // response is used.
        handle.apply(set(&[(CLUSTER, "a", "bad"), (CLUSTER, "b", "2")])).await.unwrap();
        let reason = loop {
            match soon(observations.next()).await {
                Some(Observed::Event(Observation::Nacked { message, .. })) => break message,
                Some(_) => {}
                None => panic!("the server ended"),
            }
        };
        assert!(reason.contains("it is bad"), "{context}: {reason}");
        loop {
            if let Change::Resource { name, result: Ok(cluster) } = soon(all.recv()).await.unwrap()
                && cluster.bytes == resource("b", "2")
            {
                assert_eq!(name.as_str(), "b", "{context}");
                break;
            }
        }
        let rows = handle.status().await.unwrap();
        let row = rows.iter().find(|row| row.type_url.as_str() == CLUSTER).unwrap();
        assert_eq!((row.state, row.nacks), (SyncState::Nacked, 1), "{context}");

        let mut b = client.watch_untyped(CLUSTER, "b");
        value(&mut b).await;
        b.handled();
        let mut deletion = Transaction::new();
        deletion.remove(CLUSTER, "b");
        handle.apply(deletion).await.unwrap();
        let gone = match next(&mut b).await {
            Notice::Ambient(Some(error)) | Notice::Changed(Err(error)) => error,
            other => panic!("{context}: {other:?}"),
        };
        assert_eq!(gone.kind(), &WatchErrorKind::Deleted, "{context}");

        drop((all, later, b, client));
        streams(&handle, 0).await;
    }
    println!("covers: S0.047 S0.049");
}
