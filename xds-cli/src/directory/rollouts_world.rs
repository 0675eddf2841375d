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
use rand_pcg::Pcg32;
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
        Cohort, RolloutCommand, RolloutId, RolloutPolicy, RolloutState, RolloutStep, Share, Sharing,
    },
    server::ServerConfig,
    types,
};
use xds_source::{RolloutStore, StoredResource};
use xds_tokio::{ManagementServer, ServerHandle, ServerOptions};

use super::{
    FollowOptions, FollowedRollouts, FollowedSource, KnownRollouts, SourceReader,
    memory_source::{Cluster, Link},
};
use crate::rollouts::{RolloutSettings, keep};

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
        Self::of(Arc::default(), seed).await
    }

    async fn of(cluster: Arc<Mutex<Cluster>>, seed: u64) -> Self {
        let changed = watch::channel(0).0;
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

/// A copied prefix has the rollouts of the cluster from which it was copied, whose revisions are greater.
#[test]
fn rollout_of_another_history_is_reported() {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let cluster = Arc::new(Mutex::new(Cluster::default()));
        {
            let mut cluster = cluster.lock().unwrap();
            cluster.contents.insert(RolloutId(987), Vec::new());
            cluster.state = Some(RolloutState::initial(RolloutId(987)));
        }
        let world = World::of(cluster, 1).await;
        sleep(Duration::from_secs(60)).await;
        let errors = world.errors.lock().unwrap().clone();
        let why = "the stored rollout has the number 987, and the source is only at revision ";
        for replica in &world.replicas {
            let name = &replica.link.name;
            let has_said = errors.iter().any(|it| it.starts_with(&**name) && it.contains(why));
            assert!(has_said, "{name}: {errors:?}");
        }
    });
}
