//! The last accepted version of a type, and the requests that may state it.
//!
//! A server reads the version in the first request of a subscription as a statement of what the client holds, and may
//! send nothing if it has nothing newer. A request therefore states the version only if the client holds all that the
//! server would take it to hold. [`Accepted::state`] is the one place where that is decided:
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
//! No version is stated on a stream by a request that begins a subscription of which nothing is held, nor in a poll by
//! one that asks for something new that is not held.
//!
//! The answer to a response on a stream is no statement of that kind: an ACK states the version of the response, and a
//! NACK the version accepted before.

use super::type_state::Machine;
use crate::{
    client::{cache::Cache, subscription::TypeInterest},
    text::Version,
};

/// The version of a type that was last accepted from a server; empty if there is none to state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accepted {
    version: Version,
    state: AcceptedVersion,
}

/// Whether the client holds what a server takes an accepted version to stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AcceptedVersion {
    /// No version was accepted since a request stated none.
    #[default]
    None,
    /// All of it is held.
    Clean(Extent),
    /// A later response was rejected: something of it may be in use, or the use of something may have ended. The
    /// server may by now be back at the accepted version.
    Partial,
    /// Another server or an expired TTL changed what is held, possibly before a version was accepted.
    Stale,
}

/// What is subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything of the type, whether or not also names. A version was accepted for that if its stream began with the
    /// wildcard.
    Everything,
    Names,
}

/// What decides whether a request may state the accepted version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asks {
    pub(crate) over: Over,
    pub(crate) step: Step,
    pub(crate) of: Extent,
    pub(crate) held: NewlyAsked,
}

/// What a request goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Stream,
    /// A server that is polled knows nothing of the client but what the request says.
    Poll,
}

/// What a request does to the subscription that its stream, or its series of polls, has had so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is none: the stream is new, or all that was subscribed has ended.
    Begins,
    /// Some of it stays.
    Continues,
}

/// How much is held of what a request is the first to ask for.
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

    /// Accepts a response. It need not contain what another server or a TTL changed before, so it leaves a stale
    /// version stale.
    pub(crate) fn accept(&mut self, version: Version, of: Extent) {
        self.version = version;
        if self.state != AcceptedVersion::Stale {
            self.state = AcceptedVersion::Clean(of);
        }
    }

    /// Accepts a response with everything that is asked for, whatever happened before.
    pub(crate) fn accept_all(&mut self, version: Version, of: Extent) {
        *self = Self { version, state: AcceptedVersion::Clean(of) };
    }

    /// Rejects a response.
    pub(crate) fn reject(&mut self) {
        if let AcceptedVersion::Clean(_) = self.state {
            self.state = AcceptedVersion::Partial;
        }
    }

    /// Accepts a response that has only heartbeats, and so does not say what its version stands for.
    pub(crate) fn renew(&mut self, version: Version) {
        if self.version != version {
            *self = Self { version, state: AcceptedVersion::Stale };
        }
    }

    /// Forgets the version. The next one that is accepted stands for as much as if there had been none.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn outdate(&mut self) {
        self.state = AcceptedVersion::Stale;
    }

    /// Nobody asks for everything any more, so that not everything is held.
    pub(crate) fn end_of_wildcard(&mut self) {
        if let AcceptedVersion::Clean(of) = &mut self.state {
            *of = Extent::Names;
        }
    }

    /// The version that a request states. One that it may not state is forgotten.
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
    /// What the next request of a type asks for, given what the server has been told (`machine`) and is asked for
    /// (`scope`, by authority).
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
            // Whether it holds all can only be told by how the version was accepted.
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
