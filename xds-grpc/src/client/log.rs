//! Log lines of a client's driver, with their levels.
//!
//! Common fields are `node`, `server` and `stream`; lines about a message add `type`, `version` and
//! `nonce`. A failing server is logged as one warning until it answers again. The end of a stream
//! that had responses is logged at INFO.
// S1.006, S1.015

use core::{fmt, time::Duration};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use tracing::{debug, info, trace, warn};
use xds_core::{
    ChannelId, Client, Time, TypeUrl, Version,
    client::{ChannelError, RequestCause, ServerAddress, Transmit, TransportId},
};

use super::link::Link;
use crate::{
    log_limit::{LogDecision, LogLimit},
    payload::Printer,
    shorthand::{Names, Payloads, Printable, PrintableReason, Request, Response, type_name},
};

/// Log of one client.
#[derive(Debug)]
pub(crate) struct Log {
    node: Arc<str>,
    printer: Printer,
    /// Last logged state of each dialed server.
    health: BTreeMap<(Arc<str>, TransportId), ServerHealth>,
    /// Number of v2 resources received, and the servers and types already warned about.
    v2_count: u64,
    warned_v2: BTreeSet<(Arc<str>, TypeUrl)>,
    /// Limit of NACK warnings by server and type, because the server controls their number.
    rejections: LogLimit<(Arc<str>, TypeUrl)>,
}

/// Interval in which one NACK of each server and type is logged.
const REJECTION_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerHealth {
    Answering,
    Failing,
}

impl Log {
    pub(crate) fn new(node: Arc<str>, printer: Printer) -> Self {
        let (health, warned_v2) = (BTreeMap::new(), BTreeSet::new());
        let rejections = LogLimit::new(1, REJECTION_INTERVAL);
        Self { node, printer, health, v2_count: 0, warned_v2, rejections }
    }

    pub(crate) fn dialing(&self, link: &Link) {
        let (node, server, stream) = (&self.node, link.server_name(), link.id);
        match &link.target {
            _ if link.is_file() => {}
            None => debug!(%node, %server, %stream, "connecting"),
            // One of several services of the server.
            Some(target) => debug!(%node, %server, %stream, %target, "connecting"),
        }
    }

    pub(crate) fn opened(&self, link: &Link) {
        let what = if link.is_file() { "reading a file" } else { "connected" };
        info!(node = %self.node, server = %link.server_name(), stream = %link.id, "{what}");
    }

    pub(crate) fn received(&mut self, link: &Link, message: &Bytes) {
        let variant = link.server.variant;
        let has_recovered =
            self.set_health(&link.server, ServerHealth::Answering) == Some(ServerHealth::Failing);
        let (node, server, stream) = (&self.node, link.server_name(), link.id);
        if has_recovered {
            info!(%node, %server, %stream, "the server responds again");
        }
        debug!(%node, %server, %stream, "received {}", Response(variant, message, Names::Few));
        trace!(
            %node, %server, %stream,
            payloads = %Payloads(variant, message, &*self.printer.0),
            "received {}", Response(variant, message, Names::All)
        );
    }

    /// Warns once for each server and type that sends resources of the v2 API.
    // S4.011
    pub(crate) fn v2_resources(&mut self, client: &Client) {
        let count = client.stats().v2_resources;
        if count == self.v2_count {
            return;
        }
        self.v2_count = count;
        for stats in client.type_stats().filter(|it| it.v2_resources > 0) {
            if self.warned_v2.insert((stats.server.into(), stats.type_url.clone())) {
                warn!(
                    node = %self.node, server = %stats.server,
                    "type" = %type_name(stats.type_url.as_str()),
                    "the server sends resources of version 2 of the API, which is deprecated"
                );
            }
        }
    }

    pub(crate) fn sent(&mut self, link: &Link, transmit: &Transmit, message: &Bytes, now: Time) {
        if let RequestCause::Nack { rejected, message } = &transmit.cause {
            self.rejected(link, transmit, (rejected, message), now);
        }
        let variant = link.server.variant;
        let (node, server, stream) = (&self.node, link.server_name(), link.id);
        if link.is_file() {
            return debug!(%node, %server, %stream, "{}", file_request_text(&transmit.cause));
        }
        debug!(%node, %server, %stream, "sent {}", Request(variant, message, Names::Few));
        trace!(%node, %server, %stream, "sent {}", Request(variant, message, Names::All));
    }

    /// Logs a rejected response as a warning, rate limited. The NACK itself is always logged at
    /// DEBUG.
    fn rejected(
        &mut self,
        link: &Link,
        transmit: &Transmit,
        (version, reason): (&Version, &str),
        now: Time,
    ) {
        let kind = (Arc::clone(&link.server.uri), transmit.type_url.clone());
        let LogDecision::Logged { suppressed } = self.rejections.admit(kind, now) else { return };
        let (node, server, stream) = (&self.node, link.server_name(), link.id);
        warn!(
            %node, %server, %stream,
            "type" = %type_name(transmit.type_url.as_str()),
            version = %Printable(version.as_str()),
            accepted = %Printable(transmit.version.as_str()),
            nonce = %Printable(transmit.nonce.as_str()),
            reason = %reason.escape_debug(),
            suppressed = (suppressed > 0).then_some(suppressed),
            "rejected a response (NACK)"
        );
    }

    /// Returns the time at which to call [`report_suppressed`](Self::report_suppressed).
    pub(crate) fn due(&self) -> Option<Time> {
        self.rejections.due()
    }

    /// Logs the number of suppressed warnings about rejected responses when a flood has ended.
    pub(crate) fn report_suppressed(&mut self, now: Time) {
        for ((server, type_url), suppressed) in self.rejections.overdue(now) {
            warn!(
                node = %self.node, %server, "type" = %type_name(type_url.as_str()), suppressed,
                "rejected further responses (NACK)"
            );
        }
    }

