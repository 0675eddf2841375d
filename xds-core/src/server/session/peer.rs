//! Peer of a session: its stream, view and client features.

use super::{Staging, client_features::Features};
use crate::{id::StreamId, server::event::Visit, service::Variant, slab::Slot};

/// Peer of a new session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) stream: StreamId,
    pub(crate) view: Slot,
    pub(crate) variant: Variant,
    pub(crate) visit: Visit,
    pub(crate) features: Features,
    pub(crate) staging: Staging,
}
