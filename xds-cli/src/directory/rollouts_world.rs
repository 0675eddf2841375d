//! Servers that share rollouts through a source in memory, in virtual time, with random faults.
//!
//! Each write has the next revision, as in etcd, also those of the state. Between a server and the
//! source are delays and interruptions, history is compacted, and servers crash. In the end,
//! all servers have to serve what the newest state calls stable.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt as _, stream};
use rand_pcg::{Pcg32, rand_core::Rng as _};
use tokio::{
    runtime::Builder,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::sleep,
};
use xds_core::{
    ViewName,
    guards::Guards,
    references::Consistency,
    rollout::{
        Cohort, CohortReport, PeerNews, RolloutCommand, RolloutId, RolloutPolicy, RolloutState,
        RolloutStep, Share, Sharing, StoreResult,
    },
    server::ServerConfig,
    types,
};
use xds_format::Format;
use xds_source::{
    Change, Content, EndedRollout, List, Object, ObjectChange, ReportedProgress, Revision,
    RolloutStore, Source, SourceError, StoreFuture, StoreNews, StoreWatch, StoredResource,
    WatchError,
};
use xds_tokio::{ManagementServer, ServerHandle, ServerOptions};

use super::{FollowOptions, FollowedRollouts, FollowedSource, KnownRollouts, SourceReader};
use crate::rollouts::{RolloutSettings, keep};

/// Source with the state of rollouts.
#[derive(Debug, Default)]
struct Cluster {
    revision: u64,
    compacted: u64,
    /// Objects with the revisions of their last changes.
    objects: BTreeMap<String, (u64, String)>,
    /// Changed objects by revision; none for a change of the state.
    log: BTreeMap<u64, Vec<(String, Option<String>)>>,
    state: Option<RolloutState>,
    contents: BTreeMap<RolloutId, Vec<StoredResource>>,
    replicas: BTreeMap<Arc<str>, CohortReport>,
}

impl Cluster {
    fn write(&mut self, objects: Vec<(String, Option<String>)>) {
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
    Object {
        id: name.into(),
        view: ViewName::default(),
        revision: Revision(revision),
        content: Content::Document {
            format: Format::Json,
            bytes: text.to_owned().into(),
            only: None,
        },
        forced: String::new(),
    }
}

/// Connection of one server to the source, which can be interrupted.
#[derive(Clone, Debug)]
struct Link {
    cluster: Arc<Mutex<Cluster>>,
    /// Newest revision, for those who wait.
    changed: watch::Sender<u64>,
    is_cut: watch::Sender<bool>,
    random: Arc<Mutex<Pcg32>>,
    name: Arc<str>,
}

fn unavailable() -> SourceError {
    SourceError::Unavailable("the connection is interrupted".into())
}

impl Link {
    fn number(&self, below: u32) -> u32 {
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

/// Server that follows the source.
struct Replica {
    link: Link,
    server: ManagementServer,
    following: JoinHandle<()>,
}

impl Replica {
    async fn start(world: &World, name: &str) -> Self {
        let link =
            Link { name: name.into(), is_cut: watch::channel(false).0, ..world.link.clone() };
        let options = ServerOptions::default().with_rollout_sharing(Sharing::Replicas);
        let server = ManagementServer::start(ServerConfig::default(), options);
        let store: Arc<dyn RolloutStore> = Arc::new(link.clone());
        let states = keep(Arc::clone(&store), server.handle()).await.unwrap();
        let (started, rollouts) = mpsc::unbounded_channel();
        // Only the progress of a rollout is for its handle.
        drop(rollouts);
        let step = |share| {
            let step = RolloutStep::new(Cohort::of(Share::percent(share)));
            let mut step = step.with_soak(Duration::from_secs(5));
            step.min_clients = 0;
            step
        };
        let policy = RolloutPolicy::new([step(10), step(50)]);
        let settings = Arc::new(RolloutSettings { policy, metrics: Vec::new() });
        let known = KnownRollouts::default();
        let rollouts = FollowedRollouts { settings, store, states, started, known };
        let options = FollowOptions {
            consistency: Consistency::default(),
            guards: Guards::default(),
            feedback: None,
            views: None,
            rollouts: Some(rollouts),
            metrics: Arc::default(),
            validation: Default::default(),
        };
        let reader = SourceReader::new(link.clone(), name.into());
        let (handle, errors) = (server.handle(), Arc::clone(&world.errors));
        let following = tokio::spawn(async move {
            let (mut followed, _) = FollowedSource::start(reader, options, handle).await.unwrap();
            while let Some(reload) = followed.next().await {
                let texts = reload.errors.iter().map(ToString::to_string);
                errors.lock().unwrap().extend(texts);
            }
        });
        Self { link, server, following }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.following.abort();
    }
}

struct World {
    link: Link,
    replicas: Vec<Replica>,
    started: u32,
    /// Number of the newest change.
    changes: u32,
    /// Errors that the servers have reported.
    errors: Arc<Mutex<Vec<String>>>,
}

/// Time after which a server that has crashed does not count any more.
const TTL: Duration = Duration::from_secs(10);

impl World {
    async fn new(seed: u64) -> Self {
        let (cluster, changed) = (Arc::<Mutex<Cluster>>::default(), watch::channel(0).0);
        let random = Arc::new(Mutex::new(Pcg32::new(seed, 0)));
        let link =
            Link { cluster, changed, is_cut: watch::channel(false).0, random, name: "".into() };
        let mut world =
            Self { link, replicas: Vec::new(), started: 0, changes: 0, errors: Arc::default() };
        world.change("cluster-a", true);
        world.change("endpoints-a", true);
        for _ in 0..3 {
            world.start().await;
        }
        world
    }

    async fn start(&mut self) {
        self.started += 1;
        let replica = Replica::start(self, &format!("server-{}", self.started)).await;
        self.replicas.push(replica);
    }

    fn change(&mut self, name: &str, exists: bool) {
        self.changes += 1;
        let (changes, resource) = (self.changes, name.rsplit('-').next().unwrap());
        let text = match name.starts_with("cluster") {
            true => format!(
                r#"{{"@type": "{}", "name": "{resource}", "alt_stat_name": "{changes}"}}"#,
                types::CLUSTER
            ),
            false => format!(
                r#"{{"@type": "{}", "cluster_name": "{resource}",
                    "policy": {{"overprovisioning_factor": {changes}}}}}"#,
                types::CLUSTER_LOAD_ASSIGNMENT
            ),
        };
        let mut cluster = self.link.cluster.lock().unwrap();
        cluster.write(vec![(name.to_owned(), exists.then_some(text))]);
        self.link.changed.send_replace(cluster.revision);
    }

