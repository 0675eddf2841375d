//! Endpoints that a client may wait for though it has them: it warms clusters that have changed (IS18).
//!
//! On a state-of-the-world stream the next request for them is answered, though it looks like an acknowledgement; what
//! goes out before it comes is an answer as well. Of types that wait for each other's answers, these two wait for
//! nothing. It is not so of
//!
//! - a request that rejects endpoints: it asks for nothing, and what was rejected waits for a change (IS4);
//! - one that answers older endpoints than the newest: it is dropped (IS2), and the client repeats it;
//! - clusters that were sent before the stream's first request for endpoints: that is answered in any case (IS8);
//! - clusters that come again to be renewed: nothing has changed;
//! - some of the endpoints that come again to be renewed before the request does, as they have expired: that is no
//!   answer, but all of them are, whatever they come for;
//! - endpoints that have an error: that is told in their stead, once (IS28);
//! - incremental clients, which do not ask: they may be sent endpoints unasked, and whether they are is not judged here;
//! - a control plane of the user's, which may know better what was changed, and may take its time.
//!
//! That the clusters are rejected makes no difference: endpoints may be asked for before that.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::talk::Talk;
use crate::world::{
    Beside,
    message::{Request, Response, Text},
};

/// Whether a client may wait for what it has, since what refers to it has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Warms {
    /// It does not.
    #[default]
    Nothing,
    /// Changed clusters were sent after the newest endpoints: the next request is answered.
    Clusters,
    /// There was such a request.
    Asks,
}

impl Talk {
    /// Clusters were sent: whoever warms them waits for all endpoints that he names (M151).
    pub(super) fn await_all(&mut self) {
        let Self { awaited, sent, reported, fold, .. } = self;
        awaited.extend(sent.keys().chain(reported.keys()).chain(&fold.subscribed).cloned());
    }

    /// These clusters were others than before.
    pub(super) fn clusters_changed(&mut self) {
        if self.warms == Warms::Nothing && self.fold.was_requested {
            self.warms = Warms::Clusters;
        }
    }

    /// A request arrives that is not dropped.
    pub(super) fn ask_anew(&mut self, request: &Request) {
        if self.warms == Warms::Clusters && request.error.is_none() {
            self.warms = Warms::Asks;
        }
    }

    /// Whether a response has nothing new and nothing but what expires, and comes before the request for endpoints.
    pub(super) fn renews_before_it_is_asked(
        &self,
        said: &BTreeMap<Text, Bytes>,
        beside: &dyn Fn(&str) -> Beside,
        response: &Response,
    ) -> bool {
        let says_more = !response.removed.is_empty() || !response.errors.is_empty();
        let is_renewed = |(name, bytes): (&Text, &Bytes)| {
            beside(name).ttl.is_some() && self.sent.get(name) == Some(bytes)
        };
        let is_first = self.warms == Warms::Clusters && !says_more && !said.is_empty();
        is_first && said.iter().all(is_renewed)
    }

    /// What there is of what is asked for that a response does not have. What has an error may be told by that.
    pub(super) fn left_out<'a>(
        &self,
        said: &BTreeMap<Text, Bytes>,
        has: &'a BTreeMap<Text, Bytes>,
        beside: &dyn Fn(&str) -> Beside,
    ) -> Option<&'a Text> {
        let is_due = |name: &str| self.fold.covers(name) && beside(name).error.is_none();
        has.keys().find(|name| !said.contains_key(*name) && is_due(name))
    }

    /// What the client asks for because it may be warming clusters, and is not sent (M152).
    pub(super) fn unwarmed<'a>(
        &self,
        has: &'a BTreeMap<Text, Bytes>,
        beside: &dyn Fn(&str) -> Beside,
    ) -> Option<&'a Text> {
        let asks = self.warms == Warms::Asks;
        asks.then(|| self.left_out(&BTreeMap::new(), has, beside)).flatten()
    }
}
