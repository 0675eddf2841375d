//! What goes from the application to the driver.

use core::convert::Infallible;
use std::sync::Arc;

use futures_channel::{mpsc::UnboundedSender, oneshot};
use xds_core::{
    ResourceName, TypeUrl,
    client::{ClientStats, InvalidWatch},
};

use crate::{
    slot::{AllSlot, DriverView, NamedSlot},
    snapshot::ResourceSnapshot,
};

pub(crate) type Commands = UnboundedSender<Command>;

#[derive(Debug)]
pub(crate) enum Command {
    Watch {
        type_url: TypeUrl,
        name: ResourceName,
        slot: Unclaimed,
    },
    WatchAll {
        type_url: TypeUrl,
        slot: Unclaimed,
    },
    Unwatch(Slot),
    /// The watcher is done with what it took and there was nothing else for it.
    Handled(Slot),
    /// The watcher of everything asks for more.
    Pull(Arc<AllSlot>),
    Stats(oneshot::Sender<ClientStats>),
    Status(oneshot::Sender<Vec<ResourceSnapshot>>),
    ShutDown,
    /// Never answered: that the sender is dropped is the news.
    AwaitEnd(oneshot::Sender<Infallible>),
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
