//! Code of the application that runs in a driver's turn: a panic in it ends what it was asked about, and
//! nothing else.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::warn;
use xds_core::{
    Malformed,
    references::{Reference, ReferenceExtractor},
    server::{OrderingPolicy, ServerConfig},
};

/// What comes of `work`; `None` if it panics, where panics unwind.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    // What it was in the middle of is thrown away with it, or the application's own.
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// What comes of the future that `work` makes; `None` if it panics, or the making of it does.
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

/// Has references found by an extractor that cannot take the server with it.
pub(crate) fn guard_references(config: &mut ServerConfig) {
    if let OrderingPolicy::AckGated(gated) = &mut config.ordering {
        let guarded = |inner| Arc::new(Guarded(inner)) as Arc<dyn ReferenceExtractor>;
        gated.references = gated.references.take().map(guarded);
    }
}

/// An extractor of whose panics nobody hears but the log.
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
            warn!("type" = type_url, "the references of a resource: their extractor panicked");
            // What was found up to there counts.
            Ok(())
        })
    }
}
