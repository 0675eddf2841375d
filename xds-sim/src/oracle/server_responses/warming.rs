//! Endpoints that are sent again unchanged, because a client waits for them to warm changed
//! clusters.
//!
//! On a state-of-the-world stream the next request for endpoints is answered although it looks like
//! an ACK. A response sent before that request counts as well. The order of types does not delay
//! these two types. Exceptions:
//!
//! - A NACK of endpoints requests nothing, and the rejected endpoints wait for a change.
//! - A stale request for endpoints is dropped, and the client repeats it.
//! - Clusters sent before the first request for endpoints do not matter, because that request is
//!   answered anyway.
//! - Clusters sent as a heartbeat have not changed.
//! - Some endpoints renewed before the request are not an answer; all of them are, for whatever
//!   reason they are sent.
//! - Endpoints with an error are replaced by the error, once.
//! - Incremental clients send no such request. They may be sent the endpoints of the clusters that
//!   they were sent, and no others; that they are sent them is not checked here.
//! - A user-defined control plane may know better which clusters have changed, and may take its
//!   time.
//!
//! A NACK of the clusters does not matter, because the client may request endpoints before it.
// IS2, IS4, IS8, IS18, IS28

use std::collections::BTreeMap;

use bytes::Bytes;

use super::state::TypeState;
use crate::world::{
    ResourceExtras,
    message::{Request, Response, Text},
};

/// Whether a client may wait for unchanged endpoints, because their clusters have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Warms {
    /// No.
    #[default]
    Nothing,
    /// Yes: changed clusters were sent after the newest endpoints, so the next request is answered.
    Clusters,
    /// Yes, and the client has sent the request.
    Asks,
}

impl TypeState {
    /// Handles clusters sent to the client: it may wait for all endpoints that it subscribes to.
    // M151
    pub(super) fn await_all(&mut self) {
        let Self { awaited, sent, reported, subscription, .. } = self;
        awaited.extend(sent.keys().chain(reported.keys()).chain(&subscription.subscribed).cloned());
    }

    /// Handles clusters sent to an incremental client: it may wait for the endpoints of these. In
    /// simulations, endpoints have the name of their cluster.
    // M151, M153
    pub(super) fn await_endpoints_of(&mut self, clusters: Vec<Text>) {
        self.awaited.extend(clusters);
    }

    /// Handles changed clusters sent to the client.
    pub(super) fn clusters_changed(&mut self) {
        if self.warms == Warms::Nothing && self.subscription.was_requested {
            self.warms = Warms::Clusters;
        }
    }

    /// Handles a request that is not stale.
    pub(super) fn ask_anew(&mut self, request: &Request) {
        if self.warms == Warms::Clusters && request.error.is_none() {
            self.warms = Warms::Asks;
        }
    }

    /// Whether a response contains only unchanged resources with a TTL, and precedes the request
    /// for endpoints.
    pub(super) fn renews_before_it_is_asked(
        &self,
        content: &BTreeMap<Text, Bytes>,
        extras: &dyn Fn(&str) -> ResourceExtras,
        response: &Response,
    ) -> bool {
        let says_more = !response.removed.is_empty() || !response.errors.is_empty();
        let is_renewed = |(name, bytes): (&Text, &Bytes)| {
            extras(name).ttl.is_some() && self.sent.get(name) == Some(bytes)
        };
        let is_first = self.warms == Warms::Clusters && !says_more && !content.is_empty();
        is_first && content.iter().all(is_renewed)
    }

    /// Returns a subscribed resource without an error that the response does not contain.
    pub(super) fn left_out<'a>(
        &self,
        content: &BTreeMap<Text, Bytes>,
        has: &'a BTreeMap<Text, Bytes>,
        extras: &dyn Fn(&str) -> ResourceExtras,
    ) -> Option<&'a Text> {
        let is_due = |name: &str| self.subscription.covers(name) && extras(name).error.is_none();
        has.keys().find(|name| !content.contains_key(*name) && is_due(name))
    }

    /// Returns endpoints that the client has requested because it may warm clusters, and was not
    /// sent.
    // M152
    pub(super) fn unwarmed<'a>(
        &self,
        has: &'a BTreeMap<Text, Bytes>,
        extras: &dyn Fn(&str) -> ResourceExtras,
    ) -> Option<&'a Text> {
        let asks = self.warms == Warms::Asks;
        asks.then(|| self.left_out(&BTreeMap::new(), has, extras)).flatten()
    }
}
