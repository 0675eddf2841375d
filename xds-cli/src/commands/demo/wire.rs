//! Order in which a client receives a change with make before break.

use core::{future::poll_fn, pin::Pin, task::Poll, time::Duration};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_core::Stream as _;
use tokio::{net::TcpListener, time::timeout};
use xds_core::{
    TypeUrl,
    client::{
        Change, ClientConfig, Node, Notice, Profile, Rejection, ResourceType,
        ServerAddress as Address, ValidationContext, Value,
    },
    server::{MakeBeforeBreakPolicy, OrderingPolicy, ServerConfig},
    types,
};
use xds_format::{Format, resource_name};
use xds_fs::File;
use xds_tokio::{
    ClientHandle, ClientOptions, ManagementServer, ServerHandle, ServerOptions, Watch, WatchAll,
    client,
};

use crate::{
    directory::Sources,
    facts,
    failure::DemoFailure,
    resource_types::{EnvoyType, json},
    schema::schema,
    style::Style,
    text::{escaped, type_name},
};

/// Time limit of the whole change.
const LIMIT: Duration = Duration::from_secs(15);

/// Resource in a response, or a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) type_url: TypeUrl,
    pub(super) name: String,
    pub(super) is_removal: bool,
}

type Log = Arc<Mutex<Vec<Received>>>;

/// Type that records each resource when a response with it is read.
#[derive(Debug)]
struct Recorded {
    inner: EnvoyType,
    log: Log,
}

impl ResourceType for Recorded {
    fn type_url(&self) -> &TypeUrl {
        self.inner.type_url()
    }

    fn validate(
        &self,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        let type_url = self.type_url().clone();
        let name = resource_name(schema(), type_url.as_str(), resource).unwrap_or_default();
        push(&self.log, Received { type_url, name, is_removal: false });
        self.inner.validate(resource, context)
    }
}

fn push(log: &Log, received: Received) {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(received);
}

/// Serves the files, replaces the cluster `reviews` by `reviews-v2` in one change, and returns what
/// a client received because of the change.
pub(super) async fn move_reviews(files: &[(&str, &str)]) -> Result<Vec<Received>, DemoFailure> {
    let what = "the route uses the new cluster, and the old one is removed";
    timeout(LIMIT, run(files)).await.unwrap_or(Err(DemoFailure::TooLate { what, limit: LIMIT }))
}

async fn run(files: &[(&str, &str)]) -> Result<Vec<Received>, DemoFailure> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(DemoFailure::Listen)?;
    let address = listener.local_addr().map_err(DemoFailure::Listen)?;
    let ordering = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
    let config = ServerConfig::default().with_ordering(ordering);
    let server = ManagementServer::start(config, ServerOptions::default());
    let handle = server.handle();
    let mut sources = Sources::default();
    apply(&handle, &mut sources, files, |content| content.to_owned()).await?;
    let serving = tokio::spawn(server.serve(listener));

    let log = Log::default();
    let mut proxy = Proxy::start(&address.to_string(), &log);
    while !(proxy.has_endpoints_of("reviews") && proxy.routes.contains(&"reviews".to_owned())) {
        proxy.next(&log).await?;
    }
    log.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let moved = |content: &str| {
        content
            .replace("name: reviews\n", "name: reviews-v2\n")
            .replace("cluster: reviews,", "cluster: reviews-v2,")
            .replace("reviews.shop.internal", "reviews-v2.shop.internal")
    };
    apply(&handle, &mut sources, files, moved).await?;
    while proxy.clusters.contains_key("reviews") {
        proxy.next(&log).await?;
    }
    proxy.client.shut_down();
    handle.shut_down().await;
    serving.abort();
    let received = log.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(received)
}

/// Serves the files after an edit of each content.
async fn apply(
    server: &ServerHandle,
    sources: &mut Sources,
    files: &[(&str, &str)],
    edit: impl Fn(&str) -> String,
) -> Result<(), DemoFailure> {
    let files = files
        .iter()
        .map(|(name, content)| File::new(*name, Format::Yaml, Ok(Bytes::from(edit(content)))));
    if let Some(error) = sources.update(files.collect()).into_iter().next() {
        return Err(DemoFailure::Configuration(error.to_string()));
    }
    for transaction in sources.changes().into_transactions(None) {
        server.apply(transaction).await.map_err(|why| DemoFailure::Refused(why.to_string()))?;
    }
    sources.mark_served();
    Ok(())
}

