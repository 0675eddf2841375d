//! Transmission of a request to an endpoint, with retries.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use http::{
    Request, Response, Uri,
    request::Parts,
    uri::{Authority, Scheme},
};
use hyper::{body::Incoming, rt::Timer as _};
use tonic::{Status, body::Body};
use xds_core::error_causes::with_causes;
use xds_routing::{
    SocketAddress,
    balancer::{
        CallOutcome, CallPermit, ConnectionId, EndpointPick, PickArguments, PickAttempt,
        SessionPick,
    },
    dependencies::ClusterConfiguration,
    filters::Session,
    route::{HostRewrite, RetryPolicy},
    router::Failure,
};

use crate::{
    body::ActiveCall,
    cluster::{ClusterState, Picking},
    endpoint::EndpointConnection,
    load_reports::{CallLoad, ClusterLoad},
    metadata::{set_cookie, set_timeout},
    metrics::{AttemptMeter, CallMeter, Meters},
    replay::Replay,
    retry::{AttemptError, PREVIOUS_ATTEMPTS, Retries, code_of_http},
    routing::ClusterRef,
    state::{ChannelState, WaitMode},
    status::{self, Waiting},
};

/// Maximum number of picks to avoid the endpoint that refused a call. With ring hash, each pick may
/// choose it again.
const MAX_PICKS: usize = 32;

/// Settings of the route of a call for its transmission.
#[derive(Debug, Default)]
pub(crate) struct SendRules {
    pub(crate) retry: Option<RetryPolicy>,
    /// Hash of the call, for ring hash.
    pub(crate) hash: Option<u64>,
    pub(crate) host: HostRewrite,
    /// Session of the call.
    pub(crate) session: Option<Session>,
}

/// Request to be sent to an endpoint.
pub(crate) struct Outgoing {
    parts: Parts,
    body: Replay,
    deadline: Option<Instant>,
    retries: Retries,
    hash: Option<u64>,
    host: HostRewrite,
    session: Option<Session>,
    /// Whether the drop decision was made already.
    trial: PickAttempt,
    /// Connection on which the server refused the request unprocessed.
    refused_by: Option<ConnectionId>,
    /// Measurement of the current attempt.
    meter: Option<AttemptMeter>,
}

impl Outgoing {
    pub(crate) fn new(
        parts: Parts,
        body: Body,
        deadline: Option<Instant>,
        rules: SendRules,
    ) -> Self {
        Self {
            parts,
            body: Replay::new(body),
            deadline,
            retries: Retries::new(rules.retry),
            hash: rules.hash,
            host: rules.host,
            session: rules.session,
            trial: PickAttempt::First,
            refused_by: None,
            meter: None,
        }
    }

    /// Returns a request to send over a connection with this scheme, from which the server learns
    /// whether TLS is used. It asks for the host name of the endpoint if the route says so. Returns
    /// `None` if the body cannot be sent again.
    fn request(
        &self,
        scheme: Scheme,
        hostname: Option<&str>,
        now: Instant,
    ) -> Option<Request<Body>> {
        let mut parts = self.parts.clone();
        // The endpoint gets the remaining time.
        if let Some(deadline) = self.deadline {
            set_timeout(&mut parts.headers, deadline.saturating_duration_since(now));
        }
        if self.retries.previous() > 0 {
            parts.headers.insert(PREVIOUS_ATTEMPTS, self.retries.previous().into());
        }
        let mut uri = parts.uri.into_parts();
        uri.scheme = Some(scheme);
        if let (HostRewrite::Endpoint, Some(hostname)) = (self.host, hostname)
            && let Ok(authority) = Authority::try_from(hostname)
        {
            uri.authority = Some(authority);
        }
        parts.uri = Uri::from_parts(uri).ok()?;
        let body = self.body.attempt()?;
        let body = match &self.meter {
            Some(meter) => meter.sending(body),
            None => body,
        };
        Some(Request::from_parts(parts, body))
    }
}

/// Endpoint that has not answered a request, for the message of an exceeded deadline.
#[derive(Default)]
pub(crate) struct AwaitedEndpoint(Mutex<Option<Arc<SocketAddress>>>);

impl AwaitedEndpoint {
    fn set(&self, address: Option<Arc<SocketAddress>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = address;
    }

    /// Returns what the call waits for.
    pub(crate) fn waiting(&self, cluster_ref: &ClusterRef) -> Waiting {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(address) => Waiting::sent(address, cluster_ref.note()),
            None => cluster_ref.waiting(),
        }
    }
}

