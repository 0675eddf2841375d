//! Peer of a session: its stream, its view, and the client features on which the server depends.

use super::SendOrder;
use crate::{
    id::StreamId,
    server::{event::StreamLifetime, store::encode::body::Ttls},
    service::Variant,
    slab::Slot,
    wire::{Malformed, walk::fields},
};

/// Client feature for resource TTLs and heartbeats.
// B09
const RESOURCE_TTL: &[u8] = b"xds.config.supports-resource-ttl";
/// Client features for wrapped resources in the state-of-the-world variant, under both names.
// B08
const RESOURCE_IN_SOTW: [&[u8]; 2] =
    [b"xds.config.resource-in-sotw", b"xds.config.supports-resource-in-sotw"];

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

/// Client features listed in a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientFeatures {
    has_ttls: bool,
    has_wrappers: bool,
}

impl ClientFeatures {
    /// Reads an encoded `Node` that is known to be well-formed.
    pub(crate) fn read(node: &[u8]) -> Result<Self, Malformed> {
        const CLIENT_FEATURES: u32 = 10;

        let mut features = Self::default();
        for field in fields(node, CLIENT_FEATURES) {
            let feature = field.block()?;
            features.has_ttls |= feature == RESOURCE_TTL;
            features.has_wrappers |= RESOURCE_IN_SOTW.contains(&feature);
        }
        Ok(features)
    }

    /// Returns whether the client is sent TTLs. The state-of-the-world variant needs a wrapper
    /// for them.
    // M159, M160, M85
    pub(crate) fn ttls(self, variant: Variant) -> Ttls {
        let has_place = self.has_wrappers || variant == Variant::Incremental;
        if self.has_ttls && has_place { Ttls::Sent } else { Ttls::Omitted }
    }
}
