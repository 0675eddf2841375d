//! `xds demo --replicas`: etcd, several replicas of `xds serve`, and a client that moves between them.
//!
//! | file | contents |
//! |---|---|
//! | `balancer.rs` | forwards the client's connection to a replica |
//! | `processes.rs` | etcd and the replicas, each in a process of its own |

mod balancer;
mod processes;

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use bytes::Bytes;
use serde_json::Value as Json;
use tokio::{
    select,
    time::{interval, sleep, timeout},
};
use xds_core::{
    client::{ClientConfig, DataErrorPolicy, Node, Profile, ServerAddress},
    service::Variant,
    types,
};
use xds_etcd::{EtcdClient, EtcdOptions, EtcdStore, Prune};
use xds_format::Format;
use xds_fs::File;
use xds_tokio::{ClientHandle, ClientOptions, Tokio, client};

use self::{
    balancer::Balancer,
    processes::{Etcd, Replica, find_etcd},
};
use super::{
    follower::{ClientResource, ReferenceWatcher},
    narrator::Narrator,
    steps::{FILES, edit},
    view,
};
use crate::{
    args::DemoArgs,
    commands::etcd::values_of,
    directory::{Key, Sources},
    facts,
    failure::{DemoFailure, Failure},
    resource_types::Validation,
    text::count,
};

/// Time limit of each expected result. A client tries the server that it prefers again after its
/// backoff.
const LIMIT: Duration = Duration::from_secs(40);
/// Time between two looks at the state.
const POLL: Duration = Duration::from_millis(20);
/// Time in which nothing must arrive.
const SILENCE: Duration = Duration::from_millis(700);
/// Prefix of the keys in etcd.
const PREFIX: &str = "/demo";

type ClientResources = BTreeMap<Key, ClientResource>;

struct ReplicaDemo {
    narrator: Narrator,
    store: EtcdStore,
    files: BTreeMap<&'static str, &'static str>,
    replicas: Vec<Replica>,
    balancer: Balancer,
    client: ClientHandle,
    follower: ReferenceWatcher,
    /// ClientResources of the client after the last step.
    resources: ClientResources,
    _etcd: Etcd,
}

/// Runs the demo with this number of replicas.
pub(super) async fn run(args: &DemoArgs, count: u8, narrator: Narrator) -> Result<(), Failure> {
    let program = find_etcd(args.etcd.as_deref())?;
    narrator.paragraph(
        "A mesh has more than one management server. These replicas share nothing\n\
         except the source of the resources, here etcd. A client may be moved from\n\
         one to another at any time. It must not be sent again what it has, and it\n\
         must never see a state that is older than the one that it has seen.",
    )?;
    let mut demo = ReplicaDemo::begin(&program, count, narrator).await?;
    demo.change().await?;
    demo.move_away().await?;
    demo.change_meanwhile().await?;
    demo.move_back().await?;
    demo.end()
}

impl ReplicaDemo {
    async fn begin(program: &Path, count: u8, mut narrator: Narrator) -> Result<Self, Failure> {
        narrator
            .step(
                "etcd starts, and the resources of a shop are written to it, in one\n\
                 transaction.",
            )
            .await?;
        let etcd = Etcd::start(program)?;
        let address = etcd.address.to_string();
        let source = format!("etcd://{address}{PREFIX}");
        let options = EtcdOptions::new([address]);
        let etcd_client = EtcdClient::new(Tokio, options).map_err(DemoFailure::Source)?;
        let store = EtcdStore::new(etcd_client, PREFIX);
        let files: BTreeMap<_, _> = FILES.iter().copied().collect();
        let written = write_when_ready(&store, &files).await?;
        narrator.show(&format!("{written} resources are in {source}."), "")?;

        narrator.step(&format!("{count} replicas start: `xds serve {source}`.")).await?;
        let mut replicas = Vec::new();
        for name in ('A'..='Z').take(usize::from(count)) {
            replicas.push(Replica::start(name, &source).await?);
        }
        let list = replicas.iter().map(|it| format!("replica {} on {}\n", it.name, it.address));
        narrator.show("Each has read the whole state, and is ready:", &list.collect::<String>())?;

        narrator
            .step(
                "A client starts. It connects to a balancer in front of the replicas, as a\n\
                 Service of Kubernetes is, which gives the connection to replica A. The\n\
                 client requests the listener `shop`, and the resources that it refers to.",
            )
            .await?;
        let first = replicas.first().ok_or(DemoFailure::Ended)?.address;
        let balancer = Balancer::start(first).await?;
        let client = client::connect(client_config(&balancer), ClientOptions::default());
        let mut follower = ReferenceWatcher::new(client.clone());
        follower.start("shop");
        let mut demo = Self {
            narrator,
            store,
            files,
            replicas,
            balancer,
            client,
            follower,
            resources: BTreeMap::new(),
            _etcd: etcd,
        };
        demo.settle("the whole configuration arrives", |demo, resources| {
            is_complete(resources) && demo.is_current_at(0)
        })
        .await?;
        let style = demo.narrator.style;
        demo.narrator.show("The client's resources:", &view::tree(&demo.resources, style))?;
        demo.show_versions(
            0,
            "Versions have the revision of etcd and a hash of the contents. Replica A has\n\
             sent:",
        )?;
        Ok(demo)
    }

