//! Streams of the driver, from the call of a client to its end.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;
use tonic::Status;
use xds_core::{
    StreamId,
    server::{Connection, Refusal, StreamEvent, StreamKind},
    service::Variant,
};

use super::{
    Driver,
    body::{ResponseBody, ResponseSlot},
    inbox::IncomingCall,
    requests::{CallKind, read},
};
use crate::{
    runtime::Task,
    server::{
        access::{authorize::AuthorizationRequest, peer::Peer},
        memory::responses::ConnectionResponses,
    },
    zoo::{self, Bug},
};

/// Driver's state of a stream.
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    /// Node id; empty until the client is identified.
    pub(crate) node: Arc<str>,
    pub(crate) peer: Peer,
    pub(crate) variant: Variant,
    pub(super) kind: CallKind,
    pub(crate) slot: Arc<ResponseSlot>,
    /// Memory of the connection's responses.
    pub(crate) responses: ConnectionResponses,
    pub(crate) credit: Arc<Notify>,
    pub(crate) request_side: RequestSide,
    /// Input of the authorizer; `None` after it was called.
    pub(crate) authorization_request: Option<Box<AuthorizationRequest>>,
    /// Task that reads requests.
    _reader: Task,
    /// Task that runs the authorizer.
    pub(super) decision: Option<Task>,
}

/// Whether the client may send further requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestSide {
    Open,
    /// The client has half-closed the stream.
    HalfClosed,
}

impl Driver {
    /// Opens a stream for a call.
    pub(crate) fn accept(&mut self, call: IncomingCall) -> Result<ResponseBody, Refusal> {
        let variant = call.via.variant();
        let kind = if matches!(call.via, StreamKind::Fetch { .. }) {
            CallKind::Fetch
        } else {
            CallKind::Stream
        };
        let now = self.clock.now();
        let principal = call.peer.identity().unwrap_or_default();
        let connection = Connection::new(call.responses.id()).with_principal(principal);
        let id = self
            .server
            .accept_on(&connection, call.via, now)
            .inspect_err(|refusal| self.log.refused(&call.peer, refusal, now))?;
        // The sender of the call holds an inbox, unless it was dropped. In that case nothing needs
        // the stream.
        let Some(inbox) = self.inbox.upgrade() else {
            self.server.handle_event(StreamEvent::Closed(id), self.clock.now());
            return Err(Refusal::ShuttingDown);
        };
        let (slot, credit) = (Arc::new(ResponseSlot::default()), Arc::new(Notify::new()));
        let reader = read(
            id,
            kind,
            call.requests,
            call.request_limit,
            self.runtime.clone(),
            Arc::clone(&credit),
            inbox.clone(),
        );
        let authorization_request = self.authorizer.is_some().then(|| {
            Box::new(AuthorizationRequest {
                stream: Some(id),
                node_id: Arc::default(),
                encoded_node: Bytes::new(),
                peer: call.peer.clone(),
                metadata: call.metadata,
            })
        });
        let stream = Stream {
            id,
            node: Arc::default(),
            peer: call.peer,
            variant,
            kind,
            slot: Arc::clone(&slot),
            responses: call.responses,
            credit,
            request_side: RequestSide::Open,
            authorization_request,
            _reader: self.runtime.start(reader),
            decision: None,
        };
        self.streams.insert(id, stream);
        self.unread.push(id);
        Ok(ResponseBody::new(id, slot, inbox))
    }

    /// Handles a request of a stream.
    pub(crate) fn handle_request(&mut self, id: StreamId, message: Bytes) {
        let Some(stream) = self.streams.get(&id) else { return };
        self.log.received(stream, &message);
        self.unread.push(id);
        self.server.handle_event(StreamEvent::Message(id, message), self.clock.now());
    }

    /// Permits the readers of those streams to read whose next request the core wants.
    pub(crate) fn permit_reads(&mut self) {
        if self.events.is_full(self.event_capacity) && !zoo::is(Bug::UnboundedQueue) {
            return;
        }
        let (streams, server) = (&self.streams, &self.server);
        self.unread.retain(|id| match streams.get(id) {
            Some(stream) if server.wants_read(*id) => {
                stream.credit.notify_one();
                false
            }
            Some(_) => true,
            None => false,
        });
    }

    /// Handles the end of a stream by the client.
    pub(crate) fn close(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.remove(&id) {
            self.log.disconnected(&stream);
            stream.slot.end(Status::ok(""));
            self.server.handle_event(StreamEvent::Closed(id), self.clock.now());
        }
    }
}
