//! Several attempts, of which the first success is used.

use core::{future::pending, time::Duration};
use std::sync::{Arc, Mutex};

use tokio::time::{Instant, sleep};
use xds_grpc::{
    happy_eyeballs::{ATTEMPT_DELAY, first_success},
    runtime::SharedRuntime,
};
use xds_tokio::Tokio;

/// Attempt that fails, succeeds or never ends.
async fn go(candidate: &'static str) -> Result<&'static str, String> {
    match candidate {
        "silent" => pending().await,
        "slow" => sleep(ATTEMPT_DELAY * 3).await,
        "refused" => return Err("refused".into()),
        _ => {}
    }
    Ok(candidate)
}

#[tokio::test(start_paused = true)]
async fn slow_attempt_delays_the_next_one_by_the_attempt_delay() {
    let began = Instant::now();
    let runtime = SharedRuntime::new(Tokio);
    let first = async |candidates: &[&'static str]| {
        first_success(&runtime, candidates.iter().copied(), go).await
    };
    assert_eq!(first(&["silent", "silent", "good"]).await, Ok("good"));
    assert_eq!(began.elapsed(), ATTEMPT_DELAY * 2);
    // After a failure the next attempt starts immediately. A slow attempt may still succeed
    // first.
    let began = Instant::now();
    assert_eq!(first(&["refused", "good"]).await, Ok("good"));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(first(&["slow", "silent", "refused"]).await, Ok("slow"));
    assert_eq!(first(&["refused", "refused"]).await, Err(vec!["refused".into(); 2]));
    assert_eq!(first(&[]).await, Err(vec![]));
}

#[tokio::test(start_paused = true)]
async fn first_candidate_is_tried_first() {
    let tried = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&tried);
    let attempt = move |candidate| {
        log.lock().unwrap().push(candidate);
        go(candidate)
    };
    assert_eq!(
        first_success(&SharedRuntime::new(Tokio), ["good", "other"], attempt).await,
        Ok("good")
    );
    assert_eq!(*tried.lock().unwrap(), ["good"]);
}