    async fn change(&mut self) -> Result<(), Failure> {
        self.narrator.step("The cart service is scaled up. One transaction changes etcd.").await?;
        self.edit(&[("endpoints.yaml", edit!("endpoints-cart-grown.yaml"))]).await?;
        self.settle_and_show(
            "All replicas follow etcd. The client, from replica A:",
            |demo, resources| endpoints(resources, "cart") == 3 && demo.is_current_at(0),
        )
        .await
    }

    async fn move_away(&mut self) -> Result<(), Failure> {
        self.narrator
            .step(
                "Replica A is killed. The balancer gives the client's next connection to\n\
                 replica B.",
            )
            .await?;
        if let Some(first) = self.replicas.first_mut() {
            first.kill().await;
        }
        let before = self.resources.clone();
        self.move_to(1);
        self.settle("the client is served by replica B", |demo, _| demo.is_current_at(1)).await?;
        sleep(SILENCE).await;
        self.settle("the client is at rest", |demo, _| demo.is_current_at(1)).await?;
        if before != self.resources {
            return Err(DemoFailure::Moved { what: "its resources have changed" }.into());
        }
        self.show_versions(
            1,
            "The client stated the version of each resource that it has. The hashes are\n\
             those of replica B, which therefore sent no resource again, and removed\n\
             none:",
        )
    }

    async fn change_meanwhile(&mut self) -> Result<(), Failure> {
        self.narrator.step("While replica A is away, the reviews service is removed.").await?;
        self.edit(&[
            ("routes.yaml", edit!("routes-without-reviews.yaml")),
            ("clusters.yaml", edit!("clusters-without-reviews.yaml")),
            ("endpoints.yaml", edit!("endpoints-without-reviews.yaml")),
        ])
        .await?;
        self.settle_and_show("The client, from replica B:", |demo, resources| {
            let is_gone = |key: &Key| !key.name.as_str().contains("reviews");
            resources.keys().all(is_gone) && is_complete(resources) && demo.is_current_at(1)
        })
        .await
    }

    async fn move_back(&mut self) -> Result<(), Failure> {
        self.narrator
            .step(
                "Replica A starts again, and the client is moved back to it. Before it\n\
                 answers, a replica asks etcd for the newest revision, and waits until it has\n\
                 read that far: it cannot show a state from before the removal.",
            )
            .await?;
        let before = self.resources.clone();
        if let Some(first) = self.replicas.first_mut() {
            first.restart().await?;
        }
        self.move_to(0);
        self.settle("the client is served by replica A again", |demo, _| demo.is_current_at(0))
            .await?;
        sleep(SILENCE).await;
        self.settle("the client is at rest", |demo, _| demo.is_current_at(0)).await?;
        if before != self.resources {
            return Err(DemoFailure::Moved { what: "it saw another state" }.into());
        }
        self.show_versions(0, "The client has seen no change. Replica A has sent:")
    }

    fn end(self) -> Result<(), Failure> {
        self.narrator.paragraph(
            "This is the end of the demo. To go on, start etcd, write a directory with\n\
             `xds apply`, and start as many replicas as you like with\n\
             `xds serve etcd://HOST:PORT/PREFIX`.",
        )
    }

    /// Replaces files, and writes the difference to etcd.
    async fn edit(&mut self, edits: &[(&'static str, &'static str)]) -> Result<(), Failure> {
        self.files.extend(edits.iter().copied());
        write(&self.store, &self.files).await?;
        Ok(())
    }

    /// Waits until `is_expected` is true.
    async fn settle(
        &mut self,
        what: &'static str,
        is_expected: impl Fn(&Self, &ClientResources) -> bool,
    ) -> Result<(), Failure> {
        let reached = async {
            let mut polls = interval(POLL);
            loop {
                select! {
                    change = self.follower.next() => change?,
                    _ = polls.tick() => {
                        let resources = self.follower.resources();
                        if is_expected(self, &resources) {
                            self.resources = resources;
                            return Ok(());
                        }
                    }
                }
            }
        };
        timeout(LIMIT, reached)
            .await
            .unwrap_or_else(|_| Err(DemoFailure::TooLate { what, limit: LIMIT }.into()))
    }