/// Client that requests all clusters and their endpoints, as Envoy does, and the routes.
struct Proxy {
    client: ClientHandle,
    all_clusters: WatchAll,
    route_watch: Watch,
    /// Clusters in use, each with the watch of its endpoints and whether they have arrived.
    clusters: BTreeMap<String, (Watch, bool)>,
    /// Clusters that the routes refer to.
    routes: Vec<String>,
}

impl Proxy {
    fn start(server: &str, log: &Log) -> Self {
        let types = [types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT, types::ROUTE_CONFIGURATION];
        let config = types.into_iter().fold(
            ClientConfig::new(Node::new("demo-proxy"), Address::new(server))
                .with_profile(Profile::envoy()),
            |config, type_url| {
                let inner = EnvoyType::new(type_url.into());
                config.with_type(Recorded { inner, log: Arc::clone(log) })
            },
        );
        let client = client::connect(config, ClientOptions::default());
        let all_clusters = client.watch_all_untyped(types::CLUSTER);
        let route_watch = client.watch_untyped(types::ROUTE_CONFIGURATION, "shop-routes");
        let (clusters, routes) = (BTreeMap::new(), Vec::new());
        Self { client, all_clusters, route_watch, clusters, routes }
    }

    fn has_endpoints_of(&self, cluster: &str) -> bool {
        self.clusters.get(cluster).is_some_and(|(_, has_arrived)| *has_arrived)
    }

    /// Processes the next notification of a watch.
    async fn next(&mut self, log: &Log) -> Result<(), DemoFailure> {
        poll_fn(|cx| {
            for (watch, has_arrived) in self.clusters.values_mut() {
                match Pin::new(watch).poll_next(cx) {
                    Poll::Pending => {}
                    Poll::Ready(Some(Ok(notice))) => {
                        *has_arrived |= matches!(notice, Notice::Changed(Ok(_)));
                        return Poll::Ready(Ok(()));
                    }
                    Poll::Ready(_) => return Poll::Ready(Err(DemoFailure::Ended)),
                }
            }
            match Pin::new(&mut self.route_watch).poll_next(cx) {
                Poll::Pending => {}
                Poll::Ready(Some(Ok(notice))) => {
                    if let Notice::Changed(Ok(routes)) = notice {
                        let routes = facts::routes(&json(&routes));
                        self.routes = routes.into_iter().flat_map(|it| it.clusters).collect();
                    }
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(_) => return Poll::Ready(Err(DemoFailure::Ended)),
            }
            match Pin::new(&mut self.all_clusters).poll_next(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Ok(change))) => {
                    self.take(change, log);
                    Poll::Ready(Ok(()))
                }
                Poll::Ready(_) => Poll::Ready(Err(DemoFailure::Ended)),
            }
        })
        .await
    }

    fn take(&mut self, change: Change, log: &Log) {
        let Change::Resource { name, result, .. } = change else { return };
        let name = name.as_str().to_owned();
        match result {
            Ok(cluster) => {
                let cluster = json(&cluster);
                if let Some(endpoints) = facts::endpoints_name(&cluster)
                    && !self.clusters.contains_key(&name)
                {
                    let watch =
                        self.client.watch_untyped(types::CLUSTER_LOAD_ASSIGNMENT, endpoints);
                    self.clusters.insert(name, (watch, false));
                }
            }
            Err(_) => {
                self.clusters.remove(&name);
                let type_url = types::CLUSTER.into();
                push(log, Received { type_url, name, is_removal: true });
            }
        }
    }
}

/// Formats the responses, one line each.
pub(super) fn listing(received: &[Received], style: Style) -> String {
    let responses = received.chunk_by(|a, b| {
        a.type_url == b.type_url && a.is_removal == b.is_removal && a.name != b.name
    });
    let mut text = String::new();
    for (at, response) in responses.enumerate() {
        let Some(first) = response.first() else { continue };
        let names: Vec<_> = response.iter().map(|it| escaped(&it.name)).collect();
        let removal = if first.is_removal { "without " } else { "" };
        let (number, kind) = (at + 1, type_name(first.type_url.as_str()));
        text += &format!("{number}. {} {removal}{}\n", style.strong(kind), names.join(", "));
    }
    text
}
