//! Budgets for responses that clients do not read, at their edges, with raw HTTP/2 clients.

use core::time::Duration;

use h2::RecvStream;
use tokio::time::{Instant, sleep, timeout};
use xds_core::{server::Transaction, types::CLUSTER};
use xds_grpc::{ManagementServer, ServerOptions};
use xds_sim::stack::{Host, Stage};

use crate::{
    pair::cluster,
    raw::{RawCall, open, open_with_window, serve},
};

fn name(number: usize) -> String {
    format!("cluster-{number:03}")
}

/// Sets clusters of about 250 bytes each.
async fn set_clusters(server: &ManagementServer<Host>, count: usize) {
    let mut change = Transaction::new();
    for number in 0..count {
        change.set(CLUSTER, name(number), cluster(&name(number), &"x".repeat(100)));
    }
    server.handle().apply(change).await.expect("a sound change");
}

/// A DiscoveryRequest for the first clusters, or for all of them if there are none.
fn request(node: &str, count: usize) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let length = u8::try_from(bytes.len()).expect("short");
        [&[number << 3 | 2, length], bytes].concat()
    };
    let mut request = field(2, &field(1, node.as_bytes()));
    for number in 0..count {
        request.extend(field(3, name(number).as_bytes()));
    }
    request.extend(field(4, CLUSTER.as_bytes()));
    request
}

/// Subscribes by name on each call.
fn subscribe(calls: &mut [RawCall], node: &str, count: usize) {
    calls.iter_mut().for_each(|call| call.message(&request(node, count)));
}

/// Reads until the first response is complete, with a pause before each chunk. Returns its length.
async fn read_response_slowly(body: &mut RecvStream, pause: Duration) -> usize {
    let mut read = Vec::new();
    loop {
        sleep(pause).await;
        let chunk = body.data().await.expect("it goes on").expect("no reset");
        body.flow_control().release_capacity(chunk.len()).expect("it was received");
        read.extend_from_slice(&chunk);
        if let Some([_, length @ ..]) = read.first_chunk::<5>()
            && read.len() >= 5 + u32::from_be_bytes(*length) as usize
        {
            return read.len();
        }
    }
}

async fn read_response(body: &mut RecvStream) -> usize {
    read_response_slowly(body, Duration::ZERO).await
}

async fn responses(server: &ManagementServer<Host>) -> u64 {
    server.handle().stats().await.expect("it runs").responses
}

fn unread(server: &ManagementServer<Host>) -> usize {
    server.handle().transport_stats().unread_response_bytes
}

