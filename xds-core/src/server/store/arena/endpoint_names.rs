//! Which endpoints a cluster names.

use alloc::{boxed::Box, vec::Vec};

use super::Arena;
use crate::{
    references::{ReferenceExtractor, Source, Target},
    slab::Slot,
    text::ResourceName,
    types,
};

/// The endpoints that a cluster needs of this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nobody has looked.
    #[default]
    Unknown,
    Nothing,
    /// Those of its own name.
    Namesakes,
    Names(Box<[ResourceName]>),
}

impl Needs {
    fn of(cluster: &[u8], name: &str, references: &dyn ReferenceExtractor) -> Self {
        let mut names: Vec<ResourceName> = Vec::new();
        // Of one that is malformed what was found up to there is as good as any.
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

    /// Their names; `name` is that of the cluster.
    pub(crate) fn names<'a>(&'a self, name: &'a ResourceName) -> &'a [ResourceName] {
        match self {
            Self::Unknown => &[],
            _ => self.names_to_warm(name),
        }
    }

    /// Those that a client may wait for once it has the cluster (M151). Most have the name of their
    /// cluster.
    pub(crate) fn names_to_warm<'a>(&'a self, name: &'a ResourceName) -> &'a [ResourceName] {
        match self {
            Self::Nothing => &[],
            Self::Unknown | Self::Namesakes => core::slice::from_ref(name),
            Self::Names(names) => names,
        }
    }
}

impl Arena {
    /// Notes which endpoints the cluster in a slot needs.
    pub(crate) fn note_needs(&mut self, slot: Slot, references: &dyn ReferenceExtractor) {
        let Some(resource) = self.at_mut(slot) else { return };
        let needs = resource
            .payload
            .as_ref()
            .map(|payload| Needs::of(&payload.value, resource.name.as_str(), references));
        resource.needs = needs.unwrap_or_default();
    }
}