/// Sends the request, and again after failures for which the route has a retry policy.
pub(crate) async fn send_with_retries(
    shared: &ChannelState,
    cluster_ref: &Arc<ClusterRef>,
    mut outgoing: Outgoing,
    wait_mode: WaitMode,
    awaited: &AwaitedEndpoint,
    meter: Option<&CallMeter>,
) -> Result<(Response<Incoming>, ActiveCall), Status> {
    loop {
        outgoing.meter = meter.map(CallMeter::start_attempt);
        let sent = send(shared, cluster_ref, &mut outgoing, wait_mode, awaited).await;
        if let Err(error) = &sent {
            outgoing.meter.iter_mut().for_each(|it| it.set_status(error.status.code()));
        }
        let retries = &mut outgoing.retries;
        let pause = match &sent {
            Ok((response, _)) => retries.after_response(response, &mut shared.random()),
            Err(error) => retries.after_failure(error, &mut shared.random()),
        };
        // The stream of the failed attempt must end before the pause.
        let Some(pause) = pause.filter(|_| outgoing.body.supersede().is_some()) else {
            outgoing.body.settle();
            return sent.map_err(|error| error.status);
        };
        drop(sent);
        outgoing.meter = None;
        awaited.set(None);
        outgoing.trial = PickAttempt::First;
        shared.runtime.sleep(pause).await;
    }
}

/// Sends the request to an endpoint, as soon as one is available.
async fn send(
    shared: &ChannelState,
    cluster_ref: &Arc<ClusterRef>,
    outgoing: &mut Outgoing,
    wait_mode: WaitMode,
    awaited: &AwaitedEndpoint,
) -> Result<(Response<Incoming>, ActiveCall), AttemptError> {
    let mut watched = cluster_ref.state.clone();
    loop {
        let state = watched.borrow_and_update().clone();
        match state {
            ClusterState::Unknown => {}
            ClusterState::Failing(why) if wait_mode == WaitMode::FailFast => {
                return Err(status::of(&why, cluster_ref.note()).into());
            }
            ClusterState::Failing(_) => {}
            ClusterState::Picking(picking) => {
                let found = pick(shared, cluster_ref, &picking, outgoing, wait_mode)?;
                let cluster = Arc::clone(&picking.cluster);
                // The response may take long, and this call must not keep all connections alive
                // meanwhile.
                drop(picking);
                if let Some(found) = found {
                    let address = Arc::clone(&found.connection.address);
                    if let Some(meter) = &mut outgoing.meter {
                        meter.set_locality(found.permit.locality(&address));
                    }
                    awaited.set(Some(Arc::clone(&address)));
                    match try_send(found, outgoing, &cluster, shared.runtime.now()).await? {
                        SendOutcome::Response(mut response, permit, load) => {
                            if let Some(session) = &outgoing.session {
                                set_cookie(session, &permit, response.headers_mut());
                            }
                            let (cluster_ref, request) =
                                (Arc::clone(cluster_ref), outgoing.body.clone());
                            let meters = Meters::of_attempt(
                                outgoing.meter.take(),
                                code_of_http(response.status()),
                            );
                            let mut active =
                                ActiveCall { permit, load, meters, cluster_ref, request, address };
                            if status::is_end(response.headers()) {
                                active.note_end(response.headers());
                            }
                            return Ok((response, active));
                        }
                        // Not sent: wait for the next picker.
                        SendOutcome::NotSent => awaited.set(None),
                        SendOutcome::Unprocessed(by, why) => {
                            awaited.set(None);
                            if outgoing.refused_by.replace(by).is_some() {
                                return Err(why.into());
                            }
                            if let Some(meter) = &mut outgoing.meter {
                                meter.set_status(why.code());
                                *meter = meter.start_next();
                            }
                            continue;
                        }
                    }
                }
            }
        }
        let changed = watched.changed().await;
        changed.map_err(|_| AttemptError::last(status::ended(cluster_ref.note())))?;
    }
}

/// Endpoint picked for a call.
struct PickedEndpoint {
    id: ConnectionId,
    connection: EndpointConnection,
    permit: CallPermit,
    /// Recorders of the cluster, if load is reported.
    load: Option<Arc<ClusterLoad>>,
}

/// Picks an endpoint. Returns `None` if the call must wait.
fn pick(
    shared: &ChannelState,
    cluster_ref: &ClusterRef,
    picking: &Picking,
    outgoing: &mut Outgoing,
    wait_mode: WaitMode,
) -> Result<Option<PickedEndpoint>, AttemptError> {
    let cluster = &picking.cluster;
    if let Some(meter) = &mut outgoing.meter {
        meter.set_cluster(cluster.cluster.name.as_str());
    }
    let fail = |failure: Failure| status::of(&failure, &cluster.note);
    let session = outgoing.session.as_ref();
    let session = session.map(|it| SessionPick::new(it.addresses(), cluster_ref.clock.now()));
    let pick = |attempt| {
        let mut arguments = PickArguments::new(attempt);
        (arguments.hash, arguments.session) = (outgoing.hash, session);
        picking.picker.pick_for(&arguments, &mut shared.random())
    };
    let mut picked = pick(outgoing.trial);
    // Avoid the endpoint that refused the call, if there is another.
    for _ in 1..picking.connections.len().min(MAX_PICKS) {
        if !matches!(&picked, EndpointPick::Endpoint(id, _) if Some(*id) == outgoing.refused_by) {
            break;
        }
        // Otherwise this call would need two permits.
        drop(picked);
        picked = pick(PickAttempt::Repeated);
    }
    let (id, permit) = match picked {
        EndpointPick::Endpoint(id, permit) => (id, permit),
        EndpointPick::Queue => return Ok(None),
        EndpointPick::Request(request) => {
            cluster_ref.request(picking.serial, request);
            return Ok(None);
        }
        EndpointPick::Fail(why) if wait_mode == WaitMode::FailFast => {
            return Err(fail(cluster.failure(why)).into());
        }
        EndpointPick::Fail(_) => return Ok(None),
        EndpointPick::Drop(why) => {
            picking.load.iter().for_each(|load| load.count_dropped(Some(why)));
            let why = fail(cluster.refusal(format_args!("call dropped: {why}")));
            return Err(AttemptError::last(why));
        }
        EndpointPick::TooMany => {
            picking.load.iter().for_each(|load| load.count_dropped(None));
            let why = fail(cluster.refusal("the maximum number of active calls is reached"));
            return Err(AttemptError::last(why));
        }
        _ => return Err(fail(cluster.failure("no endpoint was picked")).into()),
    };
    outgoing.trial = PickAttempt::Repeated;
    let connection = picking.connections.get(&id).cloned();
    let load = picking.load.clone();
    Ok(connection.map(|connection| PickedEndpoint { id, connection, permit, load }))
}

