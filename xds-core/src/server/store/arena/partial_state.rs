//! Hashes of the contents of a type with and without single resources.

use alloc::sync::Arc;

use crate::{server::store::encode::body::Payload, text::ResourceName};

/// All resources of one response; in full state, clients of everything share it.
pub(crate) type State = Arc<[(ResourceName, Payload)]>;
