//! Last accepted version of a type, and the requests that may state it.
//!
//! A server reads the version in the first request of a subscription as a statement of what the
//! client holds, and may send nothing if it has nothing newer. A request therefore states the
//! version only if the client holds all resources that the server would conclude from it.
//! [`Accepted::state`] is the only place where that is decided:
//!
//! | request | clean, of everything | clean, of names | partial | stale |
//! |---|---|---|---|---|
//! | continues a subscription on a stream | stated | stated | stated | stated |
//! | begins one by names on a stream | stated | stated | stated | none |
//! | begins one by a wildcard on a stream | stated | none | none | none |
//! | continues a subscription of a poll | stated | stated | stated | none |
//! | begins one by names in a poll | stated | stated | none | none |
//! | begins one by a wildcard in a poll | stated | none | none | none |
//!
//! No version is stated on a stream if the request begins a subscription and no newly requested
//! resource is held, nor in a poll if any newly requested resource is not held.
//!
//! The ACK or NACK of a response on a stream follows other rules: an ACK states the version of the
//! response, and a NACK the version accepted before.

use super::type_state::Machine;
use crate::{
    client::{cache::Cache, subscription::TypeInterest},
    text::Version,
};

/// Last accepted version of a type from a server; empty if there is none to state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accepted {
    version: Version,
    state: AcceptedVersion,
}

/// Extent to which the client holds the contents of an accepted version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AcceptedVersion {
    /// No version was accepted since a request stated none.
    #[default]
    None,
    /// All of it is held.
    Clean(Extent),
    /// A later response was rejected: some of its resources may be in use, or the use of others may
    /// have ended. The server may have returned to the accepted version.
    Partial,
    /// Resources were changed by another server or an expired TTL, possibly before a version was
    /// accepted.
    Stale,
}

/// Scope of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All resources of the type, possibly with additional names. A version was accepted for this
    /// scope if its stream began with the wildcard.
    Everything,
    Names,
}

/// Conditions under which a request may state the accepted version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asks {
    pub(crate) over: Over,
    pub(crate) step: Step,
    pub(crate) of: Extent,
    pub(crate) held: NewlyAsked,
}

/// Transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Stream,
    /// Polling. The server knows nothing of the client but the contents of the request.
    Poll,
}

/// Effect of a request on the existing subscription of its stream or series of polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Starts a subscription: the stream is new, or the previous subscription has ended completely.
    Begins,
    /// Keeps part of the subscription.
    Continues,
}

/// Amount of cached resources among the newly subscribed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewlyAsked {
    Held,
    PartlyHeld,
    Missing,
}

impl Accepted {
    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// Accepts a response. A stale version stays stale, because the response need not contain the
    /// resources that another server or a TTL changed before.
    pub(crate) fn accept(&mut self, version: Version, of: Extent) {
        self.version = version;
        if self.state != AcceptedVersion::Stale {
            self.state = AcceptedVersion::Clean(of);
        }
    }

    /// Accepts the response to a request for everything, regardless of what happened before.
    pub(crate) fn accept_all(&mut self, version: Version, of: Extent) {
        *self = Self { version, state: AcceptedVersion::Clean(of) };
    }

    /// Rejects a response.
    pub(crate) fn reject(&mut self) {
        if let AcceptedVersion::Clean(_) = self.state {
            self.state = AcceptedVersion::Partial;
        }
    }

    /// Accepts a response that consists of heartbeats and thus does not define its version.
    pub(crate) fn renew(&mut self, version: Version) {
        if self.version != version {
            *self = Self { version, state: AcceptedVersion::Stale };
        }
    }

    /// Forgets the version. The next accepted one counts as if there had been none before.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn outdate(&mut self) {
        self.state = AcceptedVersion::Stale;
    }

    /// Notes that no wildcard is subscribed any more, so not all resources are held.
    pub(crate) fn end_of_wildcard(&mut self) {
        if let AcceptedVersion::Clean(of) = &mut self.state {
            *of = Extent::Names;
        }
    }

    /// Returns the version that a request states. Forgets a version that it may not state.
    pub(crate) fn state(&mut self, asks: Asks) -> Version {
        if !self.may_be_stated(asks) {
            self.forget();
        }
        self.version.clone()
    }

    fn may_be_stated(&self, Asks { over, step, of, held }: Asks) -> bool {
        use AcceptedVersion::{Clean, None, Partial, Stale};
        let is_held = match (over, step) {
            (Over::Stream, Step::Continues) => return true,
            (Over::Stream, Step::Begins) => held != NewlyAsked::Missing, // UN-04.
            (Over::Poll, _) => held == NewlyAsked::Held,
        };
        let covers = match (self.state, step) {
            (Stale, _) => false,
            (None | Clean(_) | Partial, Step::Continues) => true,
            (None | Clean(Extent::Everything), Step::Begins) => true,
            (Clean(Extent::Names), Step::Begins) => of == Extent::Names,
            (Partial, Step::Begins) => of == Extent::Names && over == Over::Stream,
        };
        is_held && covers
    }
}

impl Asks {
    /// Determines the conditions for the next request of a type, given the subscriptions sent on
    /// the channel (`machine`) and the authorities that use the server (`scope`).
    pub(crate) fn of(
        over: Over,
        machine: &Machine,
        interest: &TypeInterest,
        scope: &[bool],
        cache: &Cache,
    ) -> Self {
        let wants_wildcard = interest.wants_wildcard_in(scope);
        let had_wildcard = machine.has_wildcard();
        let wanted = || interest.subscriptions.iter().filter(|(_, it)| it.is_wanted_in(scope));
        let continues = !interest.is_wanted_in(scope)
            || wants_wildcard && had_wildcard
            || wanted().any(|(slot, _)| machine.sent().has(slot));
        let step = if continues { Step::Continues } else { Step::Begins };
        let of = if wants_wildcard { Extent::Everything } else { Extent::Names };
        let mut asks = Self { over, step, of, held: NewlyAsked::Held };
        if over == Over::Stream && step == Step::Continues {
            return asks; // The version is stated in any case.
        }
        let (mut holds, mut lacks) = (false, false);
        if wants_wildcard && !had_wildcard {
            // How the version was accepted decides whether everything is held.
            holds = cache.iter().any(|(_, entry)| !entry.is_foreign && entry.bytes.is_some());
            lacks = !holds || continues;
        }
        for (_, subscription) in wanted().filter(|(slot, _)| !machine.sent().has(*slot)) {
            let Some(entry) = cache.get(subscription.entry) else { continue };
            holds |= entry.bytes.is_some();
            lacks |= entry.bytes.is_none();
        }
        asks.held = match (holds, lacks) {
            (_, false) => NewlyAsked::Held,
            (true, true) => NewlyAsked::PartlyHeld,
            (false, true) => NewlyAsked::Missing,
        };
        asks
    }
}
