//! Directory of one server as the place of the state of its rollouts.

use core::fmt::Debug;
use std::{io, path::PathBuf, sync::Arc};

use futures_util::{StreamExt as _, stream};
use tokio::{sync::Notify, task::spawn_blocking};
use xds_core::{
    client::FilePolicy,
    rollout::{CohortReport, RolloutId, RolloutState, StoreResult},
};
use xds_fs::{Place, Watch};
use xds_source::{
    EndedRollout, ReportedProgress, RolloutDirectory, RolloutStore, SourceError, StoreFuture,
    StoreNews, StoreWatch, StoredResource,
};

/// Directory with the state of the rollouts of one server.
#[derive(Clone, Debug)]
pub(crate) struct LocalRollouts(Arc<RolloutDirectory>);

impl LocalRollouts {
    /// Opens the directory for the server whose rollouts it has.
    pub(crate) async fn open_for_server(path: PathBuf) -> io::Result<Self> {
        Self::opened(move || RolloutDirectory::open_for_server(path)).await
    }

    /// Opens the directory.
    pub(crate) async fn open(path: PathBuf) -> io::Result<Self> {
        Self::opened(move || RolloutDirectory::open(path)).await
    }

    async fn opened(
        open: impl FnOnce() -> io::Result<RolloutDirectory> + Send + 'static,
    ) -> io::Result<Self> {
        let opened = spawn_blocking(open).await.map_err(io::Error::other)?;
        Ok(Self(Arc::new(opened?)))
    }

    /// Calls the directory on a thread that may block.
    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&RolloutDirectory) -> io::Result<T> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let directory = Arc::clone(&self.0);
        Box::pin(async move {
            let called = spawn_blocking(move || call(&directory)).await;
            let result = called.map_err(io::Error::other).flatten();
            result.map_err(|why| SourceError::Failed(why.to_string()))
        })
    }
}

impl RolloutStore for LocalRollouts {
    fn is_shared(&self) -> bool {
        false
    }

    fn state(&self) -> StoreFuture<'_, Option<RolloutState>> {
        self.call(RolloutDirectory::state)
    }

    fn replace<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, StoreResult> {
        let state = state.clone();
        self.call(move |directory| directory.replace(&state))
    }

    fn contents(&self, id: RolloutId) -> StoreFuture<'_, Option<Vec<StoredResource>>> {
        self.call(move |directory| directory.contents(id))
    }

    fn save_contents<'s>(
        &'s self,
        id: RolloutId,
        resources: &'s [StoredResource],
    ) -> StoreFuture<'s, ()> {
        let resources = resources.to_vec();
        self.call(move |directory| directory.save_contents(id, &resources))
    }

    fn clean<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, ()> {
        let state = state.clone();
        self.call(move |directory| directory.clean(&state))
    }

    fn history(&self) -> StoreFuture<'_, Vec<EndedRollout>> {
        self.call(RolloutDirectory::history)
    }

    fn progress(&self) -> StoreFuture<'_, Vec<ReportedProgress>> {
        self.call(|directory| {
            let of_server = |json| ReportedProgress { server: String::new(), json };
            Ok(directory.progress()?.map(of_server).into_iter().collect())
        })
    }

    fn report_progress<'s>(&'s self, json: &'s str) -> StoreFuture<'s, ()> {
        let json = json.to_owned();
        self.call(move |directory| directory.report_progress(&json))
    }

    // There are no other servers.
    fn report(&self, _: CohortReport) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn join(&self) {}

    fn leave(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn watch(&self) -> StoreWatch {
        let changed = Arc::new(Notify::new());
        let (place, noticed) = (Place::File(self.0.state_file()), Arc::clone(&changed));
        let watch = Watch::start(place, &FilePolicy::default(), move |_| noticed.notify_one());
        let watch = match watch {
            Ok(watch) => watch,
            Err(why) => {
                let why = SourceError::Failed(format!("{}: {why}", self.0.state_file().display()));
                return stream::iter([Err(why)]).boxed();
            }
        };
        changed.notify_one();
        let store = self.clone();
        stream::unfold((store, changed, watch), |(store, changed, watch)| async {
            loop {
                changed.notified().await;
                let news = match store.state().await {
                    Ok(None) => continue,
                    Ok(Some(state)) => Ok(StoreNews::State(state)),
                    Err(why) => Err(why),
                };
                return Some((news, (store, changed, watch)));
            }
        })
        .boxed()
    }
}

#[cfg(test)]
#[path = "../../../xds-source/tests/contract/rollout_store.rs"]
mod contract;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn directory_keeps_the_contract() {
        let path = std::env::temp_dir().join(format!("xds-local-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let first = LocalRollouts::open(path.clone()).await.unwrap();
        let second = LocalRollouts::open(path.clone()).await.unwrap();
        contract::check(&first, &second).await;
        std::fs::remove_dir_all(path).unwrap();
    }
}
