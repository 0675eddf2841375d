//! Happy eyeballs: several attempts, of which the first success is used.

use core::time::Duration;

use tokio::{select, task::JoinSet, time::sleep};

/// Delay before the next attempt starts in parallel ([gRFC A61]).
///
/// [gRFC A61]: https://github.com/grpc/proposal/blob/master/A61-IPv4-IPv6-dualstack-backends.md
pub(crate) const HEAD_START: Duration = Duration::from_millis(250);

/// Returns the result of the first attempt that succeeds. An attempt starts when the previous one
/// has failed, or after the delay. Dropping the future ends all attempts.
///
/// # Errors
///
/// Returns the last error if all attempts fail.
pub(crate) async fn first_of<A, T, F>(
    ways: impl IntoIterator<Item = A>,
    attempt: impl Fn(A) -> F,
) -> Result<T, String>
where
    T: Send + 'static,
    F: Future<Output = Result<T, String>> + Send + 'static,
{
    let mut ways = ways.into_iter().peekable();
    let mut attempts = JoinSet::new();
    let mut failure = String::from("no address");
    loop {
        if let Some(way) = ways.next() {
            attempts.spawn(attempt(way));
        }
        select! {
            Some(ended) = attempts.join_next() => match ended {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(why)) => failure = why,
                Err(why) => failure = why.to_string(),
            },
            () = sleep(HEAD_START), if ways.peek().is_some() => {}
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
    async fn go(way: &'static str) -> Result<&'static str, String> {
        match way {
            "silent" => pending().await,
            "slow" => sleep(HEAD_START * 3).await,
            "refused" => return Err("refused".into()),
            _ => {}
        }
        Ok(way)
    }

    #[tokio::test(start_paused = true)]
    async fn silence_holds_up_nobody_for_long() {
        let began = Instant::now();
        assert_eq!(first_of(["silent", "silent", "good"], go).await.as_deref(), Ok("good"));
        assert_eq!(began.elapsed(), HEAD_START * 2);
        // After a failure the next attempt starts immediately. A slow attempt may still succeed
        // first.
        let began = Instant::now();
        assert_eq!(first_of(["refused", "good"], go).await.as_deref(), Ok("good"));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(first_of(["slow", "silent", "refused"], go).await.as_deref(), Ok("slow"));
        assert_eq!(first_of(["refused", "refused"], go).await, Err("refused".into()));
        assert_eq!(first_of([], go).await, Err("no address".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_has_the_first_go() {
        let tried = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&tried);
        let attempt = move |way| {
            log.lock().unwrap().push(way);
            go(way)
        };
        assert_eq!(first_of(["good", "other"], attempt).await.as_deref(), Ok("good"));
        assert_eq!(*tried.lock().unwrap(), ["good"]);
    }
}
