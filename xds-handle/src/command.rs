//! What goes from the application to the driver.

use core::{convert::Infallible, fmt};
use std::sync::Arc;

use bytes::Bytes;
use futures_channel::{mpsc::UnboundedSender, oneshot};
use xds_core::{
    Client, ResourceName, Time, TypeUrl, UpdateId,
    client::{InvalidStaticResource, InvalidWatch, Node, Rejection, Update},
};

use crate::slot::{AllSlot, DriverView, NamedSlot};

/// The queue to the driver, which ends with the last of these. Shared rather than cloned, so that
/// there can be [weak](std::sync::Weak) ones.
pub(crate) type Commands = Arc<UnboundedSender<Command>>;

#[derive(Debug)]
pub(crate) enum Command {
    Watch {
        type_url: TypeUrl,
        name: ResourceName,
        slot: Unclaimed,
    },
    WatchAll {
        type_url: TypeUrl,
        /// Only what it stands for.
        glob: Option<ResourceName>,
        slot: Unclaimed,
    },
    Unwatch(Slot),
    /// The watcher is done with what it took and there was nothing else for it.
    Handled(Slot),
    /// The watcher of everything asks for more.
    Pull(Arc<AllSlot>),
    /// The verdict on an update: what of it is rejected.
    Settle(UpdateId, Vec<(ResourceName, Rejection)>),
    /// An update that was given out, and dropped without a verdict.
    PutBack(UpdateId, Arc<Update>),
    /// A resource that no server is asked for, and who waits for its name.
    AddStatic {
        type_url: TypeUrl,
        resource: Bytes,
        answer: oneshot::Sender<Result<ResourceName, InvalidStaticResource>>,
    },
    Inspect(Inspection),
    ResetBackoff,
    SetNode(Box<Node>),
    ShutDown,
    /// Never answered: that the sender is dropped is the news.
    AwaitEnd(oneshot::Sender<Infallible>),
}

/// A look inside the client, in the driver's turn. Nothing of the application runs there.
pub(crate) struct Inspection(Box<Look>);

type Look = dyn FnOnce(&Client, Time) + Send;

impl Inspection {
    /// A look, and where what it saw arrives.
    pub(crate) fn new<T: Send + 'static>(
        look: impl FnOnce(&Client, Time) -> T + Send + 'static,
    ) -> (Self, oneshot::Receiver<T>) {
        let (answer, question) = oneshot::channel();
        let look = move |client: &Client, now| drop(answer.send(look(client, now)));
        (Self(Box::new(look)), question)
    }

    pub(crate) fn perform(self, client: &Client, now: Time) {
        (self.0)(client, now);
    }
}

impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inspection")
    }
}

/// The meeting point of one watch and the driver.
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

/// A slot on its way to the driver. If it never arrives, because the driver has ended, its watcher
/// is told so wherever in the queue the command is dropped.
#[derive(Debug)]
pub(crate) struct Unclaimed(Option<Slot>);

impl Unclaimed {
    pub(crate) fn new(slot: Slot) -> Self {
        Self(Some(slot))
    }

    pub(crate) fn claim(mut self) -> Option<Slot> {
        self.0.take()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.view().refuse(InvalidWatch::ShutDown);
        }
    }
}
