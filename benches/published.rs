//! Comparison with the published crate `xds-client` on the same frames.
//!
//! Its transport cannot be replaced, so both clients read from a socket through tonic. The cost of
//! the socket alone is measured with a client that reads frames and does not decode them. One
//! thread runs client and server, so times are work.
//!
//! Not part of the usual run; see `benches/README.md` for how to run it and for the limits
//! of that crate.

mod wire;

use std::time::Duration;

use bytes::Bytes;
use criterion::Criterion;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use prost::Message as _;
use tokio::runtime::Runtime;
use xds_benches::{
    decoded::DecodedCluster,
    frames::{self, CLUSTERS, Clusters},
    ratio::{Ratios, is_test_run},
};
use xds_client::{ProstCodec, ResourceEvent, TokioRuntime, TonicTransportBuilder, XdsClient};
use xds_core::{
    client::{ClientConfig, Node, OpaqueType, ResourceType, ServerAddress},
    proto::DiscoveryRequest,
    types,
};
use xds_tokio::{ClientHandle, ClientOptions, WatchAll, client};

use self::wire::{FrameClient, FrameServer, FrameStream};

const TRANSPORT: &str = "transport alone";
const OURS_FIRST: &str = "ours, first load";
const OURS_FIRST_DECODED: &str = "ours, first load, all decoded";
const THEIRS_FIRST: &str = "xds-client, first load";
const THEIRS_FIRST_DECODED: &str = "xds-client, first load, all decoded";
const OURS_CHANGED: &str = "ours, one changed";
const THEIRS_CHANGED: &str = "xds-client, one changed";
const OURS_NAMED: &str = "ours, 1,000 more watches";
const THEIRS_NAMED: &str = "xds-client, 1,000 more watches";
const NAMES: usize = 1_000;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(4))
        .without_plots()
        .configure_from_args();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a machine with sockets");
    let count = if is_test_run() { 1_000 } else { CLUSTERS };
    let clusters = Clusters::new(count);
    let first = clusters.response(1, None);
    let changes = [2, 3].map(|version| clusters.response(version, Some(count / 2)));
    println!("{count} clusters, {} bytes each on average", first.len() / count);

    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("published");

    let mut bare = runtime.block_on(Bare::open());
    ratios.measure(&mut group, TRANSPORT, || (), |()| runtime.block_on(bare.receive(&first)));

    ratios.measure(
        &mut group,
        OURS_FIRST,
        || runtime.block_on(Ours::open(opaque())),
        |mut ours| {
            runtime.block_on(ours.receive(&first, count));
            ours
        },
    );
    ratios.measure(
        &mut group,
        OURS_FIRST_DECODED,
        || runtime.block_on(Ours::open(DecodedCluster::default())),
        |mut ours| {
            runtime.block_on(ours.receive(&first, count));
            ours
        },
    );
    ratios.measure(
        &mut group,
        THEIRS_FIRST,
        || runtime.block_on(Theirs::<Opaque>::open()),
        |mut theirs| {
            runtime.block_on(theirs.receive(&first, count));
            theirs
        },
    );
    ratios.measure(
        &mut group,
        THEIRS_FIRST_DECODED,
        || runtime.block_on(Theirs::<Decoded>::open()),
        |mut theirs| {
            runtime.block_on(theirs.receive(&first, count));
            theirs
        },
    );

    let mut ours = runtime.block_on(Ours::open(opaque()));
    runtime.block_on(ours.receive(&first, count));
    let mut turn = changes.iter().cycle();
    ratios.measure(
        &mut group,
        OURS_CHANGED,
        || turn.next().expect("a cycle has no end"),
        |frame| runtime.block_on(ours.receive(frame, 1)),
    );
    drop(ours);
    let mut theirs = runtime.block_on(Theirs::<Opaque>::open());
    runtime.block_on(theirs.receive(&first, count));
    let mut turn = changes.iter().cycle();
    ratios.measure(
        &mut group,
        THEIRS_CHANGED,
        || turn.next().expect("a cycle has no end"),
        // It reports all resources, whether they changed or not.
        |frame| runtime.block_on(theirs.receive(frame, count)),
    );
    drop(theirs);

    measure_named(&mut ratios, &mut group, &runtime);
    group.finish();

    println!();
    for (theirs, ours) in [
        (THEIRS_FIRST, OURS_FIRST),
        (THEIRS_FIRST_DECODED, OURS_FIRST_DECODED),
        (THEIRS_CHANGED, OURS_CHANGED),
        (THEIRS_NAMED, OURS_NAMED),
    ] {
        ratios.print(theirs, ours, None);
    }
    for work in [
        OURS_FIRST,
        OURS_FIRST_DECODED,
        THEIRS_FIRST,
        THEIRS_FIRST_DECODED,
        OURS_CHANGED,
        THEIRS_CHANGED,
    ] {
        ratios.print(work, TRANSPORT, None);
    }
}

