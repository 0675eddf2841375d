//! Resources of one response, kept to find out which of them a client rejects.

use alloc::sync::Arc;

use crate::{server::store::encode::body::Payload, text::ResourceName};

/// Resources of one response. In full state, wildcard clients share it.
pub(crate) type ResourceSet = Arc<[(ResourceName, Payload)]>;
