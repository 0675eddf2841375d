//! A call, from its request to the head of its response.

use core::time::Duration;
use std::{sync::Arc, time::Instant};

use http::{
    HeaderValue, Request, Response, Uri,
    header::USER_AGENT,
    request::Parts,
    uri::{PathAndQuery, Scheme},
};
use hyper::rt::Timer as _;
use tonic::{Code, Status, body::Body};
use xds_grpc::runtime::{SharedRuntime, yield_now};
use xds_routing::{
    Call,
    filters::Fault,
    router::{CallTarget, Failure},
};

use crate::{
    body::{CallBody, Deadline},
    fault::inject_fault,
    metadata::{Metadata, stated_timeout},
    metrics::CallMeter,
    routing::{ClusterRef, Routing, RoutingTable},
    send::{AwaitedEndpoint, Outgoing, SendRules, send_with_retries},
    state::{ChannelState, WaitForReady, WaitMode},
    status::{self, Waiting},
};

/// Value of the `user-agent` header, unless the application sets one.
const USER_AGENT_VALUE: HeaderValue =
    HeaderValue::from_static(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")));

/// Makes a call. A call that fails yields to other tasks first: they may be needed to resolve the
/// failure, and a caller that retries immediately may occupy the only thread.
pub(crate) async fn call(
    shared: Arc<ChannelState>,
    request: Request<Body>,
) -> Result<Response<CallBody>, Status> {
    let metrics = shared.metrics.as_ref();
    let path = request.uri().path();
    let mut meter = metrics.map(|it| CallMeter::start(it, &shared.target, path, &shared.runtime));
    let called = run_call(shared, request, &mut meter).await;
    if let Err(status) = &called {
        meter.iter_mut().for_each(|it| it.set_status(status.code()));
        drop(meter);
        yield_now().await;
    }
    called
}

async fn run_call(
    shared: Arc<ChannelState>,
    request: Request<Body>,
    meter: &mut Option<CallMeter>,
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
    let CallDecision { cluster_ref, timeout, fault, sending } =
        with_deadline(&runtime, at(stated), deciding, || shared.waiting()).await?;
    let deadline = at(timeout);
    meter.iter_mut().for_each(|it| it.set_deadline(deadline));
    with_deadline(&runtime, deadline, inject_fault(fault, &runtime), || cluster_ref.waiting())
        .await?;
    complete_request(&shared, &mut parts)?;
    let outgoing = Outgoing::new(parts, body, deadline, sending);
    let awaited = AwaitedEndpoint::default();
    let sending =
        send_with_retries(&shared, &cluster_ref, outgoing, wait_mode, &awaited, meter.as_ref());
    let (response, mut active) =
        with_deadline(&runtime, deadline, sending, || awaited.waiting(&cluster_ref)).await?;
    active.meters.set_call(meter.take());
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

/// Decision about a call.
struct CallDecision {
    cluster_ref: Arc<ClusterRef>,
    timeout: Option<Duration>,
    fault: Fault,
    sending: SendRules,
}

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
    Ok(CallDecision {
        cluster_ref: Arc::clone(cluster_ref),
        timeout: decision.timeout,
        fault: decision.fault,
        sending: SendRules {
            retry: decision.forward.retry.clone(),
            hash: decision.forward.hash(&metadata, shared.channel_id),
            host: decision.forward.host_rewrite,
            session: decision.session,
        },
    })
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

#[cfg(test)]
mod tests {
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
            channel_id: 0,
            runtime: SharedRuntime::new(Tokio),
            target: "xds:///shop".into(),
            metrics: None,
        };
        let status = call(Arc::new(shared), request()).await.expect_err("it cannot go anywhere");
        assert_eq!(status.code(), Code::Internal);
        let why = "unknown cluster `c` (resolution note: xDS node ID: node-1)";
        assert_eq!(status.message(), why);
        println!("covers: S3.090 S3.095 B26");
    }
}
