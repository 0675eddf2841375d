//! Rejection of a whole response because of one invalid resource ([`RejectionUnit::Response`]).
//!
//! The response is classified like any other, so that its NACK lists all invalid resources. Nothing
//! of it is used: no resource, heartbeat, deletion or reported error. Resources that it would have
//! changed stay in use, with the error that their newest version was rejected.
// D2

use alloc::vec::Vec;

use super::{
    Judge, Judged,
    classify::{Candidate, DUPLICATE, Reading},
    nack_message::Place,
};
use crate::{
    client::{
        cache::entry::Entry,
        config::{profile::RejectionUnit, resource_type::Rejection},
        event::status::EntryState,
    },
    service::Variant,
    slab::Slot,
    zoo::{self, Bug},
};

/// Reason for rejecting a valid resource.
const NOT_ALONE: &str = "refused with its response, in which something else is bad";

impl Judge<'_> {
    /// Returns whether the response must be rejected completely.
    pub(crate) fn refuses_all(&self, reading: &Reading<'_>) -> bool {
        match self.context.profile.rejection_unit {
            RejectionUnit::Resource if !zoo::is(Bug::WholeResponseRejected) => false,
            RejectionUnit::Resource | RejectionUnit::Response => {
                reading.faults.count() > 0
                    || !reading.repeated.is_empty()
                    || reading.candidates.iter().any(|candidate| candidate.verdict.is_err())
            }
        }
    }

    /// Removes entries of names that only an earlier rejected response mentioned, so that a server
    /// cannot fill the memory with new names.
    fn forget_what_was_refused_before(&mut self) {
        let is_sotw = self.context.server.variant == Variant::StateOfTheWorld;
        if !is_sotw || !self.resource_type.full_state_in_sotw() {
            return;
        }
        let is_over = |(slot, entry): &(Slot, &Entry)| {
            let is_empty = entry.bytes.is_none() && entry.state == EntryState::Nacked;
            is_empty && entry.subscription.is_none() && !self.cache.is_in_response(*slot)
        };
        let over: Vec<Slot> = self.cache.iter().filter(is_over).map(|(slot, _)| slot).collect();
        for slot in over {
            self.cache.remove(slot);
        }
    }

    /// Rejects the response; `before` is the number of the newest change before it.
    pub(crate) fn refuse_all(mut self, mut reading: Reading<'_>, before: u64) -> Judged {
        self.cache.take_back_renewals();
        for candidate in core::mem::take(&mut reading.candidates) {
            let Candidate { index, slot, bytes, verdict, .. } = candidate;
            if self.cache.is_duplicate(slot) {
                continue;
            }
            let rejection = match verdict {
                Ok(_) => Rejection::new(NOT_ALONE),
                Err(rejection) => {
                    let name = self.cache.get(slot).map_or("", |entry| entry.name.as_str());
                    reading.faults.add(Place::Resource(index), name, rejection.reason());
                    rejection
                }
            };
            self.reject(slot, rejection);
            if bytes.len() <= self.limits.rejected_resource_bytes {
                self.cache.keep_rejected(slot, &bytes);
            }
        }
        for &slot in &reading.repeated {
            self.reject(slot, Rejection::new(DUPLICATE));
        }
        self.forget_what_was_refused_before();
        self.conclude_what_the_file_lacks(reading.tells_absence());
        self.cache.end_response();
        // The server has responded, but the state of the collection remains unknown.
        if self.asked.has_wildcard {
            self.interest.collection_timer = 0;
        }
        self.settle_globs();
        self.tell_wildcards(self.cache.sequence() != before);
        self.sum_up(reading)
    }
}
