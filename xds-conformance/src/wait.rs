//! Waiting, but not for ever.

use core::{future::Future, time::Duration};

use async_io::Timer;
use futures_util::future::{Either, select};
use xds_core::client::{Notice, Resource, WatchError};
use xds_handle::Watch;

/// Longer than anything here takes, on the slowest machine; only a failing case waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fails the case rather than hang it.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match select(core::pin::pin!(future), Timer::after(PATIENCE)).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

pub(crate) async fn next(watch: &mut Watch) -> Notice {
    let notice = soon("a notice", watch.next()).await;
    let notice = notice.expect("the client lives").expect("the watch is sound");
    watch.handled();
    notice
}

pub(crate) async fn value(watch: &mut Watch) -> Resource {
    match next(watch).await {
        Notice::Changed(Ok(resource)) => resource,
        other => panic!("no value but {other:?}"),
    }
}

pub(crate) async fn no_value(watch: &mut Watch) -> WatchError {
    match next(watch).await {
        Notice::Changed(Err(error)) => error,
        other => panic!("no error but {other:?}"),
    }
}

/// The first value, whatever trouble was told of before.
pub(crate) async fn first_value(watch: &mut Watch) -> Resource {
    loop {
        if let Notice::Changed(Ok(value)) = next(watch).await {
            return value;
        }
    }
}

/// What is wrong beside a value that stays.
pub(crate) async fn trouble(watch: &mut Watch) -> WatchError {
    loop {
        match next(watch).await {
            Notice::Ambient(Some(error)) => return error,
            Notice::Ambient(None) => {}
            other => panic!("no trouble but {other:?}"),
        }
    }
}

/// Waits until nothing is wrong any more.
pub(crate) async fn all_is_well(watch: &mut Watch) {
    loop {
        match next(watch).await {
            Notice::Ambient(None) => return,
            Notice::Ambient(Some(_)) => {}
            other => panic!("nothing changed but {other:?}"),
        }
    }
}
