//! Last accepted version of a type, and the requests that may state it.
//!
//! A server reads the version in the first request of a subscription as a statement of what the
//! client holds, and may send nothing if it has nothing newer. A request therefore states the
//! version only if the client holds all resources that the server would conclude from it.
//! [`AcceptedVersion::version_to_state`] is the only place where that is decided:
//!
//! | request | clean, scope everything | clean, scope names | partial | stale |
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

use super::type_state::TypeState;
use crate::{
    client::{cache::Cache, subscription::TypeInterest},
    text::Version,
};

/// Last accepted version of a type from a server; empty if there is none to state.
#[derive(Clone, Debug, Default)]
pub(crate) struct AcceptedVersion {
    version: Version,
    state: VersionValidity,
}

/// Extent to which the client holds the contents of an accepted version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum VersionValidity {
    /// No version was accepted since a request stated none.
    #[default]
    None,
    /// All of it is held.
    Clean(SubscriptionScope),
    /// A later response was rejected: some of its resources may be in use, or the use of others may
    /// have ended. The server may have returned to the accepted version.
    Partial,
    /// Resources were changed by another server or an expired TTL, possibly before a version was
    /// accepted.
    Stale,
}

/// Scope of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionScope {
    /// All resources of the type, possibly with additional names. A version was accepted for this
    /// scope if its stream began with the wildcard.
    Everything,
    Names,
}

/// Conditions under which a request may state the accepted version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionConditions {
    pub(crate) transport: RequestTransport,
    pub(crate) step: SubscriptionStep,
    pub(crate) of: SubscriptionScope,
    pub(crate) held: NewlySubscribed,
}

/// Transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestTransport {
    Stream,
    /// Polling. The server knows nothing of the client but the contents of the request.
    Poll,
}

/// Effect of a request on the existing subscription of its stream or series of polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionStep {
    /// Starts a subscription: the stream is new, or the previous subscription has ended completely.
    Begins,
    /// Keeps part of the subscription.
    Continues,
}

/// Amount of cached resources among the newly subscribed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewlySubscribed {
    Held,
    PartlyHeld,
    Missing,
}

impl AcceptedVersion {
    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// Accepts a response. A stale version stays stale, because the response need not contain the
    /// resources that another server or a TTL changed before.
    pub(crate) fn accept(&mut self, version: Version, of: SubscriptionScope) {
        self.version = version;
        if self.state != VersionValidity::Stale {
            self.state = VersionValidity::Clean(of);
        }
    }

    /// Accepts the response to a request for everything, regardless of what happened before.
    pub(crate) fn accept_all(&mut self, version: Version, of: SubscriptionScope) {
        *self = Self { version, state: VersionValidity::Clean(of) };
    }

    /// Rejects a response.
    pub(crate) fn reject(&mut self) {
        if let VersionValidity::Clean(_) = self.state {
            self.state = VersionValidity::Partial;
        }
    }

    /// Accepts a response that consists of heartbeats and thus does not define its version.
    pub(crate) fn renew(&mut self, version: Version) {
        if self.version != version {
            *self = Self { version, state: VersionValidity::Stale };
        }
    }

    /// Forgets the version. The next accepted one counts as if there had been none before.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn mark_stale(&mut self) {
        self.state = VersionValidity::Stale;
    }

    /// Notes that no wildcard is subscribed any more, so not all resources are held.
    pub(crate) fn note_wildcard_ended(&mut self) {
        if let VersionValidity::Clean(of) = &mut self.state {
            *of = SubscriptionScope::Names;
        }
    }

    /// Returns the version that a request states. Forgets a version that it may not state.
    pub(crate) fn version_to_state(&mut self, conditions: VersionConditions) -> Version {
        if !self.may_be_stated(conditions) {
            self.forget();
        }
        self.version.clone()
    }

    fn may_be_stated(
        &self,
        VersionConditions { transport, step, of, held }: VersionConditions,
    ) -> bool {
        use VersionValidity::{Clean, None, Partial, Stale};
        let is_held = match (transport, step) {
            (RequestTransport::Stream, SubscriptionStep::Continues) => return true,
            (RequestTransport::Stream, SubscriptionStep::Begins) => {
                held != NewlySubscribed::Missing
            } // UN-04.
            (RequestTransport::Poll, _) => held == NewlySubscribed::Held,
        };
        let covers = match (self.state, step) {
            (Stale, _) => false,
            (None | Clean(_) | Partial, SubscriptionStep::Continues) => true,
            (None | Clean(SubscriptionScope::Everything), SubscriptionStep::Begins) => true,
            (Clean(SubscriptionScope::Names), SubscriptionStep::Begins) => {
                of == SubscriptionScope::Names
            }
            (Partial, SubscriptionStep::Begins) => {
                of == SubscriptionScope::Names && transport == RequestTransport::Stream
            }
        };
        is_held && covers
    }
}

impl VersionConditions {
    /// Determines the conditions for the next request of a type, given the subscriptions sent on
    /// the channel (`type_state`) and the authorities that use the server (`scope`).
    pub(crate) fn of(
        transport: RequestTransport,
        type_state: &TypeState,
        interest: &TypeInterest,
        scope: &[bool],
        cache: &Cache,
    ) -> Self {
        let is_wildcard_subscribed = interest.is_wildcard_subscribed_in(scope);
        let had_wildcard = type_state.has_wildcard();
        let wanted = || interest.subscriptions.iter().filter(|(_, it)| it.is_subscribed_in(scope));
        let continues = !interest.is_subscribed_in(scope)
            || is_wildcard_subscribed && had_wildcard
            || wanted().any(|(slot, _)| type_state.sent().has(slot));
        let step = if continues { SubscriptionStep::Continues } else { SubscriptionStep::Begins };
        let of = if is_wildcard_subscribed {
            SubscriptionScope::Everything
        } else {
            SubscriptionScope::Names
        };
        let mut conditions = Self { transport, step, of, held: NewlySubscribed::Held };
        if transport == RequestTransport::Stream && step == SubscriptionStep::Continues {
            return conditions; // The version is stated in any case.
        }
        let (mut holds, mut lacks) = (false, false);
        if is_wildcard_subscribed && !had_wildcard {
            // How the version was accepted decides whether everything is held.
            holds = cache.iter().any(|(_, entry)| !entry.has_authority && entry.bytes.is_some());
            lacks = !holds || continues;
        }
        for (_, subscription) in wanted().filter(|(slot, _)| !type_state.sent().has(*slot)) {
            let Some(entry) = cache.get(subscription.entry) else { continue };
            holds |= entry.bytes.is_some();
            lacks |= entry.bytes.is_none();
        }
        conditions.held = match (holds, lacks) {
            (_, false) => NewlySubscribed::Held,
            (true, true) => NewlySubscribed::PartlyHeld,
            (false, true) => NewlySubscribed::Missing,
        };
        conditions
    }
}