    fn command(&self, command: RolloutCommand) {
        let mut cluster = self.link.cluster.lock().unwrap();
        let next = cluster.state.as_ref().filter(|it| it.steps > 0);
        if let Some(Ok(next)) = next.map(|it| it.commanded(command)) {
            cluster.state = Some(next);
            cluster.write(Vec::new());
            self.link.changed.send_replace(cluster.revision);
        }
    }

    /// Crashes a server. Its counts stay for a while.
    async fn crash(&mut self) {
        let at = self.link.number(3) as usize;
        let crashed = self.replicas.remove(at);
        let (link, name) = (self.link.clone(), Arc::clone(&crashed.link.name));
        drop(crashed);
        tokio::spawn(async move {
            sleep(TTL).await;
            let mut cluster = link.cluster.lock().unwrap();
            cluster.replicas.remove(&name);
            cluster.write(Vec::new());
            link.changed.send_replace(cluster.revision);
        });
        sleep(Duration::from_secs(u64::from(self.link.number(20)))).await;
        self.start().await;
    }

    async fn act(&mut self) {
        let object = ["a", "b", "c"][self.link.number(3) as usize];
        let at = self.link.number(3) as usize;
        match self.link.number(16) {
            0..=4 => {
                let exists = self.link.number(4) > 0;
                self.change(&format!("cluster-{object}"), exists);
            }
            5..=7 => self.change(&format!("endpoints-{object}"), true),
            8 | 9 => self.crash().await,
            10 => drop(self.replicas[at].link.is_cut.send_replace(true)),
            11 | 12 => drop(self.replicas[at].link.is_cut.send_replace(false)),
            13 => {
                let mut cluster = self.link.cluster.lock().unwrap();
                cluster.compacted = cluster.revision;
            }
            14 => self.command(RolloutCommand::Abort),
            _ => {
                let commands =
                    [RolloutCommand::Pause, RolloutCommand::Promote, RolloutCommand::Resume];
                self.command(commands[self.link.number(3) as usize]);
            }
        }
        // Half of the time, several things happen at once.
        if self.link.number(2) == 0 {
            sleep(Duration::from_millis(u64::from(self.link.number(15_000)))).await;
        }
    }

