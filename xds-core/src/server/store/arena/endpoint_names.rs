//! Names of the endpoints that a cluster references.

use alloc::{boxed::Box, vec::Vec};

use super::Arena;
use crate::{
    references::{ReferenceExtractor, Source, Target},
    slab::Slot,
    text::ResourceName,
    types,
};

/// Endpoints from this server that a cluster references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Needs {
    /// The cluster has not been examined.
    #[default]
    Unknown,
    Nothing,
    /// The endpoints have the cluster's own name.
    Namesakes,
    Names(Box<[ResourceName]>),
}

impl Needs {
    fn of(cluster: &[u8], name: &str, references: &dyn ReferenceExtractor) -> Self {
        let mut names: Vec<ResourceName> = Vec::new();
        // For a malformed cluster, the references found so far are used.
        let _ = references.references(types::CLUSTER, cluster, &mut |reference| {
            if let Target::Name(name) = reference.target
                && reference.type_url == types::CLUSTER_LOAD_ASSIGNMENT
                && reference.source != Source::Api
            {
                names.push(name.into());
            }
        });
        match names.as_slice() {
            [] => Self::Nothing,
            [one] if *one == *name => Self::Namesakes,
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
            Self::Nothing => &[],
            Self::Unknown | Self::Namesakes => core::slice::from_ref(name),
            Self::Names(names) => names,
        }
    }
}

impl Arena {
    /// Determines which endpoints the cluster in a slot references.
    pub(crate) fn note_needs(&mut self, slot: Slot, references: &dyn ReferenceExtractor) {
        let Some(resource) = self.at_mut(slot) else { return };
        let needs = resource
            .payload
            .as_ref()
            .map(|payload| Needs::of(&payload.value, resource.name.as_str(), references));
        resource.needs = needs.unwrap_or_default();
    }
}
