//! Number of names that the server holds for clients: by session, by connection, and in total.
//!
//! Names are counted in [units](name_units): a long name counts as several.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use super::{Session, context::SessionContext, subscription::SubscriptionKind};
use crate::{
    id::StreamId,
    server::event::Connection,
    slab::{Key, Slab, Slot},
    text::name_units,
};

/// Names held for all connections.
#[derive(Debug, Default)]
pub(crate) struct NameUsage {
    accounts: Slab<Account>,
    by_connection: BTreeMap<u64, Slot>,
    /// Account of each stream, by the slot of the stream.
    by_stream: Vec<Slot>,
    total: usize,
}

/// Names held for the streams of one connection.
#[derive(Debug)]
pub(crate) struct Account {
    /// Connection; `None` for a stream that has none.
    connection: Option<Connection>,
    streams: u32,
    pub(crate) usage: NameUnits,
}

impl Account {
    /// Authenticated identity of the client; empty if there is none.
    pub(crate) fn principal(&self) -> Option<&Arc<str>> {
        self.connection.as_ref().map(|connection| &connection.principal)
    }
}

/// Number of names, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameUnits {
    /// Subscribed names.
    pub(crate) named: u32,
    /// Names retained for other reasons, and unfinished requests.
    pub(crate) retained: u32,
}

impl NameUnits {
    /// Returns the units of a subscription of this kind to a name of this length.
    pub(crate) fn of(kind: SubscriptionKind, bytes: usize) -> Self {
        let units = u32::try_from(name_units(bytes)).unwrap_or(u32::MAX);
        match kind {
            SubscriptionKind::Named => Self { named: units, retained: 0 },
            SubscriptionKind::Retained => Self { named: 0, retained: units },
            // The client does not choose their number.
            SubscriptionKind::ViaGlobOrAlias | SubscriptionKind::DeferredRemoval => Self::default(),
        }
    }

    /// Returns the units of a request of this length that is not handled yet.
    pub(crate) fn of_request(bytes: usize) -> Self {
        Self { named: 0, retained: u32::try_from(name_units(bytes)).unwrap_or(u32::MAX) }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.named += other.named;
        self.retained += other.retained;
    }

    pub(crate) fn subtract(&mut self, other: Self) {
        self.named -= other.named;
        self.retained -= other.retained;
    }

    /// Returns the units of one name other than the first.
    pub(crate) fn surplus(self) -> Self {
        Self { named: self.named.saturating_sub(1), retained: self.retained.saturating_sub(1) }
    }

    /// Number of units in total.
    pub(crate) fn held(self) -> usize {
        self.named as usize + self.retained as usize
    }
}

impl NameUsage {
    /// Opens the account of a new stream.
    pub(crate) fn join(&mut self, stream: StreamId, connection: Option<&Connection>) {
        let id = connection.map(|connection| connection.id);
        let known = id.and_then(|id| self.by_connection.get(&id)).copied();
        let account = known.unwrap_or_else(|| {
            let (connection, usage) = (connection.cloned(), NameUnits::default());
            let account = Account { connection, streams: 0, usage };
            let account = self.accounts.push_back(account).map_or(Slot::NONE, Key::slot);
            id.map(|id| self.by_connection.insert(id, account));
            account
        });
        if let Some(state) = self.accounts.at_mut(account) {
            state.streams += 1;
        }
        let index = stream.0.slot().index();
        if self.by_stream.len() <= index {
            self.by_stream.resize(index + 1, Slot::NONE);
        }
        if let Some(entry) = self.by_stream.get_mut(index) {
            *entry = account;
        }
    }

    /// Ends a stream, whose names were subtracted.
    pub(crate) fn leave(&mut self, stream: StreamId) {
        let account = self.account_of(stream);
        let Some(state) = self.accounts.at_mut(account) else { return };
        state.streams -= 1;
        if state.streams == 0
            && let Some(removed) = self.accounts.remove(account)
        {
            self.total -= removed.usage.held();
            removed.connection.map(|connection| self.by_connection.remove(&connection.id));
        }
        if let Some(entry) = self.by_stream.get_mut(stream.0.slot().index()) {
            *entry = Slot::NONE;
        }
    }

