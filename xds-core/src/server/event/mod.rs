//! Inputs and outputs of a server: stream events, outputs, observations and status.

pub(crate) mod close_reason;
mod connection;
mod observation;
mod server_event;
mod server_transmit;
pub(crate) mod stats;
pub(crate) mod status;

use alloc::sync::Arc;

use bytes::Bytes;

pub use self::{
    close_reason::{CloseReason, Refusal},
    connection::Connection,
    observation::{BlockedBy, BlockedChange, Observation},
    server_event::ServerEvent,
    server_transmit::{ResponseCause, ServerTransmit},
};
pub use crate::status_code::StatusCode;
use crate::{
    id::StreamId,
    service::{Method, Variant},
    text::{TypeUrl, ViewName},
};

/// Service and protocol variant that a client called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamKind {
    /// Aggregated service: all types share the stream, and every request states its type URL.
    Aggregated(Variant),
    /// Service of one type. Requests may omit the type URL.
    // M6
    Single {
        /// Type of the service.
        type_url: TypeUrl,
        /// Protocol variant.
        variant: Variant,
    },
    /// Fetch method of the service of one type: one request and one state-of-the-world response.
    ///
    /// The stream [ends](ServerOutput::Finished) with the response. The response is sent once the
    /// version of the requested resources differs from the version in the request or, if the
    /// request has an `error_detail`, from that of the rejected response, which the request
    /// identifies by its nonce.
    // M196, M185-M187, M189
    Fetch {
        /// Type of the service.
        type_url: TypeUrl,
    },
}

/// Lifetime of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamLifetime {
    /// Open until one side ends it.
    LongLived,
    /// Ends with one response. The state of the client is known only from its request.
    SingleResponse,
}

impl StreamKind {
    /// Returns the service and variant that a method belongs to.
    #[must_use]
    pub fn of(method: Method) -> Self {
        match method {
            Method::Aggregated(variant) => Self::Aggregated(variant),
            Method::Single { type_url, variant } => {
                Self::Single { type_url: TypeUrl::from(type_url), variant }
            }
            Method::Fetch { type_url } => Self::Fetch { type_url: TypeUrl::from(type_url) },
        }
    }

    /// Returns the lifetime of the stream.
    pub(crate) const fn lifetime(&self) -> StreamLifetime {
        match self {
            Self::Aggregated(_) | Self::Single { .. } => StreamLifetime::LongLived,
            Self::Fetch { .. } => StreamLifetime::SingleResponse,
        }
    }

    /// Returns the protocol variant of the stream.
    #[must_use]
    pub const fn variant(&self) -> Variant {
        match self {
            Self::Aggregated(variant) | Self::Single { variant, .. } => *variant,
            Self::Fetch { .. } => Variant::StateOfTheWorld,
        }
    }
}

/// Event of a transport, reported by an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// A request arrived.
    Message(StreamId, Bytes),
    /// A request arrived that the transport cannot pass on, for example because decompression failed.
    Undeliverable(StreamId, Arc<str>),
    /// A request arrived that exceeds the transport's size limit.
    TooLong(StreamId, Arc<str>),
    /// The client closed its side of the stream and waits for responses.
    ///
    /// Because it can no longer answer, the stream [ends](ServerOutput::Finished) when everything
    /// that can be sent now has been sent. If the client still waits for a
    /// [view](ServerEvent::Authorize), the stream ends after that decision.
    // M13
    HalfClosed(StreamId),
    /// The stream ended, on either side and for any reason.
    // M13, M15
    Closed(StreamId),
}

/// Action for the driver of a server.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub enum ServerOutput {
    /// The stream has something to send. Call [`poll_transmit`](super::Server::poll_transmit)
    /// whenever the transport has room, until it returns `None`. Not repeated until then.
    Writable(StreamId),
    /// A question or notification for the application.
    Event(ServerEvent),
    /// End the stream with this status. No further output refers to it. At a planned end
    /// ([`ShuttingDown`](CloseReason::ShuttingDown), [`StreamAge`](CloseReason::StreamAge)) a response
    /// that is already rendered should still be written; otherwise it may be dropped.
    Close(StreamId, CloseReason),
    /// End the stream without an error after its last response is written, because everything
    /// requested was sent ([`StreamKind::Fetch`], [`StreamEvent::HalfClosed`]). No further output refers
    /// to it.
    Finished(StreamId),
    /// All connected clients have ACKed a change, as requested by
    /// [`notify_when_converged`](super::Server::notify_when_converged).
    Converged {
        /// View of the change.
        view: ViewName,
        /// Type of the change.
        type_url: TypeUrl,
        /// Sequence number of the transaction.
        sequence: u64,
    },
    /// The last stream has ended after [`drain`](super::Server::drain) or
    /// [`shut_down`](super::Server::shut_down). Sent once.
    Drained,
    /// Report of an event; requires no action.
    Observed(Observation),
}