/// Adds watches by name to a client that has one, until the server has received all names.
fn measure_named(
    ratios: &mut Ratios,
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    runtime: &Runtime,
) {
    let names: Vec<String> = (1..=NAMES).map(frames::name).collect();
    let mut requests = 0;
    ratios.measure(
        group,
        OURS_NAMED,
        || runtime.block_on(Ours::open_named()),
        |(server, mut stream, client, first)| {
            runtime.block_on(async {
                let watches: Vec<_> = names
                    .iter()
                    .map(|name| client.watch_untyped(types::CLUSTER, name.as_str()))
                    .collect();
                requests = requests_until(&mut stream, NAMES + 1).await;
                (server, stream, client, first, watches)
            })
        },
    );
    println!("ours: {requests} request for {NAMES} watches");
    ratios.measure(
        group,
        THEIRS_NAMED,
        || runtime.block_on(Theirs::<Opaque>::open_named()),
        |(server, mut stream, client, first)| {
            runtime.block_on(async {
                let mut watches = Vec::with_capacity(NAMES);
                for name in &names {
                    watches.push(client.watch::<Opaque>(name.as_str()).await);
                }
                requests = requests_until(&mut stream, NAMES + 1).await;
                (server, stream, client, first, watches)
            })
        },
    );
    println!("xds-client: {requests} requests for {NAMES} watches");
}

/// Reads requests until one has this number of names. Returns how many requests that took.
async fn requests_until(stream: &mut FrameStream, names: usize) -> usize {
    for count in 1.. {
        if stream.request().await.resource_names.len() == names {
            return count;
        }
    }
    unreachable!("there is no last number")
}

fn subscription() -> DiscoveryRequest {
    DiscoveryRequest { type_url: types::CLUSTER.into(), ..DiscoveryRequest::default() }
}

/// Client that reads and answers without protocol logic.
struct Bare {
    _server: FrameServer,
    stream: FrameStream,
    client: FrameClient,
}

impl Bare {
    async fn open() -> Self {
        let mut server = FrameServer::start().await;
        let client = FrameClient::open(server.address).await;
        client.send(&subscription());
        let mut stream = server.stream().await;
        stream.request().await;
        Self { _server: server, stream, client }
    }

    async fn receive(&mut self, frame: &Bytes) {
        self.stream.send(frame.clone());
        self.client.frame().await;
        self.client.send(&subscription());
        self.stream.request().await;
    }
}

fn opaque() -> OpaqueType {
    OpaqueType::new(types::CLUSTER)
}

struct Ours {
    _server: FrameServer,
    stream: FrameStream,
    _client: ClientHandle,
    watch: WatchAll,
}

impl Ours {
    async fn open(resource_type: impl ResourceType + 'static) -> Self {
        let mut server = FrameServer::start().await;
        let client = Self::client(&server, resource_type);
        let watch = client.watch_all_untyped(types::CLUSTER);
        let mut stream = server.stream().await;
        stream.request().await;
        Self { _server: server, stream, _client: client, watch }
    }

    async fn open_named() -> (FrameServer, FrameStream, ClientHandle, xds_tokio::Watch) {
        let mut server = FrameServer::start().await;
        let client = Self::client(&server, opaque());
        let first = client.watch_untyped(types::CLUSTER, frames::name(0));
        let mut stream = server.stream().await;
        stream.request().await;
        (server, stream, client, first)
    }

