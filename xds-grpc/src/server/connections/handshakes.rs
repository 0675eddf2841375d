//! Limit on the number of handshakes. At the limit, a new handshake replaces the oldest one, so
//! that silent clients do not block others.

use core::convert::Infallible;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use tokio::sync::oneshot;

use crate::{
    guard::locked,
    zoo::{self, Bug},
};

/// Handshakes in progress on all listeners of a server.
#[derive(Clone, Debug)]
pub(crate) struct Handshakes {
    limit: usize,
    pending: Arc<Mutex<Pending>>,
}

#[derive(Debug, Default)]
struct Pending {
    /// Id of the next handshake. Ids increase, so the first entry of the map is the oldest.
    next: u64,
    handshakes: BTreeMap<u64, PendingHandshake>,
}

/// Handshakes' side of a connection in its handshake.
#[derive(Debug)]
struct PendingHandshake {
    drop_it: oneshot::Sender<()>,
    is_gone: oneshot::Receiver<Infallible>,
}

/// Connection's side of its handshake. The handshake ends when the value is dropped.
#[derive(Debug)]
pub(crate) struct Handshake {
    id: u64,
    pending: Arc<Mutex<Pending>>,
    dropped: oneshot::Receiver<()>,
}

/// Guard that a connection holds until it is closed.
#[derive(Debug)]
pub(crate) struct OpenGuard {
    /// Notifies the limit by being dropped.
    _open: oneshot::Sender<Infallible>,
}

/// Result of the end of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeEnd {
    Completed,
    /// The handshake was dropped in favour of a newer one: the connection must be closed.
    Dropped,
}

impl Handshakes {
    /// Allows at least one handshake, whatever the limit.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), pending: Arc::default() }
    }

    /// Begins a handshake. At the limit, drops the oldest one, and waits until its connection is
    /// closed.
    pub(crate) async fn begin(&self) -> (Handshake, OpenGuard) {
        while self.is_full() && self.drop_oldest().await {}
        let (drop_it, dropped) = oneshot::channel();
        let (open, is_gone) = oneshot::channel();
        let mut pending = locked(&self.pending);
        let id = pending.next;
        pending.next += 1;
        pending.handshakes.insert(id, PendingHandshake { drop_it, is_gone });
        drop(pending);
        (Handshake { id, pending: Arc::clone(&self.pending), dropped }, OpenGuard { _open: open })
    }

    fn is_full(&self) -> bool {
        locked(&self.pending).handshakes.len() >= self.limit
    }

    /// Drops the oldest handshake, and waits until its connection is closed. Returns `false` if
    /// there is no handshake.
    pub(crate) async fn drop_oldest(&self) -> bool {
        let oldest = locked(&self.pending).handshakes.pop_first();
        let Some((_, PendingHandshake { drop_it, is_gone })) = oldest else { return false };
        if !zoo::is(Bug::PermitBeforeAccept) {
            // The connection may have been closed in the meantime.
            let _ = drop_it.send(());
        }
        let _ = is_gone.await;
        true
    }
}

impl Handshake {
    /// Waits until the handshake is dropped in favour of a newer one. Cancel safe.
    pub(crate) async fn dropped(&mut self) {
        if (&mut self.dropped).await.is_err() {
            core::future::pending().await
        }
    }

    /// Ends the handshake successfully, unless it has been dropped.
    pub(crate) fn complete(&self) -> HandshakeEnd {
        match locked(&self.pending).handshakes.remove(&self.id) {
            Some(_) => HandshakeEnd::Completed,
            None => HandshakeEnd::Dropped,
        }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        locked(&self.pending).handshakes.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn oldest_handshake_is_dropped_at_the_limit() {
        let handshakes = Handshakes::new(2);
        let begin = || handshakes.begin().now_or_never();
        let (mut first, first_open) = begin().expect("the first");
        let (mut second, _second_open) = begin().expect("the second");
        assert!(first.dropped().now_or_never().is_none());
        {
            let mut third = pin!(handshakes.begin());
            assert!(third.as_mut().now_or_never().is_none(), "the first is still open");
            assert!(first.dropped().now_or_never().is_some());
            assert_eq!(first.complete(), HandshakeEnd::Dropped);
            drop(first_open);
            assert!(third.now_or_never().is_some());
        }
        assert!(second.dropped().now_or_never().is_none());
        assert_eq!(second.complete(), HandshakeEnd::Completed);
    }

    #[test]
    fn completed_handshake_makes_room() {
        let handshakes = Handshakes::new(1);
        for _ in 0..3 {
            let (handshake, _open) = handshakes.begin().now_or_never().expect("there is room");
            assert_eq!(handshake.complete(), HandshakeEnd::Completed);
        }
        let (failed, _open) = handshakes.begin().now_or_never().expect("there is room");
        drop(failed);
        assert!(handshakes.begin().now_or_never().is_some());
        assert_eq!(handshakes.drop_oldest().now_or_never(), Some(false));
    }
}
