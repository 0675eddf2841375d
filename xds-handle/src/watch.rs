//! Untyped watches: streams that end the watch when dropped.

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
    slot::{AllSlot, NamedSlot, SlotPoll, WatcherCommand},
};

/// Watch of one resource: a stream of its newest state.
///
/// Items are the notices of [gRFC A88]: [`Notice::Changed`] with the value or the reason why there
/// is none, and [`Notice::Ambient`] for an error while the value stays in use. Intermediate states
/// are skipped if the watch is not polled in time. An invalid watch yields one [`InvalidWatch`] and
/// ends. Otherwise the stream ends with the client.
///
/// Polling for the next item, or dropping the watch, marks the last item as handled. A watch that
/// is not polled delays nothing else, unless the client is configured with
/// [`FlowControl::On`](xds_core::client::FlowControl): then the client reads no further response
/// until all watches have handled their last item.
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

    /// Returns the next notice, or `None` after the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Notice, InvalidWatch>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Marks the last notice as handled without polling for the next one.
    ///
    /// With [`FlowControl::On`](xds_core::client::FlowControl), call it before waiting for anything
    /// that requires the client to continue reading, such as the first notice of another watch.
    pub fn handled(&mut self) {
        if self.slot.mark_handled().is_some() {
            self.send_handled();
        }
    }

    fn send_handled(&self) {
        let slot = Slot::Named(Arc::clone(&self.slot));
        let _ = self.commands.unbounded_send(Command::Handled(slot));
    }
}

impl Stream for Watch {
    type Item = Result<Notice, InvalidWatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let SlotPoll { next, command } = self.slot.poll_next(cx.waker());
        if command.is_some() {
            self.send_handled();
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

/// Watch of all resources of a type, or of those that match a glob: a stream of changes, in the
/// order of the resources' last changes.
///
/// The stream begins with the known resources. A resource that changes several times before it is
/// returned is returned once. After [`Change::Resync`], discard all resources: the complete state
/// follows.
///
/// Polling for the next item, or dropping the watch, marks the last item as handled. With
/// [`FlowControl::On`](xds_core::client::FlowControl), the client reads the next response after all
/// changes of the last one are handled.
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

    /// Returns the next change, or `None` after the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Change, InvalidWatch>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Marks the last change as handled without polling for the next one.
    ///
    /// With [`FlowControl::On`](xds_core::client::FlowControl), the client continues reading after
    /// all changes of the last response were returned and the last one is handled.
    pub fn handled(&mut self) {
        if self.slot.mark_handled().is_some() {
            self.send(WatcherCommand::Handled);
        }
    }

    /// Whether all changes have been returned, as of the last exchange with the client. After a
    /// [`Change::Resync`] the state is then complete. A task that waits for the next item is woken
    /// when this becomes `true`.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.slot.is_caught_up()
    }

    fn send(&self, command: WatcherCommand) {
        let slot = Arc::clone(&self.slot);
        let command = match command {
            WatcherCommand::Handled => Command::Handled(Slot::All(slot)),
            WatcherCommand::Pull => Command::Pull(slot),
        };
        let _ = self.commands.unbounded_send(command);
    }
}

impl Stream for WatchAll {
    type Item = Result<Change, InvalidWatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let SlotPoll { next, command } = self.slot.poll_next(cx.waker());
        if let Some(command) = command {
            self.send(command);
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