    /// Returns the account of a stream.
    pub(crate) fn account_of(&self, stream: StreamId) -> Slot {
        self.by_stream.get(stream.0.slot().index()).copied().unwrap_or(Slot::NONE)
    }

    /// Returns the names held for the connection of a stream.
    pub(crate) fn of(&self, stream: StreamId) -> Option<&Account> {
        self.accounts.at(self.account_of(stream))
    }

    /// Adds names of a stream. Without effect if it is closed.
    pub(crate) fn add(&mut self, stream: StreamId, units: NameUnits) {
        let account = self.account_of(stream);
        if let Some(state) = self.accounts.at_mut(account) {
            state.usage.add(units);
            self.total += units.held();
        }
    }

    /// Subtracts names of a stream. Without effect if it is closed.
    pub(crate) fn subtract(&mut self, stream: StreamId, units: NameUnits) {
        let account = self.account_of(stream);
        if let Some(state) = self.accounts.at_mut(account) {
            state.usage.subtract(units);
            self.total -= units.held();
        }
    }

    /// Names held in total.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns the account that holds the most names, of equals the newest, if any holds names.
    pub(crate) fn heaviest(&self) -> Option<Slot> {
        let used = self.accounts.iter().filter(|(_, account)| account.usage.held() > 0);
        used.max_by_key(|(_, account)| account.usage.held()).map(|(slot, _)| slot)
    }
}

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

    fn units_of(&self, kind: SubscriptionKind, resource: Slot) -> NameUnits {
        let name = self.arena.at(resource).map(|resource| &resource.name);
        name.map_or_else(NameUnits::default, |name| NameUnits::of(kind, name.as_str().len()))
    }
}

#[cfg(test)]
mod tests {
    use crate::server::session::name_usage::*;

    fn named(named: u32) -> NameUnits {
        NameUnits { named, retained: 0 }
    }

    #[test]
    fn streams_of_one_connection_share_an_account() {
        let mut slab = Slab::default();
        let [one, two, three, four, five] = [(); 5].map(|()| StreamId(slab.push_back(()).unwrap()));
        let mut usage = NameUsage::default();
        let [first, second] = [1, 2].map(Connection::new);
        usage.join(one, Some(&first));
        usage.join(two, Some(&second));
        usage.join(three, Some(&first));
        assert_eq!(usage.account_of(one), usage.account_of(three));
        assert_ne!(usage.account_of(one), usage.account_of(two));
        usage.join(four, None);
        usage.join(five, None);
        assert_ne!(usage.account_of(four), usage.account_of(five), "each is alone");
        usage.add(one, named(3));
        usage.add(two, NameUnits { named: 1, retained: 2 });
        assert_eq!(usage.total(), 6);
        assert_eq!(usage.heaviest(), Some(usage.account_of(two)), "of equals the newest");
        usage.add(three, named(1));
        assert_eq!(usage.heaviest(), Some(usage.account_of(one)));
        usage.subtract(one, named(3));
        usage.leave(one);
        assert_eq!(usage.of(three).unwrap().usage, named(1));
        usage.add(one, named(1));
        assert_eq!(usage.total(), 4, "the stream is closed");
        usage.leave(three);
        assert_eq!((usage.total(), usage.heaviest()), (3, Some(usage.account_of(two))));
        usage.join(one, Some(&first));
        assert_eq!(usage.of(one).unwrap().usage, named(0), "a new connection with this number");
        usage.leave(two);
        assert_eq!((usage.total(), usage.heaviest()), (0, None));
    }

    #[test]
    fn long_name_counts_once_per_256_bytes() {
        let units = |bytes| NameUnits::of(SubscriptionKind::Named, bytes);
        assert_eq!([0, 1, 256, 257, 2_048].map(units), [1, 1, 1, 2, 8].map(named));
        assert_eq!([1, 257].map(|bytes| units(bytes).surplus()), [0, 1].map(named));
    }
}
