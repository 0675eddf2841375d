//! Source in memory with the state of rollouts, and connections to it that fail.

use core::time::Duration;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures_core::Stream;
use futures_util::{StreamExt as _, stream};
use rand_pcg::{Pcg32, rand_core::Rng as _};
use tokio::{sync::watch, time::sleep};
use xds_core::{
    ViewName,
    rollout::{CohortReport, PeerNews, RolloutId, RolloutState, StoreResult},
};
use xds_format::Format;
use xds_source::{
    Change, Content, EndedRollout, List, Object, ObjectChange, ReportedProgress, Revision,
    RolloutStore, Source, SourceError, StoreFuture, StoreNews, StoreWatch, StoredResource,
    WatchError,
};

/// Source with the state of rollouts.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) revision: u64,
    pub(super) compacted: u64,
    /// Objects with the revisions of their last changes.
    pub(super) objects: BTreeMap<String, (u64, String)>,
    /// Changed objects by revision; none for a change of the state.
    log: BTreeMap<u64, Vec<(String, Option<String>)>>,
    pub(super) state: Option<RolloutState>,
    pub(super) contents: BTreeMap<RolloutId, Vec<StoredResource>>,
    pub(super) replicas: BTreeMap<Arc<str>, CohortReport>,
}

impl Cluster {
    pub(super) fn write(&mut self, objects: Vec<(String, Option<String>)>) {
        self.revision += 1;
        for (name, text) in &objects {
            match text {
                Some(text) => self.objects.insert(name.clone(), (self.revision, text.clone())),
                None => self.objects.remove(name),
            };
        }
        self.log.insert(self.revision, objects);
    }
}

fn object(name: &str, revision: u64, text: &str) -> Object {
    let bytes = text.to_owned().into();
    let content = Content::Document { format: Format::Json, bytes, only: None };
    Object::new(name, ViewName::default(), Revision(revision), content)
}

/// Connection of one server to the source, which can be interrupted.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) cluster: Arc<Mutex<Cluster>>,
    /// Newest revision, for those who wait.
    pub(super) changed: watch::Sender<u64>,
    pub(super) is_cut: watch::Sender<bool>,
    pub(super) random: Arc<Mutex<Pcg32>>,
    pub(super) name: Arc<str>,
}

fn unavailable() -> SourceError {
    SourceError::Unavailable("the connection is interrupted".into())
}

impl Link {
    pub(super) fn number(&self, below: u32) -> u32 {
        self.random.lock().unwrap().next_u32() % below
    }

    /// Waits for a short time, in one of ten cases for a longer one.
    async fn delay(&self) {
        let most = if self.number(10) == 0 { 3_000 } else { 30 };
        sleep(Duration::from_millis(u64::from(self.number(most)))).await;
    }

    async fn call<T>(&self, call: impl FnOnce(&mut Cluster) -> T) -> Result<T, SourceError> {
        self.delay().await;
        if *self.is_cut.borrow() {
            return Err(unavailable());
        }
        let (result, revision) = {
            let mut cluster = self.cluster.lock().unwrap();
            (call(&mut cluster), cluster.revision)
        };
        self.changed.send_replace(revision);
        self.delay().await;
        // It was carried out, and the answer is lost.
        let is_lost = self.number(30) == 0 || *self.is_cut.borrow();
        if is_lost { Err(unavailable()) } else { Ok(result) }
    }

    /// Waits for the next revision, or for an interruption.
    async fn wait(&self, after: u64) -> Result<(), SourceError> {
        let (mut changed, mut is_cut) = (self.changed.subscribe(), self.is_cut.subscribe());
        tokio::select! {
            _ = changed.wait_for(|it| *it > after) => {}
            _ = is_cut.wait_for(|it| *it) => {}
        }
        self.delay().await;
        if *self.is_cut.borrow() { Err(unavailable()) } else { Ok(()) }
    }
}

impl Source for Link {
    async fn list(&self) -> Result<List, SourceError> {
        self.call(|cluster| List {
            revision: Revision(cluster.revision),
            objects: cluster
                .objects
                .iter()
                .map(|(name, (at, text))| object(name, *at, text))
                .collect(),
        })
        .await
    }

    async fn newest_revision(&self) -> Result<Option<Revision>, SourceError> {
        self.call(|cluster| Some(Revision(cluster.revision))).await
    }

