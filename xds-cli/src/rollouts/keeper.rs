//! Task that stores the states of rollouts, and reads those of commands.

use std::{io, sync::Arc};

use tokio::{
    select,
    sync::{Notify, watch},
    task::spawn_blocking,
};
use xds_core::{
    client::FilePolicy,
    rollout::{RolloutState, StoreResult},
};
use xds_fs::{Place, Watch};
use xds_source::RolloutDirectory;
use xds_tokio::{
    ServerHandle,
    server::{SharedEvent, SharedEvents, SharedNews},
};

/// Newest state of the rollouts.
pub(crate) type RolloutStates = watch::Receiver<Option<RolloutState>>;

/// Starts the task, with the state that the directory has.
pub(crate) async fn keep(
    directory: Arc<RolloutDirectory>,
    state: Option<RolloutState>,
    server: ServerHandle,
) -> io::Result<RolloutStates> {
    let changed = Arc::new(Notify::new());
    let (place, noticed) = (Place::File(directory.state_file()), Arc::clone(&changed));
    let watch = Watch::start(place, &FilePolicy::default(), move |_| noticed.notify_one())?;
    if let Some(state) = &state {
        let news = SharedNews::Observed(state.clone());
        server.rollout_news(news).await.map_err(io::Error::other)?;
    }
    let events = server.shared_rollouts().await.map_err(io::Error::other)?;
    let (states, receiver) = watch::channel(state);
    let keeper = Keeper { directory, server, states, changed, _watch: watch };
    tokio::spawn(keeper.run(events));
    Ok(receiver)
}

struct Keeper {
    directory: Arc<RolloutDirectory>,
    server: ServerHandle,
    states: watch::Sender<Option<RolloutState>>,
    /// Notified when the file with the state may have changed.
    changed: Arc<Notify>,
    _watch: Watch,
}

impl Keeper {
    async fn run(self, mut events: SharedEvents) {
        loop {
            let news = select! {
                event = events.next() => match event {
                    Some(SharedEvent::Store(state)) => Some(self.store(state).await),
                    // There are no other replicas.
                    Some(SharedEvent::Report(_)) => None,
                    None => return,
                },
                () = self.changed.notified() => self.read().await.map(SharedNews::Observed),
            };
            if let Some(news) = news {
                self.note(&news).await;
                // An error means that the server has ended.
                let _ = self.server.rollout_news(news).await;
            }
        }
    }

    async fn store(&self, state: RolloutState) -> SharedNews {
        let (directory, proposed) = (Arc::clone(&self.directory), state.clone());
        let stored = spawn_blocking(move || directory.replace(&proposed)).await;
        let result = match stored.map_err(io::Error::other).flatten() {
            Ok(result) => result,
            Err(why) => {
                tracing::warn!(%why, "cannot store the state of the rollout");
                StoreResult::Unavailable
            }
        };
        SharedNews::Stored(state, result)
    }

    /// Reads a state that another process may have stored.
    async fn read(&self) -> Option<RolloutState> {
        let directory = Arc::clone(&self.directory);
        let read = spawn_blocking(move || directory.state()).await;
        match read.map_err(io::Error::other).flatten() {
            Ok(state) => state,
            Err(why) => {
                tracing::warn!(%why, "cannot read the state of the rollout");
                None
            }
        }
    }

    async fn note(&self, news: &SharedNews) {
        let state = match news {
            SharedNews::Stored(state, StoreResult::Stored) => state,
            SharedNews::Stored(_, StoreResult::Conflict(state)) => state,
            SharedNews::Observed(state) => state,
            _ => return,
        };
        let is_newer = self.states.send_if_modified(|known| {
            let is_newer = known.as_ref().is_none_or(|it| it.generation < state.generation);
            if is_newer {
                *known = Some(state.clone());
            }
            is_newer
        });
        if is_newer {
            let (directory, state) = (Arc::clone(&self.directory), state.clone());
            let cleaned = spawn_blocking(move || directory.clean(&state)).await;
            if let Ok(Err(why)) = cleaned {
                tracing::warn!(%why, "cannot delete resources of earlier rollouts");
            }
        }
    }
}