    /// Ends all faults, and waits until nothing moves any more.
    async fn settle(&self) {
        for replica in &self.replicas {
            replica.link.is_cut.send_replace(false);
        }
        for _ in 0..100 {
            sleep(Duration::from_secs(60)).await;
            self.command(RolloutCommand::Resume);
            let state = self.link.cluster.lock().unwrap().state.clone();
            if state.is_some_and(|it| it.phase.is_final()) {
                sleep(Duration::from_secs(60)).await;
                return;
            }
        }
        panic!("the rollout does not end: {:?}", self.link.cluster.lock().unwrap().state);
    }
}

/// Resources by type and name.
type Named = BTreeMap<(String, String), Bytes>;

async fn served(server: &ServerHandle) -> (Vec<String>, Named) {
    let views = server.views().await.unwrap();
    let views = views.iter().map(|it| it.to_string()).collect();
    let contents = server.contents(ViewName::default()).await.unwrap();
    let named = contents.iter().map(|(type_url, name, bytes)| {
        ((type_url.as_str().to_owned(), name.as_str().to_owned()), bytes.clone())
    });
    (views, named.collect())
}

async fn run(seed: u64) {
    let mut world = World::new(seed).await;
    for _ in 0..40 {
        world.act().await;
    }
    world.settle().await;
    let (state, expected, newest) = {
        let cluster = world.link.cluster.lock().unwrap();
        let state = cluster.state.clone().unwrap();
        let named = |it: &StoredResource| {
            ((it.type_url.as_str().to_owned(), it.name.as_str().to_owned()), it.bytes.clone())
        };
        let stable: Named = cluster.contents[&state.stable].iter().map(named).collect();
        let newest: Named = cluster.contents[&state.id].iter().map(named).collect();
        (state, stable, newest)
    };
    let clusters = |it: &Named| -> Named {
        let clusters = it.iter().filter(|((type_url, _), _)| type_url == types::CLUSTER);
        clusters.map(|(key, bytes)| (key.clone(), bytes.clone())).collect()
    };
    let all = futures_util::future::join_all(
        world.replicas.iter().map(|it| async { served(&it.server.handle()).await }),
    );
    let all = all.await;
    let errors = world.errors.lock().unwrap().clone();
    let is_interruption = |it: &String| it.contains("interrupted") || it.contains("stored now");
    let other = errors.iter().find(|it| !is_interruption(it));
    assert_eq!(other, None, "seed {seed}");
    for (views, named) in &all {
        assert!(views.iter().all(|it| !it.contains("#rollout")), "seed {seed}: {views:?}");
        assert_eq!(clusters(named), clusters(&expected), "seed {seed}: {state}");
    }
    let different: BTreeSet<_> = all.iter().map(|(_, named)| format!("{named:?}")).collect();
    assert_eq!(different.len(), 1, "seed {seed}: the endpoints differ: {different:?}");
    // The newest number has what the source has.
    let names: Vec<_> = {
        let cluster = world.link.cluster.lock().unwrap();
        let objects = cluster.objects.iter().filter(|(name, _)| name.starts_with("cluster"));
        objects.map(|(_, (_, text))| text.clone()).collect()
    };
    let newest = clusters(&newest);
    assert_eq!(newest.len(), names.len(), "seed {seed}: {newest:?}, the source has {names:?}");
    for (key, bytes) in &newest {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let version = |it: &String| it.split('"').rev().nth(1).unwrap().to_owned();
        let is_newest = names.iter().any(|it| {
            it.contains(&format!(r#""name": "{}""#, key.1)) && text.ends_with(&version(it))
        });
        assert!(is_newest, "seed {seed}: {key:?} {text:?}, the source has {names:?}");
    }
}

#[test]
fn servers_agree_after_any_faults() {
    let seeds = std::env::var("XDS_ROLLOUT_SEEDS").ok();
    let seeds = seeds.and_then(|it| it.parse().ok()).unwrap_or(10);
    let first = std::env::var("XDS_ROLLOUT_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
    for seed in first..first + seeds {
        // What the servers of one world have started ends with its runtime.
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(run(seed));
    }
}