    fn watch(
        &self,
        after: Revision,
    ) -> impl Stream<Item = Result<Change, WatchError>> + Send + 'static {
        let link = self.clone();
        stream::unfold(Some(after.0), move |after| {
            let link = link.clone();
            async move {
                let after = after?;
                let next = async {
                    link.wait(after).await?;
                    let cluster = link.cluster.lock().unwrap();
                    if after < cluster.compacted {
                        return Err(WatchError::Compacted);
                    }
                    let (revision, objects) =
                        cluster.log.range(after + 1..).next().ok_or_else(unavailable)?;
                    // Their values at that revision.
                    let objects = objects.iter().map(|(name, text)| match text {
                        Some(text) => ObjectChange::Set(object(name, *revision, text)),
                        None => ObjectChange::Delete(name.as_str().into()),
                    });
                    Ok(Change { revision: Revision(*revision), objects: objects.collect() })
                };
                let next = next.await;
                let position = next.as_ref().ok().map(|it| it.revision.0);
                Some((next, position))
            }
        })
    }
}

impl RolloutStore for Link {
    fn is_shared(&self) -> bool {
        true
    }

    fn state(&self) -> StoreFuture<'_, Option<RolloutState>> {
        Box::pin(self.call(|cluster| cluster.state.clone()))
    }

    fn replace<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, StoreResult> {
        Box::pin(self.call(move |cluster| {
            if let Some(result) = StoreResult::without_write(cluster.state.clone(), state) {
                return result;
            }
            for named in [state.id, state.stable] {
                assert!(cluster.contents.contains_key(&named), "{state} without its contents");
            }
            cluster.state = Some(state.clone());
            cluster.write(Vec::new());
            StoreResult::Stored
        }))
    }

    fn contents(&self, id: RolloutId) -> StoreFuture<'_, Option<Vec<StoredResource>>> {
        Box::pin(self.call(move |cluster| cluster.contents.get(&id).cloned()))
    }

    fn save_contents<'s>(
        &'s self,
        id: RolloutId,
        resources: &'s [StoredResource],
    ) -> StoreFuture<'s, ()> {
        Box::pin(self.call(move |cluster| {
            cluster.contents.entry(id).or_insert_with(|| resources.to_vec());
        }))
    }

    fn clean<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, ()> {
        Box::pin(self.call(|cluster| {
            cluster.contents.retain(|id, _| *id >= state.id || *id == state.stable);
        }))
    }

    fn history(&self) -> StoreFuture<'_, Vec<EndedRollout>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn progress(&self) -> StoreFuture<'_, Vec<ReportedProgress>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn report_progress<'s>(&'s self, _: &'s str) -> StoreFuture<'s, ()> {
        Box::pin(async { Ok(()) })
    }

    fn report(&self, report: CohortReport) -> StoreFuture<'_, ()> {
        let link = self.clone();
        // It is written in the background.
        Box::pin(async move {
            tokio::spawn(async move {
                let _ = link
                    .call(|cluster| {
                        // A later one was faster.
                        let known = cluster.replicas.get(&link.name);
                        if known.is_none_or(|it| it.generation <= report.generation) {
                            cluster.replicas.insert(Arc::clone(&link.name), report);
                            cluster.write(Vec::new());
                        }
                    })
                    .await;
            });
            Ok(())
        })
    }

    fn join(&self) {
        let mut cluster = self.cluster.lock().unwrap();
        cluster.replicas.entry(Arc::clone(&self.name)).or_default();
        cluster.write(Vec::new());
        self.changed.send_replace(cluster.revision);
    }

    fn leave(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn watch(&self) -> StoreWatch {
        let (link, known) = (self.clone(), BTreeMap::<Arc<str>, CohortReport>::new());
        let start = Some((0, None, known));
        stream::unfold(start, move |position| {
            let link = link.clone();
            async move {
                let (after, mut state, mut known) = position?;
                if let Err(why) = link.wait(after).await {
                    return Some((stream::iter(vec![Err(why)]), None));
                }
                let mut news = Vec::new();
                let cluster = link.cluster.lock().unwrap();
                if state != cluster.state {
                    state.clone_from(&cluster.state);
                    news.extend(state.clone().map(|it| Ok(StoreNews::State(it))));
                }
                for (name, report) in cluster.replicas.iter().filter(|(it, _)| **it != link.name) {
                    if known.insert(Arc::clone(name), *report) != Some(*report) {
                        let report = PeerNews::Reported(*report);
                        news.push(Ok(StoreNews::Replica(Arc::clone(name), report)));
                    }
                }
                let gone: Vec<_> = known
                    .keys()
                    .filter(|it| !cluster.replicas.contains_key(*it))
                    .cloned()
                    .collect();
                for name in gone {
                    known.remove(&name);
                    news.push(Ok(StoreNews::Replica(name, PeerNews::Left)));
                }
                Some((stream::iter(news), Some((cluster.revision, state, known))))
            }
        })
        .flatten()
        .boxed()
    }
}
