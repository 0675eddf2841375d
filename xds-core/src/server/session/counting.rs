//! Counts of a session's names, also those of its connection.

use super::{
    Session, context::SessionContext, name_usage::NameUnits, subscription::SubscriptionKind,
};
use crate::slab::Slot;

impl Session {
    /// Number of the session's names, in units.
    pub(crate) fn units(&self) -> NameUnits {
        let mut units = NameUnits { named: self.named, retained: self.retained };
        if let Some(extras) = self.extras.as_deref() {
            units.add(extras.surplus);
        }
        units
    }
}

impl SessionContext<'_> {
    /// Counts a subscription to a resource.
    pub(crate) fn count(&mut self, kind: SubscriptionKind, resource: Slot) {
        if let Some(count) = self.session.count_of(kind) {
            *count += 1;
        }
        let units = self.units_of(kind, resource);
        self.usage.add(self.session.stream, units);
        let surplus = units.surplus();
        if surplus != NameUnits::default() {
            self.session.extras_mut().surplus.add(surplus);
        }
    }

    /// Reverts [`count`](Self::count).
    pub(crate) fn uncount(&mut self, kind: SubscriptionKind, resource: Slot) {
        if let Some(count) = self.session.count_of(kind) {
            *count -= 1;
        }
        let units = self.units_of(kind, resource);
        self.usage.subtract(self.session.stream, units);
        let surplus = units.surplus();
        if surplus != NameUnits::default() {
            self.session.update_extras(|extras| extras.surplus.subtract(surplus));
        }
    }

    fn units_of(&mut self, kind: SubscriptionKind, resource: Slot) -> NameUnits {
        let name = self.arena.at_mut(resource).map(|resource| &resource.name);
        name.map_or_else(NameUnits::default, |name| NameUnits::of(kind, name.as_str().len()))
    }
}
