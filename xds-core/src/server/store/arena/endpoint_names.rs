//! Names of the endpoints that a cluster references.

use alloc::{boxed::Box, vec::Vec};

use super::Arena;
use crate::{
    references::{ConfigSource, ReferenceExtractor, ReferenceTarget},
    slab::Slot,
    text::ResourceName,
    types,
};

/// Endpoints from this server that a cluster references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum EndpointNames {
    /// The cluster has not been examined.
    #[default]
    Unknown,
    None,
    /// The endpoints have the cluster's own name.
    SameName,
    Names(Box<[ResourceName]>),
}

impl EndpointNames {
    fn of(cluster: &[u8], name: &str, references: &dyn ReferenceExtractor) -> Self {
        let mut names: Vec<ResourceName> = Vec::new();
        // For a malformed cluster, the references found so far are used.
        let _ = references.references(types::CLUSTER, cluster, &mut |reference| {
            if let ReferenceTarget::Name(name) = reference.target
                && reference.type_url == types::CLUSTER_LOAD_ASSIGNMENT
                && reference.source != ConfigSource::Api
            {
                names.push(name.into());
            }
        });
        match names.as_slice() {
            [] => Self::None,
            [one] if *one == *name => Self::SameName,
            _ => Self::Names(names.into()),
        }
    }

    /// Returns the names of the endpoints. `name` is that of the cluster.
    pub(crate) fn names<'a>(&'a self, name: &'a ResourceName) -> &'a [ResourceName] {
        match self {
            Self::Unknown => &[],
            _ => self.names_to_warm(name),
        }
    }

    /// Returns the names of the endpoints that a client may wait for once it has the cluster.
    /// Most are named like their cluster.
    // M151
    pub(crate) fn names_to_warm<'a>(&'a self, name: &'a ResourceName) -> &'a [ResourceName] {
        match self {
            Self::None => &[],
            Self::Unknown | Self::SameName => core::slice::from_ref(name),
            Self::Names(names) => names,
        }
    }
}

impl Arena {
    /// Determines which endpoints the cluster in a slot references.
    pub(crate) fn note_endpoint_names(&mut self, slot: Slot, references: &dyn ReferenceExtractor) {
        let Some(resource) = self.at_mut(slot) else { return };
        let endpoint_names = resource
            .payload
            .as_ref()
            .map(|payload| EndpointNames::of(&payload.value, resource.name.as_str(), references));
        resource.endpoint_names = endpoint_names.unwrap_or_default();
    }
}
