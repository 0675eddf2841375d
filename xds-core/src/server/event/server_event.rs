//! Questions and notifications of a server to its application.

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;

use crate::{
    id::StreamId,
    text::{ResourceName, TypeUrl, ViewName},
};

/// Question or one-time notification of a server to its application.
///
/// The questions that are still unanswered can be listed with
/// [`unanswered_events`](crate::server::Server::unanswered_events).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ServerEvent {
    /// The client has sent its node and waits for a view
    /// ([`Admission::ByApplication`](crate::server::Admission::ByApplication)): call [`assign`](crate::server::Server::assign) or
    /// [`refuse`](crate::server::Server::refuse). The whole node was in the preceding
    /// [`Observation::Identified`](super::Observation::Identified).
    Authorize {
        /// Stream to decide about.
        stream: StreamId,
        /// Id of the client's node; empty if it has none.
        node_id: Arc<str>,
    },
    /// A client requested resources that do not exist ([`OnDemand::Notify`](crate::server::OnDemand::Notify)):
    /// set them, or mark them as missing. The names of one request, or of one part of a long request,
    /// are reported together, each once until it is unwanted. It is reported again if it was set, and
    /// a rollout moves a client to a candidate without it.
    // M254
    Wanted {
        /// View of the client. During a rollout this is the view that the application has set, also
        /// if the client sees its candidate.
        view: ViewName,
        /// Type of the resources.
        type_url: TypeUrl,
        /// Requested names; at least one.
        names: Vec<ResourceName>,
    },
    /// No client requests these wanted resources any more, whether or not they exist now.
    ///
    /// The application may keep or remove them. If a client requests one of them later, it is
    /// reported as [wanted](Self::Wanted) again even if it still exists, so an application can
    /// remove unwanted resources after a delay. Exception: a resource that did not exist at this
    /// time and is set later counts as set independently of requests, and requests for it are not
    /// reported. Remove such a resource with
    /// [`remove_unless_named`](crate::server::Server::remove_unless_named), and try again later if
    /// a client requests it.
    // M256, M250
    Unwanted {
        /// View of the clients, in any cohort of a rollout.
        view: ViewName,
        /// Type of the resources.
        type_url: TypeUrl,
        /// Names; at least one.
        names: Vec<ResourceName>,
    },
    /// A client sent a request of a custom-message type
    /// ([`ServerConfig::custom_message_types`](crate::server::ServerConfig)).
    // M21
    CustomMessage {
        /// Stream of the client.
        stream: StreamId,
        /// Type of the request.
        type_url: TypeUrl,
        /// Encoded request.
        message: Bytes,
    },
    /// Streams wait until the source has confirmed that the server is up to date
    /// ([`Confirmation::EachStream`](crate::server::Confirmation)): read the newest revision of the
    /// source, and call [`source_confirmed`](crate::server::Server::source_confirmed). After each
    /// failed attempt, call
    /// [`source_confirmation_failed`](crate::server::Server::source_confirmation_failed) and try
    /// again. The event is not repeated before it is answered.
    ConfirmSource,
    /// The view was dropped with its resources because it had no client for
    /// [`ServerConfig::idle_view_timeout`](crate::server::ServerConfig::idle_view_timeout).
    // M221
    ViewDropped(ViewName),
}
