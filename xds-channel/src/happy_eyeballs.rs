//! Happy eyeballs: several attempts, of which the first success is used.

use core::time::Duration;

use tokio::{select, task::JoinSet, time::sleep};

/// Delay before the next attempt starts in parallel ([gRFC A61]).
///
/// [gRFC A61]: https://github.com/grpc/proposal/blob/master/A61-IPv4-IPv6-dualstack-backends.md
pub(crate) const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Returns the result of the first attempt that succeeds. An attempt starts when the previous one
/// has failed, or after the delay. Dropping the future ends all attempts.
///
/// # Errors
///
/// Returns the last error if all attempts fail.
pub(crate) async fn first_success<A, T, F>(
    candidates: impl IntoIterator<Item = A>,
    attempt: impl Fn(A) -> F,
) -> Result<T, String>
where
    T: Send + 'static,
    F: Future<Output = Result<T, String>> + Send + 'static,
{
    let mut candidates = candidates.into_iter().peekable();
    let mut attempts = JoinSet::new();
    let mut failure = String::from("no address");
    loop {
        if let Some(candidate) = candidates.next() {
            attempts.spawn(attempt(candidate));
        }
        select! {
            Some(ended) = attempts.join_next() => match ended {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(why)) => failure = why,
                Err(why) => failure = why.to_string(),
            },
            () = sleep(ATTEMPT_DELAY), if candidates.peek().is_some() => {}
            else => return Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::future::pending;
    use std::sync::{Arc, Mutex};

    use tokio::time::Instant;

    use super::*;

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
        assert_eq!(first_success(["silent", "silent", "good"], go).await.as_deref(), Ok("good"));
        assert_eq!(began.elapsed(), ATTEMPT_DELAY * 2);
        // After a failure the next attempt starts immediately. A slow attempt may still succeed
        // first.
        let began = Instant::now();
        assert_eq!(first_success(["refused", "good"], go).await.as_deref(), Ok("good"));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(first_success(["slow", "silent", "refused"], go).await.as_deref(), Ok("slow"));
        assert_eq!(first_success(["refused", "refused"], go).await, Err("refused".into()));
        assert_eq!(first_success([], go).await, Err("no address".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn first_candidate_is_tried_first() {
        let tried = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&tried);
        let attempt = move |candidate| {
            log.lock().unwrap().push(candidate);
            go(candidate)
        };
        assert_eq!(first_success(["good", "other"], attempt).await.as_deref(), Ok("good"));
        assert_eq!(*tried.lock().unwrap(), ["good"]);
    }
}
