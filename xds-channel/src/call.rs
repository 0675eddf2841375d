//! A call, from its request to the head of its response.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use http::{
    HeaderValue, Request, Response, Uri,
    header::USER_AGENT,
    request::Parts,
    uri::{Authority, PathAndQuery, Scheme},
};
use hyper::{body::Incoming, rt::Timer as _};
use tokio::sync::watch;
use tonic::{Code, Status, body::Body};
use xds_grpc::runtime::{SharedRuntime, yield_now};
use xds_routing::{
    Call, Random, SocketAddress,
    balancer::{CallPermit, ConnectionId, EndpointPick, PickAttempt},
    dependencies::ClusterConfiguration,
    filters::Fault,
    router::{CallTarget, Failure},
};

use crate::{
    body::{ActiveCall, CallBody, Deadline},
    cluster::{ClusterState, EndpointConnection, Picking},
    fault::inject_fault,
    metadata::{Metadata, set_timeout, stated_timeout},
    replay::Replay,
    routing::{ClusterRef, Routing, RoutingTable},
    status::{self, Waiting},
};

/// Request extension for gRPC's wait-for-ready: the call waits instead of failing if something is
/// not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitForReady;

/// Value of the `user-agent` header, unless the application sets one.
const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));

/// State shared by all calls of a channel.
#[derive(Debug)]
pub(crate) struct ChannelState {
    pub(crate) routing: watch::Receiver<Routing>,
    pub(crate) authority: Authority,
    pub(crate) node_id: Arc<str>,
    pub(crate) random: Mutex<Random>,
    pub(crate) runtime: SharedRuntime,
}

