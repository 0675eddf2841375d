//! Watch of a range of keys, which converts the responses of the server to one change per
//! transaction.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};
use xds_source::SourceError;

use crate::{
    client::{EtcdClient, EtcdError, Member, decode},
    proto::{
        RangeRequest, ResponseHeader, WatchCreateRequest, WatchProgressRequest, WatchRequest,
        WatchResponse, mvccpb::Event, watch_request::RequestUnion,
    },
    range::KeyRange,
};

/// Watch of a range of keys.
#[derive(Debug)]
pub(crate) struct RangeWatch {
    client: EtcdClient,
    member: Arc<Member>,
    /// Keeps the request side of the stream open.
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<Bytes>,
    /// Events of a response that has further parts.
    parts: Vec<Event>,
    transactions: VecDeque<Transaction>,
}

/// Events of one transaction. Without events, it reports that nothing else happened up to the
/// revision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transaction {
    pub(crate) revision: u64,
    pub(crate) events: Vec<Event>,
}

/// Sender of requests for the progress of a watch.
#[derive(Clone, Debug)]
pub(crate) struct ProgressRequests(mpsc::WeakSender<WatchRequest>);

impl ProgressRequests {
    /// Requests a response with the newest revision of the member, which follows all events up to
    /// it. Does nothing if a request is already waiting to be sent.
    pub(crate) fn send(&self) {
        let request = RequestUnion::ProgressRequest(WatchProgressRequest {});
        if let Some(requests) = self.0.upgrade() {
            let _ = requests.try_send(WatchRequest { request_union: Some(request) });
        }
    }
}

/// Reason for the end of a watch.
#[derive(Debug)]
pub(crate) enum WatchEnd {
    /// The server no longer has the events since the requested revision.
    Compacted,
    /// The cluster was restored from a backup, and is now at a lower revision than the requested
    /// one.
    Restored(Restored),
    Failed(EtcdError),
}

/// Newest revision of a cluster, which is lower than one that was read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restored {
    at: u64,
    read: u64,
}

impl Restored {
    /// Compares the newest revision of a cluster with one that was read before.
    pub(crate) fn check(at: u64, read: u64) -> Result<(), Self> {
        if at < read { Err(Self { at, read }) } else { Ok(()) }
    }
}

impl From<Restored> for SourceError {
    fn from(Restored { at, read }: Restored) -> Self {
        Self::Failed(format!(
            "etcd is at revision {at}, and this server has read {read}: it was restored from a \
             backup; restart this server"
        ))
    }
}

impl From<EtcdError> for WatchEnd {
    fn from(error: EtcdError) -> Self {
        Self::Failed(error)
    }
}

impl RangeWatch {
    /// Watches a range after a revision. With an expired token, the user is authenticated again.
    pub(crate) async fn open(
        client: &EtcdClient,
        range: &KeyRange,
        after: u64,
    ) -> Result<Self, WatchEnd> {
        match Self::begin(client, range, after).await {
            // Some versions of etcd deny a watch with an expired token like one without permission.
            Err(WatchEnd::Failed(why))
                if client.has_user()
                    && (why.is_expired_token() || matches!(why, EtcdError::Denied(_))) =>
            {
                client.forget_token().await;
                Self::begin(client, range, after).await
            }
            result => result,
        }
    }

    async fn begin(client: &EtcdClient, range: &KeyRange, after: u64) -> Result<Self, WatchEnd> {
        let create = WatchCreateRequest {
            key: range.first.clone(),
            range_end: range.end.clone(),
            start_revision: after.saturating_add(1).try_into().unwrap_or(i64::MAX),
            progress_notify: true,
            fragment: true,
        };
        let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let (sender, receiver) = mpsc::channel(1);
        // The channel has room for it.
        let _ = sender.try_send(request);
        let requests = stream::unfold(receiver, |mut receiver| async {
            let request = receiver.recv().await?;
            Some((request, receiver))
        });
        let (member, responses) = client.watch(requests).await?;
        let mut watch = Self {
            client: client.clone(),
            member,
            requests: sender,
            responses,
            parts: Vec::new(),
            transactions: VecDeque::new(),
        };
        // The first response reports whether the watch was created.
        let first = client.limited(&watch.member, watch.responses.message()).await;
        // etcd also accepts watches from future revisions. A lower revision may only mean that the
        // member lags behind the others.
        if watch.receive(first).await? < after {
            check_restored(client, range, after).await?;
        }
        // Reports that the member is reachable again, even if nothing has changed.
        watch.transactions.push_front(Transaction { revision: after, events: Vec::new() });
        Ok(watch)
    }

