//! Rejection of a whole response because of one invalid resource ([`RejectionUnit::Response`]).
//!
//! The response is classified like any other, so that its NACK lists all invalid resources. Nothing
//! of it is used: no resource, heartbeat, deletion or reported error. Resources that it would have
//! changed stay in use, with the error that their newest version was rejected.
// D2

use alloc::vec::Vec;

use super::{
    ProcessedResponse, ResponseProcessor,
    classify::{Candidate, Classified, DUPLICATE},
    nack_message::FaultLocation,
};
use crate::{
    client::{
        cache::entry::CacheEntry,
        config::{profile::RejectionUnit, resource_type::Rejection},
        event::status::ResourceState,
    },
    service::Variant,
    slab::Slot,
    zoo::{self, Bug},
};

/// Reason for rejecting a valid resource.
const NOT_ALONE: &str = "rejected because another resource of the response is invalid";

impl ResponseProcessor<'_> {
    /// Returns whether the response must be rejected completely.
    pub(crate) fn rejects_all(&self, classified: &Classified<'_>) -> bool {
        match self.context.profile.rejection_unit {
            RejectionUnit::Resource if !zoo::is(Bug::WholeResponseRejected) => false,
            RejectionUnit::Resource | RejectionUnit::Response => {
                classified.faults.count() > 0
                    || !classified.duplicates.is_empty()
                    || classified.candidates.iter().any(|candidate| candidate.verdict.is_err())
            }
        }
    }

    /// Removes entries of names that only an earlier rejected response mentioned, so that a server
    /// cannot fill the memory with new names.
    fn forget_earlier_rejected(&mut self) {
        let is_sotw = self.context.server.variant == Variant::StateOfTheWorld;
        if !is_sotw || !self.resource_type.full_state_in_sotw() {
            return;
        }
        let is_ended = |(slot, entry): &(Slot, &CacheEntry)| {
            let is_empty = entry.bytes.is_none() && entry.state == ResourceState::Nacked;
            is_empty && entry.subscription.is_none() && !self.cache.is_in_response(*slot)
        };
        let over: Vec<Slot> = self.cache.iter().filter(is_ended).map(|(slot, _)| slot).collect();
        for slot in over {
            self.cache.remove(slot);
        }
    }

    /// Rejects the response; `before` is the number of the newest change before it.
    pub(crate) fn reject_all(
        mut self,
        mut classified: Classified<'_>,
        before: u64,
    ) -> ProcessedResponse {
        self.cache.revert_renewals();
        for candidate in core::mem::take(&mut classified.candidates) {
            let Candidate { index, slot, bytes, verdict, .. } = candidate;
            if self.cache.is_duplicate(slot) {
                continue;
            }
            let rejection = match verdict {
                Ok(_) => Rejection::new(NOT_ALONE),
                Err(rejection) => {
                    let name = self.cache.get(slot).map_or("", |entry| entry.name.as_str());
                    classified.faults.add(FaultLocation::Resource(index), name, rejection.reason());
                    rejection
                }
            };
            self.reject(slot, rejection);
            if bytes.len() <= self.limits.rejected_resource_bytes {
                self.cache.keep_rejected(slot, &bytes);
            }
        }
        for &slot in &classified.duplicates {
            self.reject(slot, Rejection::new(DUPLICATE));
        }
        self.forget_earlier_rejected();
        self.handle_missing_in_file(classified.is_absence_significant());
        self.cache.end_response();
        // The server has responded, but the state of the collection remains unknown.
        if self.requested.has_wildcard {
            self.interest.collection_timer = 0;
        }
        self.stop_glob_timers();
        self.notify_collections(self.cache.sequence() != before);
        self.finish(classified)
    }
}
