//! Commands from the application to the driver.

use core::{convert::Infallible, fmt};
use std::sync::Arc;

use bytes::Bytes;
use futures_channel::{mpsc::UnboundedSender, oneshot};
use xds_core::{
    Client, ResourceName, TypeUrl, UpdateId,
    client::{InvalidStaticResource, InvalidWatch, Node, Rejection, Update},
};

use crate::{
    slot::{AllSlot, DriverView, NamedSlot},
    wall_clock::ClockReading,
};

/// Sender of the command queue, which ends when the last reference is dropped. It is shared instead
/// of cloned, so that weak references are possible.
pub(crate) type Commands = Arc<UnboundedSender<Command>>;

#[derive(Debug)]
pub(crate) enum Command {
    Watch {
        type_url: TypeUrl,
        name: ResourceName,
        slot: PendingSlot,
    },
    WatchAll {
        type_url: TypeUrl,
        /// Watches only the resources that match; `None` watches all resources of the type.
        glob: Option<ResourceName>,
        slot: PendingSlot,
    },
    Unwatch(Slot),
    /// The watcher has handled its last item, and no other was waiting.
    Handled(Slot),
    /// The watcher of a collection requests more changes.
    Pull(Arc<AllSlot>),
    /// Verdict on an update: the rejected resources.
    Settle(UpdateId, Vec<(ResourceName, Rejection)>),
    /// An update was dropped without a verdict.
    PutBack(UpdateId, Arc<Update>),
    /// Adds a static resource. The reply is its name.
    AddStatic {
        type_url: TypeUrl,
        resource: Bytes,
        sender: oneshot::Sender<Result<ResourceName, InvalidStaticResource>>,
    },
    Inspect(Inspection),
    ResetBackoff,
    SetNode(Box<Node>),
    ShutDown,
    /// Waits for the end of the client. The driver never answers; it drops the sender when it ends.
    AwaitEnd(oneshot::Sender<Infallible>),
}

/// Function that the driver calls with the client. It contains no application code.
pub(crate) struct Inspection(Box<InspectFn>);

type InspectFn = dyn FnOnce(&Client, ClockReading) + Send;

impl Inspection {
    /// Creates an inspection and the receiver of its result.
    pub(crate) fn new<T: Send + 'static>(
        inspect: impl FnOnce(&Client, ClockReading) -> T + Send + 'static,
    ) -> (Self, oneshot::Receiver<T>) {
        let (sender, reply) = oneshot::channel();
        let inspect = move |client: &Client, clock| drop(sender.send(inspect(client, clock)));
        (Self(Box::new(inspect)), reply)
    }

    pub(crate) fn perform(self, client: &Client, clock: ClockReading) {
        (self.0)(client, clock);
    }
}

impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inspection")
    }
}

/// Slot of a watch, shared with the driver.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Named(Arc<NamedSlot>),
    All(Arc<AllSlot>),
}

impl Slot {
    pub(crate) fn view(&self) -> &dyn DriverView {
        match self {
            Self::Named(slot) => &**slot,
            Self::All(slot) => &**slot,
        }
    }
}

/// Slot that the driver has not received yet. If it is dropped in the queue because the driver has
/// ended, the watch ends with an error.
#[derive(Debug)]
pub(crate) struct PendingSlot(Option<Slot>);

impl PendingSlot {
    pub(crate) fn new(slot: Slot) -> Self {
        Self(Some(slot))
    }

    pub(crate) fn claim(mut self) -> Option<Slot> {
        self.0.take()
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.view().refuse(InvalidWatch::ShutDown);
        }
    }
}
