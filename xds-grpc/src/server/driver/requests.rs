//! Reading of a stream's requests.

use std::sync::Arc;

use tokio::sync::Notify;
use xds_core::StreamId;

use super::inbox::{Inbox, Input};
use crate::{
    runtime::SharedRuntime,
    server::{
        calls::message_reader::{MessageReader, ReadError},
        options::ServerOptions,
    },
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
    pub(crate) fn of(options: &ServerOptions) -> Self {
        Self {
            bytes: options.max_request_bytes,
            advice: options.limit_advice.request_bytes.clone(),
        }
    }
}

/// Kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
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
pub(crate) async fn read(
    id: StreamId,
    kind: CallKind,
    mut requests: MessageReader,
    limit: RequestLimit,
    runtime: SharedRuntime,
    credit: Arc<Notify>,
    inbox: Inbox,
) {
    let mut seen = RequestsSeen::None;
    for number in 0_u64.. {
        if number == 2 && zoo::is(Bug::ReadGateStuck) {
            return core::future::pending().await;
        }
        credit.notified().await;
        match requests.next(&runtime).await {
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
            Err(why) => return inbox.send(unreadable(id, why, &limit)),
        }
    }
}

/// Maps an error of the request stream to an input.
fn unreadable(id: StreamId, why: ReadError, limit: &RequestLimit) -> Input {
    match why {
        ReadError::TooLong { bytes } => {
            let mut why = format!("found {bytes} bytes, the limit is: {} bytes", limit.bytes);
            if let Some(advice) = &limit.advice {
                why = format!("{why}; {advice}");
            }
            Input::TooLong(id, why.into())
        }
        ReadError::Limit(why) => Input::TooLong(id, why.into()),
        ReadError::Malformed(why) => Input::Malformed(id, why.into()),
        ReadError::Closed => Input::Closed(id),
    }
}
