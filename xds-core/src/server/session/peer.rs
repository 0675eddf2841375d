//! Peer of a session: its stream, view and client features.

use super::{SendOrder, client_features::ClientFeatures};
use crate::{id::StreamId, server::event::StreamLifetime, service::Variant, slab::Slot};

/// Peer of a new session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) stream: StreamId,
    pub(crate) view: Slot,
    pub(crate) variant: Variant,
    pub(crate) lifetime: StreamLifetime,
    pub(crate) features: ClientFeatures,
    pub(crate) send_order: SendOrder,
}
