//! Aliases of resources.
//!
//! An alias is a name like any other, and a client that subscribes to it has a subscription to
//! that name. This index has the resources of each alias, to find the one to which the alias
//! refers and the subscriptions affected by a change.
// X06, M136, M137

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::Arena;
use crate::{slab::Slot, text::ResourceName};

/// Resources by alias, for one type.
#[derive(Debug, Default)]
pub(crate) struct AliasIndex {
    /// Resources with an alias, by their names. The alias refers to the first one, which is the
    /// same on every replica.
    resources: BTreeMap<ResourceName, BTreeMap<ResourceName, Slot>>,
    /// Subscribed names that refer to another resource since the last change, and resources that
    /// have lost a name to which a client may subscribe.
    changed: Vec<Slot>,
}

impl AliasIndex {
    fn target(&self, alias: &str) -> Option<Slot> {
        self.resources.get(alias)?.first_key_value().map(|(_, &resource)| resource)
    }

    fn add(&mut self, alias: &ResourceName, name: &ResourceName, resource: Slot) {
        self.resources.entry(alias.clone()).or_default().insert(name.clone(), resource);
    }

    fn remove(&mut self, alias: &ResourceName, name: &ResourceName) {
        let Some(resources) = self.resources.get_mut(alias) else { return };
        resources.remove(name);
        if resources.is_empty() {
            self.resources.remove(alias);
        }
    }
}

impl Arena {
    /// Whether any resource has an alias.
    pub(crate) fn has_aliases(&self) -> bool {
        !self.alias_index.resources.is_empty()
    }

    /// Returns the resource with the alias. If there are several, returns the first by name.
    pub(crate) fn by_alias(&self, alias: &str) -> Option<Slot> {
        self.alias_index.target(alias)
    }

    /// Returns the resource to which a name refers that has no resource of its own.
    pub(crate) fn alias_target(&self, name: Slot) -> Option<Slot> {
        if !self.has_aliases() {
            return None;
        }
        let name = self.at(name).filter(|name| name.payload.is_none())?;
        self.by_alias(name.name.as_str())
    }

    /// Returns the subscribed aliases that refer to this resource.
    pub(crate) fn subscribed_aliases(&self, resource: Slot) -> impl Iterator<Item = Slot> {
        let options = self.payload(resource).map(|payload| payload.options());
        let aliases = options.into_iter().flat_map(|options| &options.aliases);
        let held = aliases.filter_map(|alias| self.find(alias.as_str()));
        held.filter(move |&name| self.alias_target(name) == Some(resource))
    }

    /// Replaces the aliases of a resource. Takes time proportional to their number.
    pub(crate) fn index_aliases(
        &mut self,
        (name, resource): (&ResourceName, Slot),
        before: &[ResourceName],
        now: &[ResourceName],
    ) {
        if before.is_empty() && now.is_empty() {
            return;
        }
        let (before, now): (BTreeSet<_>, BTreeSet<_>) =
            (before.iter().collect(), now.iter().collect());
        for &alias in before.symmetric_difference(&now) {
            let target_before = self.by_alias(alias.as_str());
            match now.contains(alias) {
                true => self.alias_index.add(alias, name, resource),
                false => self.alias_index.remove(alias, name),
            }
            let target_now = self.by_alias(alias.as_str());
            if target_before == target_now {
                continue;
            }
            let Some(slot) = self.find(alias.as_str()) else { continue };
            if self.payload(slot).is_none() {
                if target_now.is_some()
                    && let Some(alias) = self.at_mut(slot)
                {
                    alias.answer();
                }
                self.note_changed(slot);
                target_before.into_iter().for_each(|resource| self.note_changed(resource));
            }
        }
    }

    /// Updates the index after a resource with this name was created, which takes precedence over
    /// an alias, or was removed.
    pub(crate) fn index_name(&mut self, name: &ResourceName) {
        let Some(target_now) = self.by_alias(name.as_str()) else { return };
        if let Some(slot) = self.find(name.as_str()) {
            self.note_changed(slot);
            self.note_changed(target_now);
        }
    }

    fn note_changed(&mut self, slot: Slot) {
        if self.at(slot).is_some_and(|it| !it.subscribers.is_empty()) {
            self.alias_index.changed.push(slot);
        }
    }

    /// Takes the names and resources affected by the last change.
    pub(crate) fn take_changed_aliases(&mut self) -> Vec<Slot> {
        core::mem::take(&mut self.alias_index.changed)
    }
}
