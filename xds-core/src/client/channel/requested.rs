//! What the server at the other end of a channel was asked for, and so may speak of (S0.101, IC13, A47).

use super::sent_names::SentNames;
use crate::{
    client::{
        cache::{entry::Entry, glob_members::Globs},
        subscription::{TypeInterest, authority::DEFAULT},
    },
    zoo::{self, Bug},
};

/// What a server was asked for of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The names that it was told, and the authorities that use it: what else it sends is nobody's, and
    /// what it leaves out is not deleted by that.
    pub(crate) sent: &'a SentNames,
    pub(crate) scope: &'a [bool],
    /// Whether it has been told that everything is wanted, and not yet otherwise.
    pub(crate) has_wildcard: bool,
}

impl Asked<'_> {
    fn serves(&self, authority: usize) -> bool {
        self.scope.get(authority) == Some(&true)
    }

    /// Whether a resource was asked for without its name being told: one that states no authority by a
    /// wildcard, and one that does by a glob. A server must not bring in by a wildcard what another one
    /// answers for.
    pub(crate) fn by_collection(
        &self,
        name: &str,
        is_foreign: bool,
        interest: &TypeInterest,
        globs: &Globs,
    ) -> bool {
        if !is_foreign {
            return self.has_wildcard;
        }
        globs.covering(name).any(|(_, glob)| {
            let subscription = interest.subscriptions.at(glob.subscription);
            self.sent.has(glob.subscription)
                && subscription.is_some_and(|subscription| self.serves(subscription.authority))
        })
    }

    /// Whether the server is one that may speak of the entry: names belong to authorities, and only the
    /// servers of its authority are asked for a name (A47).
    pub(crate) fn may_speak_of(
        &self,
        entry: &Entry,
        interest: &TypeInterest,
        globs: &Globs,
    ) -> bool {
        match interest.subscriptions.at(entry.subscription) {
            Some(subscription) => self.serves(subscription.authority),
            None => self.by_collection(entry.name.as_str(), entry.is_foreign, interest, globs),
        }
    }

    /// Whether the absence of the entry from a complete response means something. What only a glob asks
    /// for never comes in one.
    pub(crate) fn means_absence(&self, entry: &Entry, interest: &TypeInterest) -> bool {
        match interest.subscriptions.at(entry.subscription) {
            Some(subscription) => {
                let by_wildcard = self.has_wildcard && subscription.authority == DEFAULT;
                let is_served = self.serves(subscription.authority);
                by_wildcard
                    || (is_served && self.sent.has(entry.subscription))
                    || zoo::is(Bug::AuthoritiesShareAbsence)
            }
            None => self.has_wildcard && !entry.is_foreign,
        }
    }
}