    fn client(server: &FrameServer, resource_type: impl ResourceType + 'static) -> ClientHandle {
        let server = ServerAddress::new(server.address.to_string());
        let config = ClientConfig::new(Node::new("bench"), server).with_type(resource_type);
        client::connect(config, ClientOptions::default())
    }

    /// Sends a frame, and waits for its ACK and its changes.
    async fn receive(&mut self, frame: &Bytes, changes: usize) {
        self.stream.send(frame.clone());
        for _ in 0..changes {
            self.watch.next().await.expect("the client lives").expect("a sound watch");
        }
        self.watch.handled();
        self.stream.request().await;
    }
}

struct Theirs<T: xds_client::Resource> {
    _server: FrameServer,
    stream: FrameStream,
    _client: XdsClient,
    watch: xds_client::ResourceWatcher<T>,
}

impl<T: xds_client::Resource + std::fmt::Debug> Theirs<T> {
    async fn open() -> Self {
        let mut server = FrameServer::start().await;
        let client = Self::client(&server);
        let watch = client.watch::<T>("").await;
        let mut stream = server.stream().await;
        stream.request().await;
        Self { _server: server, stream, _client: client, watch }
    }

    async fn open_named() -> (FrameServer, FrameStream, XdsClient, xds_client::ResourceWatcher<T>) {
        let mut server = FrameServer::start().await;
        let client = Self::client(&server);
        let first = client.watch::<T>(frames::name(0)).await;
        let mut stream = server.stream().await;
        stream.request().await;
        (server, stream, client, first)
    }

    fn client(server: &FrameServer) -> XdsClient {
        let node = xds_client::Node::new("bench", "1").with_id("bench");
        let config = xds_client::ClientConfig::new(node, format!("http://{}", server.address));
        let transport = TonicTransportBuilder::new().with_max_decoding_message_size(256 << 20);
        XdsClient::builder(config, transport, ProstCodec, TokioRuntime).build()
    }

    async fn receive(&mut self, frame: &Bytes, changes: usize) {
        self.stream.send(frame.clone());
        for _ in 0..changes {
            match self.watch.next().await {
                Some(ResourceEvent::ResourceChanged { result: Ok(_), .. }) => {}
                other => panic!("no resource but {other:?}"),
            }
        }
        self.stream.request().await;
    }
}

/// Cluster in the cheapest form that the published client allows: its name and its bytes.
#[derive(Debug)]
struct Opaque {
    _bytes: Bytes,
}

/// First field of a cluster. All others are skipped.
#[derive(prost::Message)]
struct Name {
    #[prost(string, tag = "1")]
    name: String,
}

impl xds_client::Resource for Opaque {
    type Message = (Name, Bytes);
    const TYPE_URL: xds_client::resource::TypeUrl =
        xds_client::resource::TypeUrl::new(types::CLUSTER);

    fn deserialize(bytes: Bytes) -> xds_client::Result<Self::Message> {
        let name = Name::decode(&*bytes).map_err(xds_client::Error::Decode)?;
        Ok((name, bytes))
    }

    fn name(message: &Self::Message) -> &str {
        &message.0.name
    }

    fn validate((_, bytes): Self::Message) -> xds_client::Result<Self> {
        Ok(Self { _bytes: bytes })
    }
}

/// Cluster as the published client is meant to be used: decoded.
#[derive(Debug)]
struct Decoded {
    _cluster: Cluster,
}

impl xds_client::Resource for Decoded {
    type Message = Cluster;
    const TYPE_URL: xds_client::resource::TypeUrl =
        xds_client::resource::TypeUrl::new(types::CLUSTER);

    fn deserialize(bytes: Bytes) -> xds_client::Result<Cluster> {
        Cluster::decode(bytes).map_err(xds_client::Error::Decode)
    }

    fn name(message: &Cluster) -> &str {
        &message.name
    }

    fn validate(message: Cluster) -> xds_client::Result<Self> {
        Ok(Self { _cluster: message })
    }
}
