//! Resources requested from the server of a channel, which may send only these.
// S0.101, IC13, A47

use super::sent_names::SentNames;
use crate::{
    client::{
        cache::{entry::CacheEntry, glob_index::GlobIndex},
        subscription::{TypeInterest, authority::DEFAULT},
    },
    zoo::{self, Bug},
};

/// Resources of one type requested from a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestedResources<'a> {
    /// Subscribed names. The server may not send or delete other resources.
    pub(crate) sent: &'a SentNames,
    pub(crate) scope: &'a [bool],
    /// Whether the server still considers a wildcard subscribed.
    pub(crate) has_wildcard: bool,
}

impl RequestedResources<'_> {
    fn is_in_scope(&self, authority: usize) -> bool {
        self.scope.get(authority) == Some(&true)
    }

    /// Returns whether a resource is subscribed other than by name: by a wildcard if it has no
    /// authority, otherwise by a glob. A wildcard must not bring in resources for which other
    /// servers are responsible.
    pub(crate) fn is_covered_by_collection(
        &self,
        name: &str,
        has_authority: bool,
        interest: &TypeInterest,
        globs: &GlobIndex,
    ) -> bool {
        if !has_authority {
            return self.has_wildcard;
        }
        globs.covering(name).any(|(_, glob)| {
            let subscription = interest.subscriptions.at(glob.subscription);
            self.sent.has(glob.subscription)
                && subscription.is_some_and(|subscription| self.is_in_scope(subscription.authority))
        })
    }

    /// Returns whether the server may send or delete the entry. Only the servers of an entry's
    /// authority may.
    // A47
    pub(crate) fn may_send(
        &self,
        entry: &CacheEntry,
        interest: &TypeInterest,
        globs: &GlobIndex,
    ) -> bool {
        match interest.subscriptions.at(entry.subscription) {
            Some(subscription) => self.is_in_scope(subscription.authority),
            None => self.is_covered_by_collection(
                entry.name.as_str(),
                entry.has_authority,
                interest,
                globs,
            ),
        }
    }

    /// Returns whether the absence of the entry from a complete response is significant. Entries
    /// that only a glob covers are never part of one.
    pub(crate) fn is_absence_significant(
        &self,
        entry: &CacheEntry,
        interest: &TypeInterest,
    ) -> bool {
        match interest.subscriptions.at(entry.subscription) {
            Some(subscription) => {
                let by_wildcard = self.has_wildcard && subscription.authority == DEFAULT;
                let is_served = self.is_in_scope(subscription.authority);
                by_wildcard
                    || (is_served && self.sent.has(entry.subscription))
                    || zoo::is(Bug::AuthoritiesShareAbsence)
            }
            None => self.has_wildcard && !entry.has_authority,
        }
    }
}
