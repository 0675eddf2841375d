//! Log lines of a server's driver, with their levels.
//!
//! Common fields are `node` and `stream`; lines about a message add `type`, `version` and `nonce`.
//! A NACK is a warning; normal events are logged at INFO or below.
// S0.017

use core::{fmt, time::Duration};

use bytes::Bytes;
use tracing::{debug, info, trace, warn};
use xds_core::{
    Frame, Time,
    server::{CloseReason, Observation, Refusal, ServerTransmit},
};

use super::{requests::CallKind, streams::Stream};
use crate::{
    log_limit::{LogDecision, LogLimit},
    payload::Printer,
    server::access::peer::Peer,
    shorthand::{Names, Payloads, Printable, Request, Response, type_name},
};

/// Log of one server.
#[derive(Debug)]
pub(crate) struct Log {
    printer: Printer,
    warnings: Warnings,
    /// Warnings about how clients handle responses. Their limit is separate, so that they do not
    /// suppress other warnings.
    response_warnings: Warnings,
}

/// Rate limit of warnings about clients, because clients control their number.
#[derive(Debug)]
pub(crate) struct Warnings(LogLimit<()>);

/// Maximum number of such warnings per [`WARNING_INTERVAL`]. Further ones are logged at DEBUG.
const MAX_WARNINGS: u32 = 100;

const WARNING_INTERVAL: Duration = Duration::from_secs(10);

impl Default for Warnings {
    fn default() -> Self {
        Self(LogLimit::new(MAX_WARNINGS, WARNING_INTERVAL))
    }
}

impl Warnings {
    /// Returns whether a warning is within the limit. If so, first logs how many were suppressed
    /// before it.
    pub(crate) fn admit(&mut self, now: Time) -> bool {
        match self.0.admit((), now) {
            LogDecision::Suppressed => false,
            LogDecision::Logged { suppressed } => {
                if suppressed > 0 {
                    warn!(suppressed, "warnings about clients were suppressed");
                }
                true
            }
        }
    }

    /// Logs how many warnings were suppressed, when a flood has ended.
    fn report_suppressed(&mut self, now: Time) {
        for ((), suppressed) in self.0.overdue(now) {
            warn!(suppressed, "warnings about clients were suppressed");
        }
    }
}

impl Log {
    pub(crate) fn new(printer: Printer) -> Self {
        Self { printer, warnings: Warnings::default(), response_warnings: Warnings::default() }
    }

    /// Returns the time at which to call [`report_suppressed`](Self::report_suppressed).
    pub(crate) fn due(&self) -> Option<Time> {
        [&self.warnings, &self.response_warnings].into_iter().filter_map(|it| it.0.due()).min()
    }

    /// Logs how many warnings were suppressed, when a flood has ended.
    pub(crate) fn report_suppressed(&mut self, now: Time) {
        self.warnings.report_suppressed(now);
        self.response_warnings.report_suppressed(now);
    }

    pub(crate) fn refused(&mut self, peer: &Peer, refusal: &Refusal, now: Time) {
        let peer = PeerAddress(peer);
        match self.warnings.admit(now) {
            true => warn!(%peer, reason = %refusal, "refused a stream"),
            false => debug!(%peer, reason = %refusal, "refused a stream"),
        }
    }

    pub(crate) fn received(&self, stream: &Stream, message: &Bytes) {
        let (node, id) = (Printable(&stream.node), stream.id);
        debug!(%node, stream = %id, "received {}", Request(stream.variant, message, Names::Few));
        trace!(%node, stream = %id, "received {}", Request(stream.variant, message, Names::All));
    }

    pub(crate) fn sent(&self, stream: &Stream, transmit: &ServerTransmit, frame: &Frame) {
        let (node, id) = (Printable(&stream.node), stream.id);
        debug!(
            %node, stream = %id, cause = %transmit.cause, resources = transmit.resources,
            "sent {}", Response(stream.variant, &frame.to_bytes(), Names::Few)
        );
        trace!(
            %node, stream = %id,
            payloads = %Payloads(stream.variant, &frame.to_bytes(), &*self.printer.0),
            "sent {}", Response(stream.variant, &frame.to_bytes(), Names::All)
        );
    }

    /// Logs that the client ended the stream or disconnected.
    pub(crate) fn disconnected(&self, stream: &Stream) {
        let (node, id, peer) = (Printable(&stream.node), stream.id, PeerAddress(&stream.peer));
        match stream.kind {
            CallKind::Stream => info!(%node, stream = %id, %peer, "client disconnected"),
            CallKind::Fetch => debug!(%node, stream = %id, %peer, "poll cancelled"),
        }
    }

    /// Logs that the server ended the stream.
    pub(crate) fn closed(&mut self, stream: &Stream, reason: &CloseReason, now: Time) {
        let (node, id, peer) = (Printable(&stream.node), stream.id, PeerAddress(&stream.peer));
        if let CloseReason::ShuttingDown | CloseReason::StreamAge = reason {
            info!(%node, stream = %id, %peer, %reason, "closed a stream");
        } else if self.warnings.admit(now) {
            warn!(%node, stream = %id, %peer, %reason, "closed a stream");
        } else {
            debug!(%node, stream = %id, %peer, %reason, "closed a stream");
        }
    }

