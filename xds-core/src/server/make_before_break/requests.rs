//! Time limit for requested resources that make before break holds back.
//!
//! A client concludes that a resource does not exist if it does not arrive within 15 seconds of the
//! request. A requested resource is therefore held back for at most `stage_timeout` in total. The
//! time is measured per type from when its request was first held back, and continues when the type
//! begins to wait for something else.

use core::time::Duration;

use super::STAGES;
use crate::time::Time;

/// Unanswered request of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestState {
    /// No unanswered request, or none that was held back.
    #[default]
    NotBlocked,
    BlockedSince(Time),
    /// Request held back for `stage_timeout`: its resources are sent regardless of what they wait
    /// for.
    Overdue,
}

/// Whether a type has an unanswered request now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PendingRequest {
    #[default]
    None,
    /// The answer may be sent now.
    Sendable,
    Blocked,
}

/// Unanswered requests of a stream, by type.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestStates([RequestState; STAGES]);

impl RequestStates {
    pub(crate) fn of(&self, rank: u8) -> RequestState {
        self.0.get(usize::from(rank)).copied().unwrap_or_default()
    }

    /// Records which types have unanswered requests now.
    pub(crate) fn note(&mut self, asks: &[PendingRequest; STAGES], now: Time) {
        for (request, asks) in self.0.iter_mut().zip(asks) {
            *request = match (asks, *request) {
                (PendingRequest::None, _) => RequestState::NotBlocked,
                (PendingRequest::Blocked, RequestState::NotBlocked) => {
                    RequestState::BlockedSince(now)
                }
                (PendingRequest::Sendable | PendingRequest::Blocked, before) => before,
            };
        }
    }

    /// Time at which the first request will have been held back for `timeout`.
    pub(crate) fn first_overdue(&self, timeout: Duration) -> Option<Time> {
        let since = |request: &RequestState| match request {
            RequestState::BlockedSince(since) => Some(since.after(timeout)),
            RequestState::NotBlocked | RequestState::Overdue => None,
        };
        self.0.iter().filter_map(since).min()
    }

    /// Marks requests that have been held back for `timeout` as overdue, and returns the ranks of
    /// their types.
    pub(crate) fn expire(
        &mut self,
        now: Time,
        timeout: Duration,
    ) -> impl Iterator<Item = usize> + '_ {
        self.0.iter_mut().enumerate().filter_map(move |(rank, request)| match request {
            RequestState::BlockedSince(since) if since.after(timeout) <= now => {
                *request = RequestState::Overdue;
                Some(rank)
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::server::make_before_break::requests::*;

    #[test]
    fn blocked_request_keeps_its_start_time_until_it_is_answered() {
        let [second, timeout] = [1, 5].map(Duration::from_secs);
        let at = |n: u32| Time::ZERO.after(second * n);
        let asks = |asks: PendingRequest| {
            let mut all = [PendingRequest::None; STAGES];
            all[3] = asks;
            all
        };
        let mut requests = RequestStates::default();
        requests.note(&asks(PendingRequest::Sendable), at(1));
        assert_eq!(requests.first_overdue(timeout), None, "nothing is held back");
        requests.note(&asks(PendingRequest::Blocked), at(2));
        requests.note(&asks(PendingRequest::Sendable), at(3));
        requests.note(&asks(PendingRequest::Blocked), at(4));
        assert_eq!(requests.first_overdue(timeout), Some(at(7)));
        assert_eq!(requests.expire(at(6), timeout).collect::<Vec<_>>(), []);
        assert_eq!(requests.expire(at(7), timeout).collect::<Vec<_>>(), [3]);
        requests.note(&asks(PendingRequest::Blocked), at(8));
        assert_eq!(
            (requests.of(3), requests.first_overdue(timeout)),
            (RequestState::Overdue, None)
        );
        requests.note(&asks(PendingRequest::None), at(9));
        assert_eq!(requests.of(3), RequestState::NotBlocked);
    }
}
