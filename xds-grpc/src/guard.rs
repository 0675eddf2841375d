//! Protection of a driver against panics in application code that it calls, and of locks against panics.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tracing::warn;
use xds_core::{
    Malformed,
    references::{Reference, ReferenceExtractor},
    server::{OrderingPolicy, ServerConfig},
};

/// Locks a mutex. No code that may panic runs under the locks of this crate, so the state under a
/// poisoned one is valid.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the result of `work`. Returns `None` if it panics (and panics unwind).
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    // State that the panic left inconsistent is dropped with `work` or belongs to the application.
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Returns the output of the future that `work` creates. Returns `None` if creating or polling it
/// panics.
pub(crate) async fn caught_future<'a, T>(
    work: impl FnOnce() -> Pin<Box<dyn Future<Output = T> + Send + 'a>>,
) -> Option<T> {
    let mut future = caught(work)?;
    poll_fn(|cx| match caught(|| future.as_mut().poll(cx)) {
        Some(Poll::Ready(done)) => Poll::Ready(Some(done)),
        Some(Poll::Pending) => Poll::Pending,
        None => Poll::Ready(None),
    })
    .await
}

/// Wraps the server's reference extractor so that a panic in it does not end the server.
pub(crate) fn guard_references(config: &mut ServerConfig) {
    if let OrderingPolicy::MakeBeforeBreak(gated) = &mut config.ordering {
        let guarded = |inner| Arc::new(Guarded(inner)) as Arc<dyn ReferenceExtractor>;
        gated.references = gated.references.take().map(guarded);
    }
}

/// Reference extractor that catches panics of another one and logs them.
#[derive(Debug)]
struct Guarded(Arc<dyn ReferenceExtractor>);

impl ReferenceExtractor for Guarded {
    fn references(
        &self,
        type_url: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), Malformed> {
        caught(|| self.0.references(type_url, resource, found)).unwrap_or_else(|| {
            warn!("type" = type_url, "the reference extractor panicked on a resource");
            // References found before the panic count.
            Ok(())
        })
    }
}
