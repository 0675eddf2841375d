//! Names of the endpoints that a cluster references.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use super::{Arena, resource::ResourceEntry};
use crate::{
    references::{ConfigSource, ReferenceExtractor, ReferenceTarget},
    server::store::revision::Revision,
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

    /// Whether the cluster may reference endpoints for which `is_one` holds. `name` is that of the
    /// cluster.
    pub(crate) fn may_be_any(
        &self,
        name: &ResourceName,
        is_one: impl Fn(&ResourceName) -> bool,
    ) -> bool {
        *self == Self::Unknown || self.names(name).iter().any(is_one)
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

/// Endpoints that earlier versions of a cluster referenced.
#[derive(Debug, Default)]
pub(crate) struct EarlierEndpoints {
    /// Names that were replaced by others, and the revision at which they were, oldest first.
    replaced: VecDeque<(Revision, EndpointNames)>,
    /// Revision before which the names are unknown.
    known_from: Revision,
}

/// Maximum number of earlier names that are kept of a cluster.
const EARLIER_NAMES: usize = 4;

impl EarlierEndpoints {
    fn push(&mut self, until: Revision, names: EndpointNames) {
        self.replaced.push_back((until, names));
        if self.replaced.len() > EARLIER_NAMES
            && let Some((until, _)) = self.replaced.pop_front()
        {
            self.known_from = until;
        }
    }

    /// Returns the names that were replaced after a revision.
    fn replaced_after(&self, revision: Revision) -> impl Iterator<Item = &EndpointNames> {
        let unknown = (revision < self.known_from).then_some(&EndpointNames::Unknown);
        let replaced = self.replaced.iter().filter(move |(until, _)| *until > revision);
        unknown.into_iter().chain(replaced.map(|(_, names)| names))
    }
}

impl ResourceEntry {
    /// Replaces the endpoints that the cluster references, which it did not before its newest
    /// revision.
    pub(crate) fn set_endpoint_names(&mut self, names: EndpointNames) {
        let old = core::mem::replace(&mut self.endpoint_names, names);
        if old != EndpointNames::Unknown && old != self.endpoint_names {
            self.earlier_endpoints.get_or_insert_default().push(self.revision, old);
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
        resource.set_endpoint_names(endpoint_names.unwrap_or_default());
    }

    /// Returns other endpoints that a cluster referenced at a revision or since.
    pub(crate) fn earlier_endpoints(
        &self,
        slot: Slot,
        since: Revision,
    ) -> impl Iterator<Item = &EndpointNames> {
        let earlier = self.at(slot).and_then(|cluster| cluster.earlier_endpoints.as_deref());
        earlier.into_iter().flat_map(move |earlier| earlier.replaced_after(since))
    }
}