impl ChannelState {
    /// Returns the random number generator.
    fn random(&self) -> MutexGuard<'_, Random> {
        self.random.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a call waits until it can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitMode {
    FailFast,
    WaitForReady,
}

/// Makes a call. A call that fails yields to other tasks first: they may be needed to resolve the
/// failure, and a caller that retries immediately may occupy the only thread.
pub(crate) async fn call(
    shared: Arc<ChannelState>,
    request: Request<Body>,
) -> Result<Response<CallBody>, Status> {
    let called = run_call(shared, request).await;
    if called.is_err() {
        yield_now().await;
    }
    called
}

async fn run_call(
    shared: Arc<ChannelState>,
    request: Request<Body>,
) -> Result<Response<CallBody>, Status> {
    let runtime = shared.runtime.clone();
    let began = runtime.now();
    let wait_mode = match request.extensions().get::<WaitForReady>() {
        Some(WaitForReady) => WaitMode::WaitForReady,
        None => WaitMode::FailFast,
    };
    let stated = stated_timeout(request.headers());
    let at = |limit: Option<_>| limit.and_then(|limit| began.checked_add(limit));
    // The body is not `Sync`, so a future that borrows the whole request would not be `Send`.
    let (mut parts, body) = request.into_parts();
    let deciding = decide(&shared, &parts, wait_mode);
    let (cluster_ref, limit, fault) =
        with_deadline(&runtime, at(stated), deciding, || shared.waiting()).await?;
    let deadline = at(limit);
    with_deadline(&runtime, deadline, inject_fault(fault, &runtime), || cluster_ref.waiting())
        .await?;
    complete_request(&shared, &mut parts)?;
    let outgoing = Outgoing {
        parts,
        body: Replay::new(body),
        deadline,
        trial: PickAttempt::First,
        refused_by: None,
    };
    let awaited = AwaitedEndpoint::default();
    let sending = send(&shared, &cluster_ref, outgoing, wait_mode, &awaited);
    let (response, active) =
        with_deadline(&runtime, deadline, sending, || awaited.waiting(&cluster_ref)).await?;
    let deadline = deadline.map(|at| Deadline::new(at, runtime));
    if status::is_cancelled(response.headers()) && deadline.as_ref().is_some_and(Deadline::is_past)
    {
        return Err(active.failure(None));
    }
    Ok(response.map(|body| CallBody::new(body, deadline, active)))
}

/// Limits work by the deadline of the call. The error describes what the call waited for.
async fn with_deadline<T>(
    runtime: &SharedRuntime,
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, Status>>,
    waiting: impl FnOnce() -> Waiting,
) -> Result<T, Status> {
    match deadline {
        Some(deadline) => match runtime.timeout_at(deadline, work).await {
            // The server reset the stream at the deadline, before the timer here.
            Some(Err(status)) if status.code() == Code::Cancelled && deadline <= runtime.now() => {
                Err(status::deadline_exceeded(waiting()))
            }
            Some(worked) => worked,
            None => Err(status::deadline_exceeded(waiting())),
        },
        None => work.await,
    }
}

impl ChannelState {
    /// Returns the state of routing, for error messages.
    fn waiting(&self) -> Waiting {
        match &*self.routing.borrow() {
            Routing::Failing(why) => Waiting::Failing(why.to_string()),
            Routing::Known(table) => Waiting::Noted(table.note.to_string()),
            Routing::Unknown => Waiting::unresolved(&self.node_id),
        }
    }
}

/// Decision about a call: cluster, timeout and injected fault.
type CallDecision = (Arc<ClusterRef>, Option<core::time::Duration>, Fault);

/// Decides about a call, as soon as routes are available.
async fn decide(
    shared: &ChannelState,
    request: &Parts,
    wait_mode: WaitMode,
) -> Result<CallDecision, Status> {
    let mut watched = shared.routing.clone();
    loop {
        let routing = watched.borrow_and_update().clone();
        match routing {
            Routing::Known(table) => {
                let decided = route_call(shared, &table, request);
                return decided.map_err(|why| status::of(&why, &table.note));
            }
            Routing::Failing(why) if wait_mode == WaitMode::FailFast => {
                return Err(Status::unavailable(&*why));
            }
            Routing::Failing(_) | Routing::Unknown => {}
        }
        let changed = watched.changed().await;
        changed.map_err(|_| status::ended(status::node_note(&shared.node_id)))?;
    }
}

fn route_call(
    shared: &ChannelState,
    table: &RoutingTable,
    request: &Parts,
) -> Result<CallDecision, Failure> {
    let metadata = Metadata(&request.headers);
    // gRPC treats the query as a part of the path.
    let path = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let call = Call::new(path, &metadata);
    let stated = stated_timeout(&request.headers);
    let decision = table.router.decide(&call, stated, &mut shared.random())?;
    let CallTarget::Cluster { name, .. } = decision.target else {
        return Err(Failure::UnsupportedAction(decision.route.name.clone()));
    };
    let cluster_ref =
        table.clusters.get(name).ok_or_else(|| Failure::UnknownCluster(name.clone()))?;
    Ok((Arc::clone(cluster_ref), decision.timeout, decision.fault))
}

/// Completes the URI and the headers of the request, without overwriting the application's headers.
fn complete_request(shared: &ChannelState, request: &mut Parts) -> Result<(), Status> {
    let path = request.uri.path_and_query().cloned();
    let uri = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(shared.authority.clone())
        .path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
        .build();
    request.uri = uri.map_err(|why| Status::internal(why.to_string()))?;
    request.headers.entry(USER_AGENT).or_insert(USER_AGENT_VALUE);
    Ok(())
}

/// Request to be sent to an endpoint.
struct Outgoing {
    parts: Parts,
    body: Replay,
    deadline: Option<Instant>,
    /// Whether the drop decision was made already.
    trial: PickAttempt,
    /// Connection on which the server refused the request unprocessed.
    refused_by: Option<ConnectionId>,
}

impl Outgoing {
    /// Returns a request to send over a connection with this scheme, from which the server learns
    /// whether TLS is used. Returns `None` if the body cannot be sent again.
    fn request(&self, scheme: Scheme, now: Instant) -> Option<Request<Body>> {
        let mut parts = self.parts.clone();
        // The endpoint gets the remaining time.
        if let Some(deadline) = self.deadline {
            set_timeout(&mut parts.headers, deadline.saturating_duration_since(now));
        }
        let mut uri = parts.uri.into_parts();
        uri.scheme = Some(scheme);
        parts.uri = Uri::from_parts(uri).ok()?;
        Some(Request::from_parts(parts, self.body.attempt()?))
    }
}

/// Endpoint that has not answered a request, for the message of an exceeded deadline.
#[derive(Default)]
struct AwaitedEndpoint(Mutex<Option<Arc<SocketAddress>>>);

impl AwaitedEndpoint {
    fn set(&self, address: Option<Arc<SocketAddress>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// Returns what the call waits for.
    fn waiting(&self, cluster_ref: &ClusterRef) -> Waiting {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(address) => Waiting::sent(address, cluster_ref.note()),
            None => cluster_ref.waiting(),
        }
    }
}

/// Sends the request to an endpoint, as soon as one is available.
async fn send(
    shared: &ChannelState,
    cluster_ref: &Arc<ClusterRef>,
    mut outgoing: Outgoing,
    wait_mode: WaitMode,
    awaited: &AwaitedEndpoint,
) -> Result<(Response<Incoming>, ActiveCall), Status> {
    let mut watched = cluster_ref.state.clone();
    loop {
        let state = watched.borrow_and_update().clone();
        match state {
            ClusterState::Unknown => {}
            ClusterState::Failing(why) if wait_mode == WaitMode::FailFast => {
                return Err(status::of(&why, cluster_ref.note()));
            }
            ClusterState::Failing(_) => {}
            ClusterState::Picking(picking) => {
                let found = pick(shared, &picking, &mut outgoing, wait_mode)?;
                let cluster = Arc::clone(&picking.cluster);
                // The response may take long, and this call must not keep all connections alive
                // meanwhile.
                drop(picking);
                if let Some(found) = found {
                    let address = Arc::clone(&found.connection.address);
                    awaited.set(Some(Arc::clone(&address)));
                    match try_send(found, &outgoing, &cluster, shared.runtime.now()).await? {
                        SendOutcome::Response(response, permit) => {
                            let (cluster_ref, request) = (Arc::clone(cluster_ref), outgoing.body);
                            let active = ActiveCall { permit, cluster_ref, request, address };
                            return Ok((response, active));
                        }
                        // Not sent: wait for the next picker.
                        SendOutcome::NotSent => awaited.set(None),
                        SendOutcome::Unprocessed(by, why) => {
                            awaited.set(None);
                            if outgoing.refused_by.replace(by).is_some() {
                                return Err(why);
                            }
                            continue;
                        }
                    }
                }
            }
        }
        watched.changed().await.map_err(|_| status::ended(cluster_ref.note()))?;
    }
}

/// Endpoint picked for a call.
struct PickedEndpoint {
    id: ConnectionId,
    connection: EndpointConnection,
    permit: CallPermit,
}

/// Picks an endpoint. Returns `None` if the call must wait.
fn pick(
    shared: &ChannelState,
    picking: &Picking,
    outgoing: &mut Outgoing,
    wait_mode: WaitMode,
) -> Result<Option<PickedEndpoint>, Status> {
    let cluster = &picking.cluster;
    let fail = |failure: Failure| Err(status::of(&failure, &cluster.note));
    let mut picked = picking.picker.pick_for(outgoing.trial, &mut shared.random());
    // Avoid the endpoint that refused the call, if there is another.
    for _ in 1..picking.connections.len() {
        if !matches!(&picked, EndpointPick::Endpoint(id, _) if Some(*id) == outgoing.refused_by) {
            break;
        }
        // Otherwise this call would need two permits.
        drop(picked);
        picked = picking.picker.pick_for(PickAttempt::Repeated, &mut shared.random());
    }
    let (id, permit) = match picked {
        EndpointPick::Endpoint(id, permit) => (id, permit),
        EndpointPick::Queue => return Ok(None),
        EndpointPick::Fail(why) if wait_mode == WaitMode::FailFast => {
            return fail(cluster.failure(why));
        }
        EndpointPick::Fail(_) => return Ok(None),
        EndpointPick::Drop(why) => {
            return fail(cluster.refusal(format_args!("call dropped: {why}")));
        }
        EndpointPick::TooMany => {
            return fail(cluster.refusal("the maximum number of active calls is reached"));
        }
        _ => return fail(cluster.failure("no endpoint was picked")),
    };
    outgoing.trial = PickAttempt::Repeated;
    let connection = picking.connections.get(&id).cloned();
    Ok(connection.map(|connection| PickedEndpoint { id, connection, permit }))
}

#[allow(clippy::large_enum_variant, reason = "each value is moved only once")]
enum SendOutcome {
    Response(Response<Incoming>, CallPermit),
    /// The request was not sent.
    NotSent,
    /// The server reported that it has not processed the request. The status applies if no other
    /// attempt is made.
    Unprocessed(ConnectionId, Status),
}

async fn try_send(
    found: PickedEndpoint,
    outgoing: &Outgoing,
    cluster: &ClusterConfiguration,
    now: Instant,
) -> Result<SendOutcome, Status> {
    let PickedEndpoint { id, connection, permit } = found;
    let EndpointConnection { mut requests, scheme, address } = connection;
    let Some(request) = outgoing.request(scheme, now) else {
        let why =
            cluster.loss("the endpoint refused the call, and the request is too long to retry");
        return Err(status::of(&why, &cluster.note));
    };
    match requests.try_send_request(request).await {
        Ok(response) => {
            outgoing.body.settle();
            Ok(SendOutcome::Response(response, permit))
        }
        Err(mut error) => match error.take_message() {
            Some(_) => Ok(SendOutcome::NotSent),
            None if status::is_dropped(error.error()) && outgoing.body.is_unread() => {
                Ok(SendOutcome::NotSent)
            }
            None => {
                let error = error.into_error();
                let causes = status::with_causes(&error);
                let why = cluster.loss(format_args!("{address}: {causes}"));
                let status = Status::new(status::code_of(&error), why.to_string());
                match status::is_unprocessed(&error) {
                    true => Ok(SendOutcome::Unprocessed(id, status)),
                    false => Err(status),
                }
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::{collections::BTreeMap, sync::Mutex};

    use crate::support::{api_listener, cluster, manager, prefix, rds, route, valid};
    use tokio::sync::watch;
    use xds_routing::{
        Random, Rules, dependencies::DependencyManager, listener::Listener, router::Router,
    };
    use xds_tokio::Tokio;

    use super::*;

    fn request() -> Request<Body> {
        Request::builder().uri("http://shop/s/m").body(Body::empty()).expect("a request")
    }

    // B26: a route to an unknown cluster is a bug and the only failure with INTERNAL.
    #[tokio::test]
    async fn route_to_an_unknown_cluster_fails_with_internal() {
        let listener = api_listener("shop", &manager(rds("routes")));
        let listener = Listener::from_schema(&listener, &Rules::default()).expect("a listener");
        let connections = listener.api().expect("one of clients");
        let routes = Arc::new(valid(vec![route(prefix(""), cluster("c"))]));
        let table = RoutingTable {
            router: Router::new(routes, "shop", connections).expect("a virtual host"),
            clusters: BTreeMap::new(),
            note: DependencyManager::new("shop", "shop", "node-1").clusters().note().clone(),
        };
        let (_routing, routing) = watch::channel(Routing::Known(Arc::new(table)));
        let shared = ChannelState {
            routing,
            authority: "shop".parse().expect("an authority"),
            node_id: "node-1".into(),
            random: Mutex::new(Random::new(0)),
            runtime: SharedRuntime::new(Tokio),
        };
        let status = call(Arc::new(shared), request()).await.expect_err("it cannot go anywhere");
        assert_eq!(status.code(), Code::Internal);
        let why = "unknown cluster `c` (resolution note: xDS node ID: node-1)";
        assert_eq!(status.message(), why);
        println!("covers: S3.090 S3.095 B26");
    }

    /// The endpoint receives the remaining time as its timeout.
    #[test]
    fn outgoing_timeout_is_the_remaining_time() {
        let start = Instant::now();
        let (parts, body) = request().into_parts();
        let outgoing = Outgoing {
            parts,
            body: Replay::new(body),
            deadline: Some(start + Duration::from_secs(20)),
            trial: PickAttempt::First,
            refused_by: None,
        };
        let told = |after| {
            let request =
                outgoing.request(Scheme::HTTP, start + after).expect("all of it is there");
            request.headers()["grpc-timeout"].to_str().expect("a text").to_owned()
        };
        assert_eq!(told(Duration::ZERO), "20000000u");
        assert_eq!(told(Duration::from_millis(200)), "19800000u");
        assert_eq!(told(Duration::from_secs(60)), "0n");
    }
}
