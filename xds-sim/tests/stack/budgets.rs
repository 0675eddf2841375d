//! Budgets for incomplete requests, at their edges, with raw HTTP/2 clients.

use core::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use xds_grpc::ServerOptions;
use xds_sim::stack::Stage;

use crate::raw::{open, serve};

#[test]
fn message_that_has_begun_must_be_complete_in_time() {
    let report = Stage::run(1, async |stage| {
        let _server = serve(stage, ServerOptions::default());
        let near = stage.host("client");
        let began = Instant::now();
        let mut calls = open(&near, 2).await;
        // 16 KiB give a second more.
        calls[0].begin(1_000, 0);
        calls[1].begin(32 << 10, 7);
        let second = calls.pop().expect("two calls");
        let (status, why) = calls.pop().expect("two calls").status().await;
        assert_eq!((status.as_str(), began.elapsed().as_secs()), ("8", 10), "{why}");
        assert!(why.contains("not complete within 10s, with 0 of its bytes"), "{why}");
        let (status, why) = second.status().await;
        assert_eq!((status.as_str(), began.elapsed().as_secs()), ("8", 12), "{why}");
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn claimed_length_reserves_nothing_and_one_over_the_limit_ends_the_call() {
    let report = Stage::run(1, async |stage| {
        let options = ServerOptions::default().with_max_request_bytes(1_000);
        let _server = serve(stage, options.with_request_limit_advice("ask for more"));
        let near = stage.host("client");
        let mut calls = open(&near, 2).await;
        calls[0].begin(1_000, 1);
        calls[1].begin(1_001, 1);
        let (status, why) = calls.pop().expect("two calls").status().await;
        assert_eq!(status, "8", "{why}");
        assert!(why.contains("found 1001 bytes") && why.ends_with("ask for more"), "{why}");
        let call = calls.pop().expect("two calls");
        assert!(timeout(Duration::from_secs(9), call.status()).await.is_err(), "it may go on");
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn connection_over_its_budget_loses_the_call_that_exceeds_it() {
    let report = Stage::run(1, async |stage| {
        let _server =
            serve(stage, ServerOptions::default().with_max_incomplete_bytes(10_000, 1 << 20));
        let near = stage.host("client");
        let mut calls = open(&near, 3).await;
        calls[0].begin(9_000, 4_995);
        calls[1].begin(9_000, 4_995);
        sleep(Duration::from_secs(1)).await;
        calls[2].begin(9_000, 0);
        let (status, why) = calls.pop().expect("three calls").status().await;
        assert_eq!(status, "8", "{why}");
        assert!(why.contains("of the connection exceed 10000 bytes"), "{why}");
        let second = calls.pop().expect("three calls");
        assert!(timeout(Duration::from_secs(5), second.status()).await.is_err(), "it may go on");
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn heaviest_connection_gives_way_when_the_server_is_full() {
    let report = Stage::run(1, async |stage| {
        let _server =
            serve(stage, ServerOptions::default().with_max_incomplete_bytes(10_000, 12_000));
        let near = stage.host("client");
        let (mut heavy, mut light) = (open(&near, 1).await, open(&near, 1).await);
        heavy[0].begin(9_000, 8_000);
        light[0].begin(9_000, 3_990);
        sleep(Duration::from_secs(1)).await;
        let heavy = heavy.pop().expect("a call");
        light[0].send(&[0; 100]);
        let (status, why) = heavy.status().await;
        assert_eq!(status, "8", "{why}");
        assert!(why.contains("of all connections exceed 12000 bytes"), "{why}");
        let light = light.pop().expect("a call");
        assert!(timeout(Duration::from_secs(5), light.status()).await.is_err(), "it may go on");
    });
    assert_eq!(report.trace.violation, None);
}