#[allow(clippy::large_enum_variant, reason = "each value is moved only once")]
enum SendOutcome {
    Response(Response<Incoming>, CallPermit, Option<CallLoad>),
    /// The request was not sent.
    NotSent,
    /// The server reported that it has not processed the request. The status applies if no other
    /// attempt is made.
    Unprocessed(ConnectionId, Status),
}

impl SendOutcome {
    fn not_sent(mut permit: CallPermit, mut load: Option<CallLoad>) -> Self {
        permit.set_outcome(CallOutcome::NotSent);
        load.iter_mut().for_each(CallLoad::discard);
        Self::NotSent
    }
}

async fn try_send(
    found: PickedEndpoint,
    outgoing: &Outgoing,
    cluster: &ClusterConfiguration,
    now: Instant,
) -> Result<SendOutcome, Status> {
    let PickedEndpoint { id, connection, mut permit, load } = found;
    let EndpointConnection { mut requests, scheme, address, .. } = connection;
    let Some(request) = outgoing.request(scheme, permit.hostname(&address), now) else {
        let why =
            cluster.loss("the endpoint refused the call, and the request is too long to retry");
        return Err(status::of(&why, &cluster.note));
    };
    // Also if this future is dropped.
    permit.set_outcome(CallOutcome::Failure);
    let load = load.and_then(|load| load.start(permit.locality(&address)));
    match requests.try_send_request(request).await {
        Ok(response) => Ok(SendOutcome::Response(response, permit, load)),
        Err(mut error) => match error.take_message() {
            Some(_) => Ok(SendOutcome::not_sent(permit, load)),
            None if status::is_dropped(error.error()) && outgoing.body.is_unread() => {
                Ok(SendOutcome::not_sent(permit, load))
            }
            None => {
                let error = error.into_error();
                let causes = with_causes(&error);
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

    use super::*;

    /// A host name may have a port. With one that is no authority, that of the channel is used.
    #[test]
    fn authority_is_a_valid_host_name_of_the_endpoint() {
        let authority = |host, hostname| {
            let request = Request::builder().uri("http://shop/s/m").body(Body::empty());
            let (parts, body) = request.expect("a request").into_parts();
            let rules = SendRules { host, ..SendRules::default() };
            let outgoing = Outgoing::new(parts, body, None, rules);
            let request = outgoing.request(Scheme::HTTP, hostname, Instant::now());
            request.expect("a body").uri().authority().map(ToString::to_string)
        };
        for hostname in ["backend", "backend.internal:8080", "10.0.0.1:80", "[2001:db8::1]:80"] {
            assert_eq!(authority(HostRewrite::Endpoint, Some(hostname)).as_deref(), Some(hostname));
            assert_eq!(authority(HostRewrite::Keep, Some(hostname)).as_deref(), Some("shop"));
        }
        for hostname in ["", "2001:db8::1", "a b", "a/b", "[::1", "é"] {
            assert_eq!(authority(HostRewrite::Endpoint, Some(hostname)).as_deref(), Some("shop"));
        }
        assert_eq!(authority(HostRewrite::Endpoint, None).as_deref(), Some("shop"));
    }

    /// The endpoint receives the remaining time as its timeout.
    #[test]
    fn outgoing_timeout_is_the_remaining_time() {
        let start = Instant::now();
        let request = Request::builder().uri("http://shop/s/m").body(Body::empty());
        let (parts, body) = request.expect("a request").into_parts();
        let deadline = start + Duration::from_secs(20);
        let outgoing = Outgoing::new(parts, body, Some(deadline), SendRules::default());
        let told = |after| {
            let request =
                outgoing.request(Scheme::HTTP, None, start + after).expect("all of it is there");
            request.headers()["grpc-timeout"].to_str().expect("a text").to_owned()
        };
        assert_eq!(told(Duration::ZERO), "20000000u");
        assert_eq!(told(Duration::from_millis(200)), "19800000u");
        assert_eq!(told(Duration::from_secs(60)), "0n");
    }
}
