//! Reading of a stream's requests.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;
use tonic::{Code, Status, Streaming};
use xds_core::StreamId;

use super::{
    inbox::{Inbox, Input},
    options::ServerOptions,
};
use crate::{
    grpc::{over_size_limit, with_causes},
    zoo::{self, Bug},
};

/// Maximum size of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestLimit {
    pub(crate) bytes: usize,
    /// Advice for the operator, appended to the error of a request that exceeds it.
    advice: Option<Arc<str>>,
}

impl RequestLimit {
    pub(super) fn of(options: &ServerOptions) -> Self {
        Self { bytes: options.max_request_bytes, advice: options.request_limit_advice.clone() }
    }
}

/// Kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Stream of requests.
    Stream,
    /// Unary call with one request and one response.
    Fetch,
}

/// Whether a call has delivered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestsSeen {
    None,
    Any,
}

/// Reads a stream's requests, one per permission.
pub(super) async fn read(
    id: StreamId,
    kind: CallKind,
    mut requests: Streaming<Bytes>,
    limit: RequestLimit,
    credit: Arc<Notify>,
    inbox: Inbox,
) {
    let mut seen = RequestsSeen::None;
    for number in 0_u64.. {
        if number == 2 && zoo::is(Bug::ReadGateStuck) {
            return core::future::pending().await;
        }
        credit.notified().await;
        match requests.message().await {
            Ok(Some(message)) => {
                seen = RequestsSeen::Any;
                inbox.send(Input::Request(id, message));
            }
            Ok(None) if (kind, seen) == (CallKind::Fetch, RequestsSeen::None) => {
                return inbox.send(Input::Malformed(id, "fetch call without a request".into()));
            }
            // The response may still be pending. If the client disconnects, the response body is
            // dropped.
            Ok(None) if kind == CallKind::Fetch => return,
            Ok(None) => return inbox.send(Input::HalfClosed(id)),
            Err(status) => return inbox.send(unreadable(id, &status, &limit)),
        }
    }
}

/// Maps an error of the request stream to an input: an invalid message or a closed stream.
fn unreadable(id: StreamId, status: &Status, limit: &RequestLimit) -> Input {
    if let Some(why) = over_size_limit(status, limit.bytes) {
        let why = match &limit.advice {
            Some(advice) => format!("{why}; {advice}").into(),
            None => why.into(),
        };
        return Input::TooLong(id, why);
    }
    // An error without a source is about the message, otherwise about the connection.
    match (status.code(), core::error::Error::source(status)) {
        (Code::Internal, None) => Input::Malformed(id, with_causes(status).into()),
        _ => Input::Closed(id),
    }
}
