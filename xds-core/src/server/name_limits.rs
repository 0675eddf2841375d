//! Limits on the names of a stream, of its connection, and of all connections.
// M242, IS24

use super::{
    Server, config::PerClientLimits, event::CloseReason, stream::unfinished_request::OpenRequest,
};
use crate::{id::StreamId, service::Variant, slab::Slot, wire::request::Request};

impl Server {
    /// Number of names to which a stream subscribes, and number of names that it holds in total. Costs
    /// one step per type of the stream.
    pub(crate) fn names_of(&self, id: StreamId) -> (usize, usize) {
        let names = self.sessions_of(id).map(|it| (it.session.names(), it.session.tracked_names()));
        names.fold((0, 0), |(named, held), (names, all)| (named + names, held + all))
    }

    /// Whether there is room for the names of a request, as far as their number tells: a list replaces
    /// the names of its type, and incremental requests may repeat names. Those are checked
    /// [afterwards](Self::check_names).
    pub(crate) fn check_room(
        &self,
        id: StreamId,
        session: Slot,
        request: &Request<'_>,
        limits: &PerClientLimits,
    ) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get(id.0) else { return Ok(()) };
        let limit = limits.names_per_stream;
        let most = limit.saturating_mul(2);
        if stream.kind.variant() == Variant::Incremental {
            // No client has more names to unsubscribe from.
            return match request.unsubscribed_count > most {
                true => Err(CloseReason::TooManyNames { limit }),
                false => Ok(()),
            };
        }
        let (subscribed, held) = self.names_of(id);
        let others = subscribed - self.subscriptions.names(session).0;
        if others + request.name_count > limit || held > most {
            return Err(CloseReason::TooManyNames { limit });
        }
        let limit = limits.names_per_connection;
        let Some(account) = self.subscriptions.usage.of(id) else { return Ok(()) };
        let others = account.usage.named - self.subscriptions.units(session).named;
        match (others as usize).saturating_add(request.name_units) > limit {
            true => Err(CloseReason::TooManyNamesOnConnection { limit }),
            false => Ok(()),
        }
    }

    /// Checks the limits of a stream and of its connection after a part of a request was applied.
    /// `is_last` tells whether it was the last part.
    pub(crate) fn check_names(
        &self,
        id: StreamId,
        open: &OpenRequest,
        is_last: bool,
    ) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get(id.0) else { return Ok(()) };
        let limits = stream.limits(&self.config.limits);
        let is_incremental = stream.kind.variant() == Variant::Incremental;
        let limit = limits.names_per_stream;
        if is_incremental {
            let (subscribed, held) = self.names_of(id);
            // A reconnecting client states versions of names that it subscribes to; they count once.
            let stated = self.stated_names(open);
            // The same number of names may be retained. This bound keeps a client from accumulating
            // them behind a response that it never answers.
            if subscribed > limit
                || open.stream_names_before + stated > limit
                || held > limit.saturating_mul(2)
            {
                return Err(CloseReason::TooManyNames { limit });
            }
        }
        // Before its last part, a list has not yet replaced the names before it.
        self.check_connection(id, is_incremental || is_last)
    }

    /// Checks how many names the connection of a stream holds and, if `has_replaced` their
    /// predecessors, to how many it subscribes.
    pub(crate) fn check_connection(
        &self,
        id: StreamId,
        has_replaced: bool,
    ) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get(id.0) else { return Ok(()) };
        let Some(account) = self.subscriptions.usage.of(id) else { return Ok(()) };
        let limit = stream.limits(&self.config.limits).names_per_connection;
        let is_full = has_replaced && account.usage.named as usize > limit
            || account.usage.held() > limit.saturating_mul(2);
        match is_full {
            true => Err(CloseReason::TooManyNamesOnConnection { limit }),
            false => Ok(()),
        }
    }

    /// Number of names that the client stated to have and does not subscribe to.
    fn stated_names(&self, open: &OpenRequest) -> usize {
        let Some(before) = open.progress.retained_before_versions else { return 0 };
        let (named, held) = self.subscriptions.names(open.session);
        (held - named).saturating_sub(before as usize)
    }

    /// Closes the connections that hold most names while there are too many in total.
    pub(crate) fn enforce_total_names(&mut self) {
        let limit = self.config.limits.names;
        while self.subscriptions.usage.total() > limit
            && let Some(heaviest) = self.subscriptions.usage.heaviest()
        {
            let usage = &self.subscriptions.usage;
            for id in self.select_streams(|id, _| usage.account_of(id) == heaviest) {
                self.close(id, CloseReason::TooManyNamesInTotal { limit });
            }
        }
    }
}