    /// Returns a sender of requests for the progress of the watch.
    pub(crate) fn progress(&self) -> ProgressRequests {
        ProgressRequests(self.requests.downgrade())
    }

    /// Waits for the next transaction.
    pub(crate) async fn next(&mut self) -> Result<Transaction, WatchEnd> {
        loop {
            if let Some(transaction) = self.transactions.pop_front() {
                return Ok(transaction);
            }
            let response = self.responses.message().await;
            let address = &self.member.address;
            let response = response.map_err(|status| EtcdError::of_status(address, status));
            self.receive(response).await?;
        }
    }

    /// Takes a response, or the end of the stream. Returns the revision of the member.
    async fn receive(
        &mut self,
        response: Result<Option<Bytes>, EtcdError>,
    ) -> Result<u64, WatchEnd> {
        let response = match response {
            Ok(Some(response)) => response,
            // Members end watches when they shut down.
            Ok(None) => return Err(ended(&self.client, &self.member, "").await),
            Err(why) => {
                if why.is_of_member() {
                    self.client.leave(&self.member).await;
                }
                return Err(if why.is_compacted() { WatchEnd::Compacted } else { why.into() });
            }
        };
        let response: WatchResponse = decode(&self.member.address, response)?;
        if response.compact_revision > 0 {
            return Err(WatchEnd::Compacted);
        }
        if response.canceled {
            return Err(ended(&self.client, &self.member, &response.cancel_reason).await);
        }
        let revision = revision_of(response.header.as_ref());
        self.take(response);
        Ok(revision)
    }

    /// Splits a response into transactions. Events of one transaction have the same revision, and
    /// the server never spreads them over several responses, only over parts of one.
    fn take(&mut self, response: WatchResponse) {
        let WatchResponse { header, events, created, fragment, .. } = response;
        self.parts.extend(events);
        if fragment || created && self.parts.is_empty() {
            return;
        }
        let events = std::mem::take(&mut self.parts);
        if events.is_empty() {
            let revision = revision_of(header.as_ref());
            self.transactions.push_back(Transaction { revision, events });
            return;
        }
        for transaction in by_revision(events) {
            self.transactions.push_back(transaction);
        }
    }
}

fn revision_of(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |header| u64::try_from(header.revision).unwrap_or(0))
}

/// Fails if the newest revision of the cluster is lower than one that was read before. The read is
/// linearizable, so a member that lags behind the others does not fail.
async fn check_restored(client: &EtcdClient, range: &KeyRange, read: u64) -> Result<(), WatchEnd> {
    let key = range.first.clone();
    let request = RangeRequest { key, keys_only: true, ..RangeRequest::default() };
    let newest = revision_of(client.range(request).await?.header.as_ref());
    Restored::check(newest, read).map_err(WatchEnd::Restored)
}

/// Returns the reason why a member ended a watch. Unless the user is the reason, the next call uses
/// another member.
async fn ended(client: &EtcdClient, member: &Arc<Member>, why: &str) -> WatchEnd {
    let why = if why.is_empty() { "the member has ended the watch" } else { why };
    let status = if why.contains("permission denied") {
        Status::permission_denied(why)
    } else if why.contains("invalid auth token") {
        Status::unauthenticated(why)
    } else {
        client.leave(member).await;
        Status::unavailable(why)
    };
    WatchEnd::Failed(EtcdError::of_status(&member.address, status))
}

/// Groups consecutive events of one revision.
fn by_revision(events: Vec<Event>) -> Vec<Transaction> {
    let mut transactions: Vec<Transaction> = Vec::new();
    for event in events {
        let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
        let revision = u64::try_from(revision).unwrap_or(0);
        match transactions.last_mut() {
            Some(last) if last.revision == revision => last.events.push(event),
            _ => transactions.push(Transaction { revision, events: vec![event] }),
        }
    }
    transactions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::mvccpb::KeyValue;

    fn event(revision: i64, key: &'static str) -> Event {
        let kv = KeyValue { key: key.into(), mod_revision: revision, ..KeyValue::default() };
        Event { kv: Some(kv), ..Event::default() }
    }

    #[test]
    fn events_of_one_revision_are_one_transaction() {
        let transactions = by_revision(vec![event(3, "a"), event(3, "b"), event(5, "a")]);
        let shape: Vec<_> = transactions.iter().map(|it| (it.revision, it.events.len())).collect();
        assert_eq!(shape, [(3, 2), (5, 1)]);
    }
}