    /// Waits for the expected result, and shows the changes at the client.
    async fn settle_and_show(
        &mut self,
        title: &str,
        is_expected: impl Fn(&Self, &ClientResources) -> bool,
    ) -> Result<(), Failure> {
        let before = self.resources.clone();
        self.settle("the change arrives", is_expected).await?;
        let style = self.narrator.style;
        self.narrator.show(title, &view::changes(&before, &self.resources, style))
    }

    /// Lets the balancer give connections to this replica. The client connects without backoff, to
    /// shorten the demo.
    fn move_to(&self, replica: usize) {
        if let Some(replica) = self.replicas.get(replica) {
            self.balancer.move_to(replica.address);
            self.client.reset_backoff();
        }
    }

    /// Whether the client is connected to this replica, and has ACKed all that it was sent.
    fn is_current_at(&self, replica: usize) -> bool {
        let Some(replica) = self.replicas.get(replica) else { return false };
        let rows = replica.rows();
        let is_acked = |row: &Json| row["sent"] == row["acked"];
        let types: BTreeSet<_> = rows.iter().filter_map(|row| row["type"].as_str()).collect();
        types.len() == TYPES.len() && rows.iter().all(is_acked)
    }

    /// Shows the number of responses to the client for each type, and the version of the last one.
    fn show_versions(&self, replica: usize, title: &str) -> Result<(), Failure> {
        let Some(replica) = self.replicas.get(replica) else { return Ok(()) };
        let line = |row: &Json| {
            let kind = row["type"].as_str().unwrap_or_default();
            let responses = count(row["responses"].as_u64().unwrap_or_default(), "response");
            let version = row["acked"]
                .as_str()
                .filter(|it| !it.is_empty())
                .map(|version| format!(", version {version}"));
            format!("{kind}: {responses}{}\n", version.unwrap_or_default())
        };
        self.narrator.show(title, &replica.rows().iter().map(line).collect::<String>())
    }
}

/// Types that the client subscribes to.
const TYPES: [&str; 4] =
    [types::LISTENER, types::ROUTE_CONFIGURATION, types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT];

fn client_config(balancer: &Balancer) -> ClientConfig {
    let server = ServerAddress::new(balancer.address.to_string());
    // The versions of single resources tell the next replica all that the client has.
    let server = server.with_variant(Variant::Incremental);
    let mut profile = Profile::grpc();
    // Removed resources are dropped, as in a proxy.
    profile.data_errors = DataErrorPolicy::DropDeleted;
    let config = ClientConfig::new(Node::new("demo-client"), server).with_profile(profile);
    TYPES.iter().fold(config, |config, &type_url| Validation::On.register(config, type_url.into()))
}

fn is_complete(resources: &ClientResources) -> bool {
    !resources.is_empty()
        && resources.values().all(|resource| resource.json.is_some() && resource.problem.is_none())
}

fn endpoints(resources: &ClientResources, cluster: &str) -> usize {
    let key = Key { type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(), name: cluster.into() };
    let json = resources.get(&key).and_then(|resource| resource.json.as_deref());
    json.map(|json| facts::endpoints(json).len()).unwrap_or_default()
}

/// Writes the files once etcd answers. Returns the number of resources.
async fn write_when_ready(
    store: &EtcdStore,
    files: &BTreeMap<&'static str, &'static str>,
) -> Result<usize, DemoFailure> {
    let mut written = write(store, files).await;
    for _ in 0..LIMIT.as_millis() / 200 {
        if written.is_ok() {
            break;
        }
        sleep(Duration::from_millis(200)).await;
        written = write(store, files).await;
    }
    written
}

/// Writes the difference between the files and what is stored. Returns the number of resources.
async fn write(
    store: &EtcdStore,
    files: &BTreeMap<&'static str, &'static str>,
) -> Result<usize, DemoFailure> {
    let mut sources = Sources::default();
    let files = files.iter().map(|(&name, &content)| {
        let content = Bytes::from_static(content.as_bytes());
        File::new(name, Format::Yaml, Ok(content))
    });
    if let Some(error) = sources.update(files.collect()).into_iter().next() {
        return Err(DemoFailure::Configuration(error.to_string()));
    }
    let values = values_of(&sources, &"".into());
    let values = values.map_err(|why| DemoFailure::Configuration(why.to_string()))?;
    let failed = |why: &dyn core::fmt::Display| DemoFailure::Source(why.to_string());
    let stored = store.read().await.map_err(|why| failed(&why))?;
    store.write(&stored, &values, Prune::Yes).await.map_err(|why| failed(&why))?;
    Ok(values.len())
}