#[test]
fn connection_over_its_budget_waits_until_some_of_it_is_released() {
    let report = Stage::run(1, async |stage| {
        let options = ServerOptions::default().with_max_unread_bytes(10_000, 1 << 20);
        let server = serve(stage, options);
        set_clusters(&server, 50).await;
        let near = stage.host("client");
        let mut calls = open_with_window(&near, 4, 0).await;
        let (first, rest) = calls.split_at_mut(2);
        subscribe(first, "idle", 50);
        sleep(Duration::from_secs(1)).await;
        subscribe(rest, "idle", 50);
        sleep(Duration::from_secs(60)).await;
        let one = unread(&server) / 2;
        assert!((5_000..10_000).contains(&one), "{one}");
        assert_eq!(responses(&server).await, 2, "the second exceeds the budget");
        drop(calls.remove(0));
        sleep(Duration::from_secs(1)).await;
        assert_eq!((responses(&server).await, unread(&server)), (3, 2 * one));
        let stats = server.handle().transport_stats();
        assert_eq!(stats.unread_connections, 0, "the server has memory for others");
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn heaviest_connection_that_does_not_read_ends_when_the_server_is_full() {
    let report = Stage::run(1, async |stage| {
        let options = ServerOptions::default().with_max_unread_bytes(100_000, 20_000);
        let server = serve(stage, options);
        set_clusters(&server, 50).await;
        let near = stage.host("client");
        let (mut heavy, mut light) =
            (open_with_window(&near, 2, 0).await, open_with_window(&near, 1, 0).await);
        subscribe(&mut heavy, "heavy", 50);
        sleep(Duration::from_millis(10)).await;
        subscribe(&mut light, "light", 50);
        sleep(Duration::from_millis(10)).await;
        assert_eq!(responses(&server).await, 3);
        let mut other = open(&near, 1).await;
        let begun = Instant::now();
        subscribe(&mut other, "other", 50);
        let mut body = other[0].body().await;
        read_response(&mut body).await;
        let waited = begun.elapsed();
        assert!((200..300).contains(&waited.as_millis()), "{waited:?}: the others may be slow");
        let why = heavy.pop().expect("two calls").failure().await;
        assert_eq!(why.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM), "{why}");
        assert!(why.to_string().contains("do not read exceed 20000 bytes"), "{why}");
        assert_eq!(server.handle().transport_stats().unread_connections, 1);
        let mut light = light.pop().expect("a call");
        assert!(timeout(Duration::from_secs(5), light.reset()).await.is_err(), "it stays");
        // The others are not in the way any more.
        let mut next = open(&near, 1).await;
        let begun = Instant::now();
        subscribe(&mut next, "next", 50);
        read_response(&mut next[0].body().await).await;
        assert!(begun.elapsed() < Duration::from_millis(100));
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn client_that_reads_slowly_is_not_ended_when_the_server_is_full() {
    let report = Stage::run(1, async |stage| {
        let options = ServerOptions::default().with_max_unread_bytes(1 << 20, 40_000);
        let server = serve(stage, options);
        set_clusters(&server, 300).await;
        let near = stage.host("client");
        let (mut slow, mut other) = (open_with_window(&near, 1, 8_192).await, open(&near, 1).await);
        subscribe(&mut slow, "slow", 300);
        let mut body = slow[0].body().await;
        subscribe(&mut other, "other", 50);
        let begun = Instant::now();
        let length = read_response_slowly(&mut body, Duration::from_millis(60)).await;
        assert!(length > 40_000 && begun.elapsed() > Duration::from_millis(300));
        read_response(&mut other[0].body().await).await;
        assert_eq!(server.handle().transport_stats().unread_connections, 0);
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn shared_bytes_count_once_and_after_the_server_has_others() {
    let report = Stage::run(1, async |stage| {
        let server = serve(stage, ServerOptions::default());
        set_clusters(&server, 50).await;
        let near = stage.host("client");
        let mut calls = open_with_window(&near, 3, 0).await;
        subscribe(&mut calls, "everything", 0);
        sleep(Duration::from_secs(1)).await;
        assert_eq!((responses(&server).await, unread(&server)), (3, 0));
        set_clusters(&server, 49).await;
        let mut change = Transaction::new();
        change.set(CLUSTER, name(0), cluster(&name(0), "changed"));
        server.handle().apply(change).await.expect("a sound change");
        let mut other = open(&near, 1).await;
        subscribe(&mut other, "other", 0);
        read_response(&mut other[0].body().await).await;
        let first = unread(&server);
        assert!((5_000..10_000).contains(&first), "{first}: three clients have the same bytes");
        calls.clear();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(unread(&server), 0);
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn many_streams_that_are_not_read_do_not_keep_another_client_waiting() {
    let report = Stage::run(1, async |stage| {
        let options = ServerOptions::default().with_max_unread_bytes(20_000, 60_000);
        let server = serve(stage, options);
        set_clusters(&server, 50).await;
        let (near, far) = (stage.host("client"), stage.host("attacker"));
        let mut attackers = Vec::new();
        for number in 0..10 {
            let mut calls = open_with_window(&far, 20, 0).await;
            subscribe(&mut calls, &format!("attacker-{number}"), 50);
            attackers.push(calls);
        }
        for number in 0..20 {
            let begun = Instant::now();
            let mut calls = open(&near, 1).await;
            subscribe(&mut calls, &format!("client-{number}"), 50);
            let mut body = calls[0].body().await;
            read_response(&mut body).await;
            assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
            sleep(Duration::from_millis(50)).await;
            // An attacker whose connection has ended opens another one.
            let mut calls = open_with_window(&far, 20, 0).await;
            subscribe(&mut calls, &format!("more-{number}"), 50);
            attackers.push(calls);
        }
        assert!(unread(&server) < 60_000 + 10_000);
        assert!(server.handle().transport_stats().unread_connections > 5);
    });
    assert_eq!(report.trace.violation, None);
}
