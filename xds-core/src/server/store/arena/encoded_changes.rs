//! Response bodies shared by clients at the same revision.

use alloc::{collections::VecDeque, sync::Arc, vec::Vec};

use super::{Arena, changes_since::ResumePoint, past::SentRemovals};
use crate::{
    server::store::{
        encode::body::{BodyBuilder, Encoding, FitResult, Payload, ResponseBody, Ttls},
        revision::Revision,
        version::content::{ContentHash, TypeVersion},
    },
    service::Variant,
    text::ResourceName,
    wire::request::NameForm,
};

/// Resources of one response in the order of their names, kept to find out which of them a client
/// rejects. In full state, wildcard clients share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceSet(Arc<[(ResourceName, Payload)]>);

impl ResourceSet {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(ResourceName, Payload)> {
        self.0.iter()
    }

    pub(crate) fn get(&self, name: &ResourceName) -> Option<&Payload> {
        let found = self.0.binary_search_by(|(other, _)| other.cmp(name)).ok()?;
        self.0.get(found).map(|(_, payload)| payload)
    }

    /// Whether it contains a resource in this version.
    pub(crate) fn has(&self, name: &ResourceName, hash: ContentHash) -> bool {
        self.get(name).is_some_and(|payload| payload.hash == hash)
    }
}

impl FromIterator<(ResourceName, Payload)> for ResourceSet {
    fn from_iter<T: IntoIterator<Item = (ResourceName, Payload)>>(resources: T) -> Self {
        let mut resources: Vec<_> = resources.into_iter().collect();
        resources.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self(resources.into())
    }
}

/// Maximum number of tails kept for other clients. Their total size is limited to that of all
/// resources in both variants, which is enough for clients of both to catch up from the start one
/// after the other.
const MAX_ENCODED_CHANGES: usize = 64;

/// Encoded changes after a revision, as many as fit one response.
#[derive(Clone, Debug)]
pub(crate) struct EncodedChanges {
    pub(crate) encoding: Encoding,
    from: Revision,
    /// Removals of which the clients were informed, if they are sent removals.
    sent_removals: Option<SentRemovals>,
    /// Size limit in bytes.
    limit: usize,
    /// Revision that the body reaches.
    pub(crate) to: Revision,
    /// Revision that the removals reach, if they do not all fit. The body then has nothing else.
    pub(crate) partial_to: Option<Revision>,
    pub(crate) body: ResponseBody,
}

impl Arena {
    /// Returns all resources in the order of their creation, then these removed ones. `version` is
    /// that of all of them together. Clients that need the same ones share the body, which is built
    /// once per change; only the newest one with removed resources is kept.
    // M84, M222
    pub(crate) fn full_body(
        &mut self,
        removed: &[(ResourceName, Payload)],
        version: TypeVersion,
        ttls: Ttls,
    ) -> ResponseBody {
        let mut kept = self.full_bodies.iter();
        if let Some((.., body)) = kept.find(|it| (it.0, it.1) == (version, ttls)) {
            return body.clone();
        }
        let mut parts = if removed.is_empty() {
            self.all_resources(ttls)
        } else {
            let more = removed.iter().map(|(_, payload)| payload.framed.len()).sum();
            BodyBuilder::from_body(&self.full_body(&[], self.version, ttls), ttls, more)
        };
        for (name, payload) in removed {
            parts.push(name, payload);
        }
        let body = parts.into_body();
        self.full_bodies.retain(|(kept, ..)| *kept == self.version);
        self.full_bodies.push((version, ttls, body.clone()));
        body
    }

    fn all_resources(&self, ttls: Ttls) -> BodyBuilder {
        let encoding = Encoding { variant: Variant::StateOfTheWorld, ttls };
        let mut parts = BodyBuilder::with_capacity(encoding, self.framed_bytes);
        for (_, resource) in self.resources.in_slot_order() {
            if let Some(payload) = &resource.payload {
                parts.push(&resource.name, payload);
            }
        }
        parts
    }

    /// Returns all resources and these removed ones, as kept for clients that may reject them. `version`
    /// is that of all of them together. Clients share the set as they share a
    /// [body](Self::full_body).
    pub(crate) fn resource_set_with(
        &mut self,
        removed: Vec<(ResourceName, Payload)>,
        version: TypeVersion,
    ) -> ResourceSet {
        if let Some((_, set)) = self.resource_sets.iter().find(|(kept, _)| *kept == version) {
            return set.clone();
        }
        let set: ResourceSet = if removed.is_empty() {
            let resources = self.resources.in_slot_order().map(|(_, resource)| resource);
            resources.filter_map(|it| Some((it.name.clone(), it.payload.clone()?))).collect()
        } else {
            self.resource_set().iter().cloned().chain(removed).collect()
        };
        self.resource_sets.retain(|(kept, _)| *kept == self.version);
        self.resource_sets.push((version, set.clone()));
        set
    }

    /// Returns all resources, as kept for clients that may reject them.
    pub(crate) fn resource_set(&mut self) -> ResourceSet {
        self.resource_set_with(Vec::new(), self.version)
    }

    /// Returns the removals after `sent_removals`, if any, and the resources changed after `from`,
    /// oldest first. The body has at most `limit` bytes, but at least one name or resource. Clients
    /// that lack the same changes share the bytes.
    pub(crate) fn changes_body(
        &mut self,
        encoding: Encoding,
        from: Revision,
        sent_removals: Option<SentRemovals>,
        limit: usize,
    ) -> EncodedChanges {
        let key = (encoding, from, sent_removals, limit);
        let known =
            |it: &&EncodedChanges| (it.encoding, it.from, it.sent_removals, it.limit) == key;
        if let Some(changes) = self.encoded_changes.iter().rev().find(known) {
            return changes.clone();
        }
        let mut parts = BodyBuilder::new(encoding, limit);
        let removals = sent_removals.into_iter().flat_map(|it| self.pending_removals(it, from));
        let left = removals
            .map(|(_, removed)| removed)
            .find(|removed| parts.remove(&removed.name, NameForm::Names) == FitResult::Full);
        let partial_to = left.map(|left| left.revision.before());
        let to = match partial_to {
            Some(_) => from,
            None => self.gather(from, &mut parts),
        };
        let changes = EncodedChanges {
            encoding,
            from,
            sent_removals,
            limit,
            to,
            partial_to,
            body: parts.into_body(),
        };
        self.encoded_changes.push_back(changes.clone());
        let bytes = |encoded_changes: &VecDeque<EncodedChanges>| {
            encoded_changes.iter().map(|t| t.body.bytes.len()).sum::<usize>()
        };
        let enough = (self.framed_bytes + self.entry_bytes).max(1 << 10);
        while self.encoded_changes.len() > MAX_ENCODED_CHANGES
            || bytes(&self.encoded_changes) > enough
        {
            self.encoded_changes.pop_front();
        }
        changes
    }

    /// Adds the resources changed after `from`, as many as fit. Returns the revision reached.
    fn gather(&mut self, from: Revision, parts: &mut BodyBuilder) -> Revision {
        let mut to = from;
        let mut slot = self.first_after(from);
        while let Some(resource) = self.at(slot) {
            if let Some(payload) = &resource.payload
                && parts.push(&resource.name, payload) == FitResult::Full
            {
                self.resume_point = ResumePoint { at: to, next: slot };
                return to;
            }
            to = resource.revision;
            slot = self.resources.next(slot);
        }
        self.revision
    }
}
