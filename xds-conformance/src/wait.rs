//! Waiting with a time limit.

use core::{future::Future, time::Duration};

use async_io::Timer;
use futures_util::future::{Either, select};
use xds_core::client::{Notice, Resource, WatchError};
use xds_handle::Watch;

/// Time limit. It exceeds the time that anything here takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Waits for a future. Panics at the time limit instead of hanging.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match select(core::pin::pin!(future), Timer::after(LIMIT)).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => panic!("{what}: timed out after {LIMIT:?}"),
    }
}

pub(crate) async fn next(watch: &mut Watch) -> Notice {
    let notice = soon("a notice", watch.next()).await;
    let notice = notice.expect("the client has not ended").expect("a valid watch");
    watch.handled();
    notice
}

pub(crate) async fn value(watch: &mut Watch) -> Resource {
    match next(watch).await {
        Notice::Changed(Ok(resource)) => resource,
        other => panic!("expected a value, found {other:?}"),
    }
}

pub(crate) async fn no_value(watch: &mut Watch) -> WatchError {
    match next(watch).await {
        Notice::Changed(Err(error)) => error,
        other => panic!("expected an error, found {other:?}"),
    }
}

/// Waits for the first value, ignoring earlier errors.
pub(crate) async fn first_value(watch: &mut Watch) -> Resource {
    loop {
        if let Notice::Changed(Ok(value)) = next(watch).await {
            return value;
        }
    }
}

/// Waits for an ambient error.
pub(crate) async fn trouble(watch: &mut Watch) -> WatchError {
    loop {
        match next(watch).await {
            Notice::Ambient(Some(error)) => return error,
            Notice::Ambient(None) => {}
            other => panic!("expected an ambient error, found {other:?}"),
        }
    }
}

/// Waits until an ambient error is resolved.
pub(crate) async fn all_is_well(watch: &mut Watch) {
    loop {
        match next(watch).await {
            Notice::Ambient(None) => return,
            Notice::Ambient(Some(_)) => {}
            other => panic!("expected the end of an ambient error, found {other:?}"),
        }
    }
}
