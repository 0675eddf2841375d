//! Task that stores the states of rollouts, and passes on those of commands and of other servers.

use core::time::Duration;
use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::{select, sync::watch, time::sleep};
use xds_core::rollout::{RolloutState, StoreResult};
use xds_source::{RolloutStore, SourceError, StoreNews, StoreWatch};
use xds_tokio::{
    ServerHandle,
    server::{ServerEnded, SharedEvent, SharedEvents, SharedNews},
};

/// Newest state of the rollouts.
pub(crate) type RolloutStates = watch::Receiver<Option<RolloutState>>;

/// Time until the store is watched again if that has failed.
const RETRY: Duration = Duration::from_secs(1);

/// Starts the task.
pub(crate) async fn keep(
    store: Arc<dyn RolloutStore>,
    server: ServerHandle,
) -> Result<RolloutStates, ServerEnded> {
    let events = server.shared_rollouts().await?;
    let (states, receiver) = watch::channel(None);
    tokio::spawn(Keeper { store, server, states, last_failure: None }.run(events));
    Ok(receiver)
}

struct Keeper {
    store: Arc<dyn RolloutStore>,
    server: ServerHandle,
    states: watch::Sender<Option<RolloutState>>,
    /// Failure that was reported, as long as it lasts.
    last_failure: Option<SourceError>,
}

impl Keeper {
    async fn run(mut self, mut events: SharedEvents) {
        let mut watched: Option<StoreWatch> = Some(self.store.watch());
        loop {
            let next = async {
                match &mut watched {
                    Some(watch) => watch.next().await,
                    None => {
                        sleep(RETRY).await;
                        None
                    }
                }
            };
            let news = select! {
                event = events.next() => match event {
                    Some(SharedEvent::Store(state)) => Some(self.store(state).await),
                    Some(SharedEvent::Report(report)) => {
                        let reported = self.store.report(report).await;
                        self.note_result(reported.err(), "report the clients of");
                        None
                    }
                    None => return,
                },
                news = next => match news {
                    Some(Ok(StoreNews::State(state))) => Some(SharedNews::Observed(state)),
                    Some(Ok(StoreNews::Replica(name, news))) => {
                        Some(SharedNews::Replica(name, news))
                    }
                    Some(Ok(_)) => None,
                    Some(Err(why)) => {
                        self.note_result(Some(why), "read the state of");
                        watched = None;
                        None
                    }
                    // It has ended, or it is time for the next attempt.
                    None => {
                        watched = watched.is_none().then(|| self.store.watch());
                        None
                    }
                },
            };
            if let Some(news) = news {
                self.last_failure = None;
                self.note(&news).await;
                // An error means that the server has ended.
                let _ = self.server.rollout_news(news).await;
            }
        }
    }

    async fn store(&mut self, state: RolloutState) -> SharedNews {
        let result = match self.store.replace(&state).await {
            Ok(result) => result,
            Err(why) => {
                self.note_result(Some(why), "store the state of");
                StoreResult::Unavailable
            }
        };
        SharedNews::Stored(state, result)
    }

    /// Reports a failure, once as long as it lasts.
    fn note_result(&mut self, failure: Option<SourceError>, what: &str) {
        if let Some(why) = failure.filter(|it| self.last_failure.as_ref() != Some(it)) {
            tracing::warn!(%why, "cannot {what} the rollout");
            self.last_failure = Some(why);
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
        if is_newer && let Err(why) = self.store.clean(state).await {
            tracing::warn!(%why, "cannot delete resources of earlier rollouts");
        }
    }
}