    /// Logs that the server ended a connection with this stream.
    pub(crate) fn ended(&mut self, stream: &Stream, streams: usize, reason: &str, now: Time) {
        let (node, peer) = (Printable(&stream.node), PeerAddress(&stream.peer));
        match self.warnings.admit(now) {
            true => warn!(%node, %peer, streams, reason, "closed a connection"),
            false => debug!(%node, %peer, streams, reason, "closed a connection"),
        }
    }

    pub(crate) fn observed(&mut self, stream: &Stream, observation: &Observation, now: Time) {
        let (node, id) = (Printable(&stream.node), stream.id);
        let is_suppressed = is_warning(observation) && !self.response_warnings.admit(now);
        match observation {
            _ if is_suppressed => debug!(%node, stream = %id, ?observation, "warning suppressed"),
            Observation::Connected { .. } => {
                debug!(stream = %id, peer = %PeerAddress(&stream.peer), "stream opened");
            }
            // A client polls again and again.
            Observation::Identified { .. } if stream.kind == CallKind::Fetch => {
                debug!(%node, stream = %id, peer = %PeerAddress(&stream.peer), "client polls");
            }
            Observation::UnknownType { type_url, .. } if stream.kind == CallKind::Fetch => debug!(
                %node, stream = %id, "type" = %Printable(type_url.as_str()),
                "client polls a type without resources"
            ),
            Observation::Identified { .. } => {
                info!(%node, stream = %id, peer = %PeerAddress(&stream.peer), "client connected");
            }
            Observation::NodeChanged { .. } => {
                debug!(%node, stream = %id, "a later request has a different node, which is ignored");
            }
            Observation::UnknownType { type_url, .. } => info!(
                %node, stream = %id, "type" = %Printable(type_url.as_str()),
                "client requests a type without resources"
            ),
            Observation::ParametersIgnored { type_url, .. } => info!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()),
                "client sends dynamic parameters, which are ignored"
            ),
            Observation::Subscribed { type_url, subscribed, .. } => debug!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()), ?subscribed, "subscribed"
            ),
            // Logged when it was sent.
            Observation::Sent { .. } => {}
            Observation::Acked { type_url, version, nonce, .. } => debug!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()), %version, %nonce,
                "client accepted a response (ACK)"
            ),
            Observation::Nacked { type_url, version, nonce, code, message, .. } => warn!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()), %version, %nonce, code,
                reason = %message.escape_debug(),
                "client rejected a response (NACK)"
            ),
            Observation::Isolated { type_url, name, .. } => warn!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()),
                name = %Printable(name.as_str()),
                "client rejects the current version of this resource"
            ),
            Observation::AnswerOverdue { type_url, nonce, after, .. } => warn!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()), %nonce, ?after,
                "client has not answered a response"
            ),
            Observation::Blocked { type_url, change, waits_for, reason, after, .. } => warn!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()), ?change,
                waits_for = %TypeName(waits_for.as_str()), ?reason, ?after,
                "a change is withheld until the client accepts another one"
            ),
            Observation::SentOutOfOrder { type_url, after, .. } => warn!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()), ?after,
                "sending requested resources although the client has not accepted the resources \
                 they refer to: the maximum delay has passed"
            ),
            Observation::VersionMismatch { type_url, version, .. } => debug!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()), %version,
                "client accepted a response with a different version"
            ),
            Observation::StaleNonce { type_url, .. } => debug!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()),
                "stale nonce: request dropped"
            ),
            Observation::BogusNonce { type_url, .. } => debug!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()),
                "unknown nonce: request dropped"
            ),
            Observation::Oversize { type_url, bytes, .. } => warn!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()), bytes,
                "a response exceeds the size limit and is sent in one piece"
            ),
            Observation::ResourceTooLong { type_url, name, bytes, .. } => warn!(
                %node, stream = %id, "type" = %TypeName(type_url.as_str()), %name, bytes,
                "a resource exceeds the size limit for responses: clients that name it receive an error instead"
            ),
            _ => debug!(%node, stream = %id, ?observation),
        }
    }
}

/// Returns whether an observation is logged as a warning. Clients control the number of these.
fn is_warning(observation: &Observation) -> bool {
    matches!(
        observation,
        Observation::Nacked { .. }
            | Observation::Isolated { .. }
            | Observation::AnswerOverdue { .. }
            | Observation::Blocked { .. }
            | Observation::SentOutOfOrder { .. }
            | Observation::Oversize { .. }
            | Observation::ResourceTooLong { .. }
    )
}

/// Type name for log lines. Control characters are escaped, because clients choose type URLs.
struct TypeName<'a>(&'a str);

impl fmt::Display for TypeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Printable(type_name(self.0)), f)
    }
}

/// Address of a client for log lines: its IP address, or the server's socket file to which it
/// connected.
pub(crate) struct PeerAddress<'a>(pub(crate) &'a Peer);

impl fmt::Display for PeerAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.address, &self.0.socket) {
            (Some(address), _) => fmt::Display::fmt(&address, f),
            (None, Some(socket)) => write!(f, "unix:{}", Printable(&socket.to_string_lossy())),
            (None, None) => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn unix_socket_peer_is_shown_by_its_path() {
        let shown = |peer: Peer| PeerAddress(&peer).to_string();
        assert_eq!(shown(Peer::new("[::1]:7".parse().ok())), "[::1]:7");
        assert_eq!(
            shown(Peer::new(None).with_socket(Path::new("/run/xds.sock"))),
            "unix:/run/xds.sock"
        );
        assert_eq!(shown(Peer::new(None)), "unknown");
    }
}