    pub(crate) fn unreachable(&mut self, link: &Link, why: &str) {
        let is_first = self.is_first_failure(&link.server);
        let (node, server, reason) = (&self.node, link.server_name(), PrintableReason(why));
        if is_first {
            warn!(%node, %server, stream = %link.id, %reason, "cannot connect");
        } else {
            debug!(%node, %server, stream = %link.id, %reason, "still cannot connect");
        }
    }

    /// Logs that a polled server has nothing new.
    #[cfg(feature = "rest")]
    pub(crate) fn unchanged(&mut self, link: &Link) {
        let has_recovered =
            self.set_health(&link.server, ServerHealth::Answering) == Some(ServerHealth::Failing);
        let (node, server, stream) = (&self.node, link.server_name(), link.id);
        if has_recovered {
            info!(%node, %server, %stream, "the server responds again");
        }
        debug!(%node, %server, %stream, "no changes");
    }

    /// Logs that a request to a polled server failed.
    #[cfg(feature = "rest")]
    pub(crate) fn failed(&mut self, link: &Link, error: &ChannelError) {
        let is_first = self.is_first_failure(&link.server);
        let (node, server, stream) = (&self.node, link.server_name(), link.id);
        let reason = error.to_string();
        let reason = Printable(&reason);
        if is_first {
            warn!(%node, %server, %stream, %reason, "a request failed");
        } else {
            debug!(%node, %server, %stream, %reason, "a request failed again");
        }
    }

    pub(crate) fn ended(&mut self, link: &Link, code: i32, message: &str) {
        let is_first = link.responses == 0 && self.is_first_failure(&link.server);
        let (node, server, stream) = (&self.node, link.server_name(), link.id);
        let (responses, reason) = (link.responses, Printable(message));
        if responses > 0 {
            info!(%node, %server, %stream, code, %reason, responses, "stream ended");
        } else if is_first {
            warn!(%node, %server, %stream, code, %reason, "stream ended without a response");
        } else {
            debug!(%node, %server, %stream, code, %reason, "stream ended without a response again");
        }
    }

    /// Logs that a file is missing or invalid.
    #[cfg(feature = "files")]
    pub(crate) fn unreadable(&mut self, link: &Link, why: &str, is_new_error: bool) {
        self.set_health(&link.server, ServerHealth::Failing);
        let (node, stream, reason) = (&self.node, link.id, Printable(why));
        if is_new_error {
            warn!(%node, %stream, %reason, "cannot read a file");
        } else {
            debug!(%node, %stream, %reason, "still cannot read a file");
        }
    }

    pub(crate) fn malformed(&self, link: &Link, why: &str) {
        let (node, server, reason) = (&self.node, link.server_name(), PrintableReason(why));
        warn!(%node, %server, stream = %link.id, %reason, "invalid response");
    }

    pub(crate) fn request_too_long(&self, link: &Link, bytes: usize, limit: usize) {
        let (node, server) = (&self.node, link.server_name());
        warn!(%node, %server, stream = %link.id, bytes, limit, "request exceeds the size limit");
    }

    /// Logs that the client closed the stream, because of a fault of the server or because it is
    /// not needed.
    pub(crate) fn closed(&self, link: &Link, fault: Option<&ChannelError>) {
        let (node, server) = (&self.node, link.server_name());
        if let Some(reason) = fault {
            warn!(%node, %server, stream = %link.id, %reason, "closed the stream");
            return;
        }
        info!(%node, %server, stream = %link.id, responses = link.responses, "closed the stream");
    }

    pub(crate) fn stalled(&self, link: &Link, seconds: u64, client: &Client) {
        let (node, server) = (&self.node, link.server_name());
        let watches = UnhandledWatches(client, link.id).to_string();
        if watches.is_empty() {
            return warn!(
                %node, %server, stream = %link.id, seconds,
                "reading from the server is paused: an update has no verdict, or the server does not read requests"
            );
        }
        warn!(
            %node, %server, stream = %link.id, seconds, %watches,
            "reading from the server is paused: these watches have not handled their last notice; poll them, \
             drop them, or turn flow control off"
        );
    }

    fn is_first_failure(&mut self, server: &ServerAddress) -> bool {
        self.set_health(server, ServerHealth::Failing) != Some(ServerHealth::Failing)
    }

    /// Records a server's state and returns the previous one.
    fn set_health(&mut self, server: &ServerAddress, now: ServerHealth) -> Option<ServerHealth> {
        self.health.insert((Arc::clone(&server.uri), server.transport.clone()), now)
    }
}

/// Maximum number of watches in a log line.
const MAX_LISTED_WATCHES: usize = 8;

/// Watches that block reading on a channel, by type and name.
struct UnhandledWatches<'a>(&'a Client, ChannelId);

impl fmt::Display for UnhandledWatches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut watches = self.0.unhandled(self.1);
        for (at, (_, type_url, name)) in watches.by_ref().take(MAX_LISTED_WATCHES).enumerate() {
            let (separator, type_name) =
                (if at == 0 { "" } else { ", " }, type_name(type_url.as_str()));
            match name {
                Some(name) => write!(f, "{separator}{type_name} {}", Printable(name.as_str()))?,
                None => write!(f, "{separator}all of {type_name}")?,
            }
        }
        match watches.count() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

fn file_request_text(cause: &RequestCause) -> &'static str {
    match cause {
        RequestCause::Ack => "accepted the file",
        RequestCause::Nack { .. } => "rejected the file",
        _ => "subscribed to the file",
    }
}
