//! Watches as the application holds them: streams that end the watch when dropped.

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};
use std::sync::Arc;

use futures_core::Stream;
use xds_core::client::{Change, InvalidWatch, Notice};

use crate::{
    command::{Command, Commands, Slot},
    slot::{AllSlot, Asked, NamedSlot, Tell},
};

/// A watch of one resource: a stream of its newest state.
///
/// An item is a notice as [gRFC A88] has them: [`Notice::Changed`] with the value or the reason why
/// there is none, and [`Notice::Ambient`] for what is wrong while the value stays in use. Steps that
/// were not taken in time are passed over. A watch that could not be made yields one
/// [`InvalidWatch`] and ends; otherwise the stream ends when the client does.
///
/// Asking for the next item, or dropping the watch, says that the last item is handled. A watch that is not
/// polled delays nothing else, unless the client is configured with
/// [`ReadGate::Notices`](xds_core::client::ReadGate): then the client reads no further response until all watches
/// have handled their last item.
///
/// [gRFC A88]: https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md
#[derive(Debug)]
#[must_use = "dropping a watch ends it"]
pub struct Watch {
    slot: Arc<NamedSlot>,
    commands: Commands,
}

impl Watch {
    pub(crate) fn new(slot: Arc<NamedSlot>, commands: Commands) -> Self {
        Self { slot, commands }
    }

    /// The next notice; `None` once the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Notice, InvalidWatch>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Says that the last notice is dealt with, without asking for the next one yet.
    ///
    /// With [`ReadGate::Notices`](xds_core::client::ReadGate), call it before waiting for anything that needs
    /// the client to go on reading, such as the first notice of another watch.
    pub fn handled(&mut self) {
        if self.slot.put_down().is_some() {
            self.tell_handled();
        }
    }

    fn tell_handled(&self) {
        let slot = Slot::Named(Arc::clone(&self.slot));
        let _ = self.commands.unbounded_send(Command::Handled(slot));
    }
}

impl Stream for Watch {
    type Item = Result<Notice, InvalidWatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Asked { next, tell } = self.slot.poll_next(cx.waker());
        if tell.is_some() {
            self.tell_handled();
        }
        next
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let slot = Slot::Named(Arc::clone(&self.slot));
        let _ = self.commands.unbounded_send(Command::Unwatch(slot));
    }
}

/// A watch of every resource of a type, or of those that a glob stands for: a stream of what changed, in
/// the order in which it last changed.
///
/// It begins with the resources that are there already. A resource that changes several times before
/// it is asked for is told once. [`Change::Resync`] says to forget everything: what follows is
/// complete again.
///
/// Asking for the next item, or dropping the watch, says that the last item is dealt with. As with
/// [`Watch`], the client reads on once every change of the last response is.
#[derive(Debug)]
#[must_use = "dropping a watch ends it"]
pub struct WatchAll {
    slot: Arc<AllSlot>,
    commands: Commands,
}

impl WatchAll {
    pub(crate) fn new(slot: Arc<AllSlot>, commands: Commands) -> Self {
        Self { slot, commands }
    }

    /// The next change; `None` once the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Change, InvalidWatch>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Says that the last change is dealt with, without asking for the next one yet.
    ///
    /// With [`ReadGate::Notices`](xds_core::client::ReadGate), the client goes on reading once every change of
    /// the last response was taken and the last one is handled.
    pub fn handled(&mut self) {
        if self.slot.put_down().is_some() {
            self.tell(Tell::Handled);
        }
    }

    /// Whether every change was taken that the client had when it was last asked: what comes next is news.
    /// After a [`Change::Resync`] that is when the state is complete again. Whoever waits for the next
    /// item is woken when it becomes so.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.slot.is_caught_up()
    }

    fn tell(&self, tell: Tell) {
        let slot = Arc::clone(&self.slot);
        let command = match tell {
            Tell::Handled => Command::Handled(Slot::All(slot)),
            Tell::Pull => Command::Pull(slot),
        };
        let _ = self.commands.unbounded_send(command);
    }
}

impl Stream for WatchAll {
    type Item = Result<Change, InvalidWatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Asked { next, tell } = self.slot.poll_next(cx.waker());
        if let Some(tell) = tell {
            self.tell(tell);
        }
        next
    }
}

impl Drop for WatchAll {
    fn drop(&mut self) {
        let slot = Slot::All(Arc::clone(&self.slot));
        let _ = self.commands.unbounded_send(Command::Unwatch(slot));
    }
}
