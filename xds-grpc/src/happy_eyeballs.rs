//! Happy eyeballs: several attempts, of which the first success is used.

use core::{future::Future, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use hyper::rt::Timer as _;
use tokio::select;

use crate::{
    runtime::SharedRuntime,
    zoo::{self, Bug},
};

/// Delay before the next attempt starts in parallel ([gRFC A61]).
///
/// [gRFC A61]: https://github.com/grpc/proposal/blob/master/A61-IPv4-IPv6-dualstack-backends.md
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Returns the result of the first attempt that succeeds. An attempt starts when the previous one
/// has failed, or after [`ATTEMPT_DELAY`]. Dropping the future ends all attempts.
///
/// # Errors
///
/// Returns the errors of all attempts in the order in which they failed; none if there is no
/// candidate.
pub async fn first_success<A, T, E, F>(
    runtime: &SharedRuntime,
    candidates: impl IntoIterator<Item = A>,
    attempt: impl Fn(A) -> F,
) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut candidates = candidates.into_iter().peekable();
    let mut attempts = FuturesUnordered::new();
    let mut failures = Vec::new();
    loop {
        if let Some(candidate) = candidates.next() {
            attempts.push(attempt(candidate));
        }
        if zoo::is(Bug::FirstAddressOnly) {
            candidates.by_ref().for_each(drop);
        }
        select! {
            biased;
            Some(ended) = attempts.next() => match ended {
                Ok(result) => return Ok(result),
                Err(why) => failures.push(why),
            },
            () = runtime.sleep(ATTEMPT_DELAY), if candidates.peek().is_some() => {}
            else => return Err(failures),
        }
    }
}
