//! Times since which make before break holds back a change and requested resources of a stream.
//!
//! A client concludes that a resource does not exist if it does not arrive within 15 seconds of the
//! request. A requested resource is therefore held back for at most `stage_timeout` in total. The
//! time is measured per type from when its request was first held back, and continues when the type
//! begins to wait for something else.

use alloc::boxed::Box;
use core::time::Duration;

use super::{
    Decision, STAGES,
    decision::{Blocked, PendingRequest},
};
use crate::time::Time;

/// Times since which a stream holds back something.
#[derive(Debug, Default)]
pub(crate) struct HeldSince {
    /// Change that is held back, and the time since when.
    pub(crate) change: Option<Box<(Blocked, Time)>>,
    /// Requests that are unanswered because their resources are held back.
    pub(crate) requests: RequestTimes,
}

/// Time since which a request is held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RequestTime {
    /// No unanswered request, or none that was held back.
    #[default]
    NotBlocked,
    BlockedSince(Time),
    /// Held back for `stage_timeout`: its resources are sent regardless of what they wait for.
    Overdue,
}

impl HeldSince {
    /// Returns the times at which the change and the first request that are held back will have been
    /// for `timeout`.
    pub(crate) fn deadlines(&self, timeout: Duration) -> [Option<Time>; 2] {
        let change = self.change.as_ref().map(|change| change.1.after(timeout));
        [change, self.requests.first_overdue(timeout)]
    }

    /// Records what is held back now. Returns whether the time of the change begins.
    pub(crate) fn note(&mut self, decision: &Decision, now: Time, timeout: Duration) -> bool {
        self.requests.note(&decision.pending_requests, now);
        let before = self.change.take();
        let Some(blocked) = decision.blocked.clone() else { return false };
        // A wait for a request that may never come starts only after the wait for an answer.
        let continues = |before: &(Blocked, Time)| {
            let is_request = blocked.waits_for_request() && !before.0.waits_for_request();
            before.0.is_same(&blocked) && !(is_request && before.1.after(timeout) <= now)
        };
        let since = before.filter(|it| continues(it)).map(|it| it.1);
        self.change = Some(Box::new((blocked, since.unwrap_or(now))));
        since.is_none()
    }
}

/// Times of a stream's unanswered requests, by the rank of their type. `None` if none was held back.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestTimes(Option<Box<[RequestTime; STAGES]>>);

impl RequestTimes {
    pub(crate) fn by_rank(&self) -> [RequestTime; STAGES] {
        self.0.as_deref().copied().unwrap_or_default()
    }

    /// Records which types have unanswered requests now.
    pub(crate) fn note(&mut self, asks: &[PendingRequest; STAGES], now: Time) {
        if self.0.is_none() && !asks.contains(&PendingRequest::Blocked) {
            return;
        }
        let times = self.0.get_or_insert_default();
        for (request, asks) in times.iter_mut().zip(asks) {
            *request = match (asks, *request) {
                (PendingRequest::None, _) => RequestTime::NotBlocked,
                (PendingRequest::Blocked, RequestTime::NotBlocked) => {
                    RequestTime::BlockedSince(now)
                }
                (PendingRequest::Sendable | PendingRequest::Blocked, before) => before,
            };
        }
        if **times == [RequestTime::NotBlocked; STAGES] {
            self.0 = None;
        }
    }

    /// Time at which the first request will have been held back for `timeout`.
    pub(crate) fn first_overdue(&self, timeout: Duration) -> Option<Time> {
        let since = |request: &RequestTime| match request {
            RequestTime::BlockedSince(since) => Some(since.after(timeout)),
            RequestTime::NotBlocked | RequestTime::Overdue => None,
        };
        self.0.iter().flat_map(|times| times.iter()).filter_map(since).min()
    }

    /// Marks requests that have been held back for `timeout` as overdue, and returns the ranks of
    /// their types.
    pub(crate) fn expire(
        &mut self,
        now: Time,
        timeout: Duration,
    ) -> impl Iterator<Item = usize> + '_ {
        let times = self.0.iter_mut().flat_map(|times| times.iter_mut());
        times.enumerate().filter_map(move |(rank, request)| match request {
            RequestTime::BlockedSince(since) if since.after(timeout) <= now => {
                *request = RequestTime::Overdue;
                Some(rank)
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use crate::server::make_before_break::held_since::*;

    #[test]
    fn blocked_request_keeps_its_start_time_until_it_is_answered() {
        let [second, timeout] = [1, 5].map(Duration::from_secs);
        let at = |n: u32| Time::ZERO.after(second * n);
        let asks = |asks: PendingRequest| {
            let mut all = [PendingRequest::None; STAGES];
            all[3] = asks;
            all
        };
        let mut requests = RequestTimes::default();
        requests.note(&asks(PendingRequest::Sendable), at(1));
        assert_eq!(requests.first_overdue(timeout), None, "nothing is held back");
        requests.note(&asks(PendingRequest::Blocked), at(2));
        requests.note(&asks(PendingRequest::Sendable), at(3));
        requests.note(&asks(PendingRequest::Blocked), at(4));
        assert_eq!(requests.first_overdue(timeout), Some(at(7)));
        assert_eq!(requests.by_rank()[3], RequestTime::BlockedSince(at(2)));
        assert_eq!(requests.expire(at(6), timeout).collect::<Vec<_>>(), []);
        assert_eq!(requests.expire(at(7), timeout).collect::<Vec<_>>(), [3]);
        requests.note(&asks(PendingRequest::Blocked), at(8));
        assert_eq!(
            (requests.by_rank()[3], requests.first_overdue(timeout)),
            (RequestTime::Overdue, None)
        );
        requests.note(&asks(PendingRequest::None), at(9));
        assert_eq!(requests.by_rank()[3], RequestTime::NotBlocked);
    }
}
