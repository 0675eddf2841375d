//! The application's way to its client.

use std::sync::Arc;

use futures_channel::oneshot;
use thiserror::Error;
use xds_core::{ResourceName, TypeUrl, client::ClientStats};

use crate::{
    command::{Command, Commands, Slot, Unclaimed},
    slot::{AllSlot, NamedSlot},
    snapshot::ResourceSnapshot,
    watch::{Watch, WatchAll},
};

/// The application's way to a running client. Clones are cheap and reach the same client, which
/// ends when the last of them and the last watch are dropped.
#[derive(Clone, Debug)]
pub struct ClientHandle {
    commands: Commands,
}

/// The client has been shut down, or its driver was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the client has ended")]
pub struct ClientEnded;

impl ClientHandle {
    pub(crate) fn new(commands: Commands) -> Self {
        Self { commands }
    }

    /// Watches one resource. Never blocks; may be called from anywhere.
    ///
    /// What is known already arrives at once. A watch that cannot be made says so as its first and
    /// last item: see [`Watch`].
    pub fn watch(&self, type_url: impl Into<TypeUrl>, name: impl Into<ResourceName>) -> Watch {
        let slot = Arc::new(NamedSlot::default());
        self.send(Command::Watch {
            type_url: type_url.into(),
            name: name.into(),
            slot: Unclaimed::new(Slot::Named(Arc::clone(&slot))),
        });
        Watch::new(slot, self.commands.clone())
    }

    /// Watches every resource of a type that the server has for this node (S0.104). Never blocks.
    pub fn watch_all(&self, type_url: impl Into<TypeUrl>) -> WatchAll {
        let slot = Arc::new(AllSlot::default());
        self.send(Command::WatchAll {
            type_url: type_url.into(),
            slot: Unclaimed::new(Slot::All(Arc::clone(&slot))),
        });
        WatchAll::new(slot, self.commands.clone())
    }

    /// How often things happened since the client was made.
    ///
    /// # Errors
    ///
    /// The client has ended.
    pub async fn stats(&self) -> Result<ClientStats, ClientEnded> {
        let (answer, question) = oneshot::channel();
        self.send(Command::Stats(answer));
        question.await.map_err(|_| ClientEnded)
    }

    /// Every resource that is watched, or known of under a wildcard, type by type. The payloads are
    /// shared with the client, not copied.
    ///
    /// # Errors
    ///
    /// The client has ended.
    pub async fn status(&self) -> Result<Vec<ResourceSnapshot>, ClientEnded> {
        let (answer, question) = oneshot::channel();
        self.send(Command::Status(answer));
        question.await.map_err(|_| ClientEnded)
    }

    /// Closes the stream to the server and ends every watch (SB-17). Returns at once;
    /// [`ended`](Self::ended) waits for it. What was commanded before still counts.
    pub fn shut_down(&self) {
        self.send(Command::ShutDown);
    }

    /// Waits until the client has ended, whoever ended it.
    pub async fn ended(&self) {
        let (guard, end) = oneshot::channel();
        self.send(Command::AwaitEnd(guard));
        // The driver never answers: it holds the other end until it is gone.
        let _ = end.await;
    }

    fn send(&self, command: Command) {
        // A command that nobody takes any more is dropped, which tells whoever waits for it.
        let _ = self.commands.unbounded_send(command);
    }
}
