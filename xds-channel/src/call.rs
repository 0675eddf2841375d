//! One call, from a request to the head of its response.

use std::sync::Arc;

use http::{
    Request, Response, Uri,
    header::USER_AGENT,
    request::Parts,
    uri::{PathAndQuery, Scheme},
};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};
use tonic::{Status, body::Body};
use xds_routing::{
    Call,
    balancer::{CallPermit, EndpointPick},
    router::{Failure, Target},
};

use crate::{
    CallBody, OURSELVES, Shared, WaitForReady,
    cluster::{ClusterState, Picking},
    driver::{Hold, Routing, Table},
    metadata::{Metadata, set_timeout, stated_timeout},
    status,
};

/// Whether a call waits for what is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    FailFast,
    WaitForReady,
}

pub(crate) async fn call(
    shared: Arc<Shared>,
    request: Request<Body>,
) -> Result<Response<CallBody>, Status> {
    let began = Instant::now();
    let patience = match request.extensions().get::<WaitForReady>() {
        Some(WaitForReady) => Patience::WaitForReady,
        None => Patience::FailFast,
    };
    let stated = stated_timeout(request.headers());
    let at = |limit: Option<_>| limit.and_then(|limit| began.checked_add(limit));
    // The body of a request may not be looked at by two threads, which a future that holds it could be.
    let (mut parts, body) = request.into_parts();
    let deciding = decide(&shared, &parts, patience);
    let (hold, limit) = within(at(stated), deciding).await?;
    if let Some(limit) = limit {
        set_timeout(&mut parts.headers, limit.saturating_sub(began.elapsed()));
    }
    address(&shared, &mut parts)?;
    let request = Request::from_parts(parts, body);
    let (response, permit) = within(at(limit), send(&shared, &hold, request, patience)).await?;
    Ok(response.map(|body| CallBody::new(body, at(limit), permit, hold)))
}

/// Gives a call its time.
async fn within<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await.unwrap_or_else(|_| Err(status::late())),
        None => work.await,
    }
}

/// Which cluster, and how long: as soon as there are routes.
async fn decide(
    shared: &Shared,
    request: &Parts,
    patience: Patience,
) -> Result<(Arc<Hold>, Option<core::time::Duration>), Status> {
    let mut watched = shared.routing.clone();
    loop {
        let routing = watched.borrow_and_update().clone();
        match routing {
            Routing::Known(table) => {
                return by_table(shared, &table, request).map_err(|why| status::of(&why));
            }
            Routing::Failing(why) if patience == Patience::FailFast => {
                return Err(Status::unavailable(&*why));
            }
            Routing::Failing(_) | Routing::Unknown => {}
        }
        watched.changed().await.map_err(|_| status::ended())?;
    }
}

fn by_table(
    shared: &Shared,
    table: &Table,
    request: &Parts,
) -> Result<(Arc<Hold>, Option<core::time::Duration>), Failure> {
    let metadata = Metadata(&request.headers);
    // All of it is the path to gRPC, a question mark too.
    let path = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let call = Call::new(path, &metadata);
    let stated = stated_timeout(&request.headers);
    let decision = table.router.decide(&call, stated, &mut shared.random())?;
    let Target::Cluster { name, .. } = decision.target else {
        return Err(Failure::UnsupportedAction(decision.route.name.clone()));
    };
    let hold = table.clusters.get(name).ok_or_else(|| Failure::UnknownCluster(name.clone()))?;
    Ok((Arc::clone(hold), decision.timeout))
}

/// HTTP/2 wants to know whom a request is for; the application may have said.
fn address(shared: &Shared, request: &mut Parts) -> Result<(), Status> {
    let path = request.uri.path_and_query().cloned();
    let uri = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(shared.authority.clone())
        .path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
        .build();
    request.uri = uri.map_err(|why| Status::internal(why.to_string()))?;
    request.headers.entry(USER_AGENT).or_insert(OURSELVES);
    Ok(())
}

/// A server wants to know whether it was reached by TLS.
fn with_scheme(mut request: Request<Body>, scheme: &Scheme) -> Result<Request<Body>, Status> {
    if request.uri().scheme() != Some(scheme) {
        let mut parts = request.uri().clone().into_parts();
        parts.scheme = Some(scheme.clone());
        *request.uri_mut() =
            Uri::from_parts(parts).map_err(|why| Status::internal(why.to_string()))?;
    }
    Ok(request)
}

/// Sends the request to an endpoint, as soon as there is one.
async fn send(
    shared: &Shared,
    hold: &Hold,
    mut request: Request<Body>,
    patience: Patience,
) -> Result<(Response<Incoming>, CallPermit), Status> {
    let mut watched = hold.state.clone();
    loop {
        let state = watched.borrow_and_update().clone();
        match state {
            ClusterState::Unknown => {}
            ClusterState::Failing(why) if patience == Patience::FailFast => {
                return Err(status::of(&why));
            }
            ClusterState::Failing(_) => {}
            ClusterState::Picking(picking) => {
                match try_send(shared, &picking, request, patience).await? {
                    Sent::Answered(response, permit) => return Ok((response, permit)),
                    // Nobody has seen it: it goes where the next picker says.
                    Sent::Not(unsent) => request = unsent,
                }
            }
        }
        watched.changed().await.map_err(|_| status::ended())?;
    }
}

#[allow(clippy::large_enum_variant, reason = "it is moved once")]
enum Sent {
    Answered(Response<Incoming>, CallPermit),
    Not(Request<Body>),
}

async fn try_send(
    shared: &Shared,
    picking: &Picking,
    request: Request<Body>,
    patience: Patience,
) -> Result<Sent, Status> {
    let fail = |why: &str| Err(status::of(&picking.cluster.failure(why)));
    let pick = picking.picker.pick(&mut shared.random());
    let (id, permit) = match pick {
        EndpointPick::Endpoint(id, permit) => (id, permit),
        EndpointPick::Queue => return Ok(Sent::Not(request)),
        EndpointPick::Fail(why) if patience == Patience::FailFast => return fail(why),
        EndpointPick::Fail(_) => return Ok(Sent::Not(request)),
        EndpointPick::Drop(why) => return fail(&format!("the call is dropped: {why}")),
        EndpointPick::TooMany => return fail("as many calls are under way as may be"),
        _ => return fail("no endpoint was picked"),
    };
    let Some(connection) = picking.connections.get(&id) else {
        return Ok(Sent::Not(request));
    };
    let request = with_scheme(request, &picking.scheme)?;
    match connection.clone().try_send_request(request).await {
        Ok(response) => Ok(Sent::Answered(response, permit)),
        Err(mut error) => match error.take_message() {
            Some(unsent) => Ok(Sent::Not(unsent)),
            None => {
                let error = error.into_error();
                let code = status::code_of(&error);
                let why = picking.cluster.failure(status::with_causes(&error));
                Err(Status::new(code, why.to_string()))
            }
        },
    }
}
