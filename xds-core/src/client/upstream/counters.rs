//! Counters of one server and of each of its types, kept for the lifetime of the client.

use alloc::vec::Vec;
use core::fmt;

use crate::{
    client::event::status::ClientStats,
    text::{TypeUrl, Version},
    time::Time,
};

/// Counters of one server.
#[derive(Debug)]
pub(crate) struct ServerCounters {
    health: Health,
    /// Number of times that the server became unhealthy.
    failures: u64,
    /// One element per registered type.
    types: Vec<TypeCounters>,
}

/// Health of a server, as reported by the gauge `connected`.
// CM-12
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// No attempt to connect since it last had subscriptions.
    #[default]
    Untried,
    /// A stream was opened, and none has failed without a response since then.
    Working,
    /// A connection or stream failed, and no response has arrived since then.
    Failing,
}

#[derive(Clone, Debug, Default)]
struct TypeCounters {
    accepted: u64,
    rejected: u64,
    valid: u64,
    invalid: u64,
    v2: u64,
    failures: u64,
    timeouts: u64,
    accepted_at: Option<Time>,
}

impl ServerCounters {
    pub(crate) fn new(types: usize) -> Self {
        Self {
            health: Health::default(),
            failures: 0,
            types: alloc::vec![TypeCounters::default(); types],
        }
    }

    pub(crate) fn health(&self) -> Health {
        self.health
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// Notes that a stream was opened. After a failure, this alone does not make the server
    /// healthy.
    pub(crate) fn note_opened(&mut self) {
        if self.health == Health::Untried {
            self.health = Health::Working;
        }
    }

    pub(crate) fn note_response(&mut self) {
        self.health = Health::Working;
    }

    /// Notes a failure of the server; `subscribed` states for each type whether it was subscribed.
    pub(crate) fn note_failure(&mut self, subscribed: impl Iterator<Item = bool>) {
        if self.health != Health::Failing {
            self.failures += 1;
        }
        self.health = Health::Failing;
        for (counters, _) in
            self.types.iter_mut().zip(subscribed).filter(|(_, is_subscribed)| *is_subscribed)
        {
            counters.failures += 1;
        }
    }

    /// Notes that the server has no subscriptions any more, which ends the validity of its health.
    pub(crate) fn reset_health(&mut self) {
        self.health = Health::Untried;
    }

    /// Adds the counts of a processed response, as the difference of the client's counters.
    pub(crate) fn add_resources(
        &mut self,
        type_index: usize,
        before: ClientStats,
        after: ClientStats,
    ) {
        if let Some(counters) = self.types.get_mut(type_index) {
            counters.valid += after.resources_valid - before.resources_valid;
            counters.invalid += after.resources_invalid - before.resources_invalid;
            counters.v2 += after.v2_resources - before.v2_resources;
        }
    }

    pub(crate) fn note_accepted(&mut self, type_index: usize, now: Time) {
        if let Some(counters) = self.types.get_mut(type_index) {
            counters.accepted += 1;
            counters.accepted_at = Some(now);
        }
    }

    pub(crate) fn note_rejected(&mut self, type_index: usize) {
        if let Some(counters) = self.types.get_mut(type_index) {
            counters.rejected += 1;
        }
    }

    /// Counts a resource or collection that was not received in time.
    pub(crate) fn note_timeout(&mut self, type_index: usize) {
        if let Some(counters) = self.types.get_mut(type_index) {
            counters.timeouts += 1;
        }
    }

    /// Returns the counters of one type.
    pub(crate) fn of_type<'a>(
        &self,
        type_index: usize,
        server: &'a str,
        type_url: &'a TypeUrl,
        version: &'a Version,
    ) -> Option<TypeStats<'a>> {
        let counters = self.types.get(type_index)?;
        Some(TypeStats {
            server,
            type_url,
            accepted: counters.accepted,
            rejected: counters.rejected,
            resources_valid: counters.valid,
            resources_invalid: counters.invalid,
            v2_resources: counters.v2,
            failures: counters.failures,
            timeouts: counters.timeouts,
            version,
            accepted_at: counters.accepted_at,
        })
    }
}

/// Counters of one type at one server since the creation of the client.
///
/// They correspond to Envoy's subscription
/// [statistics](https://www.envoyproxy.io/docs/envoy/latest/configuration/overview/mgmt_server):
///
/// | Envoy | here |
/// |---|---|
/// | `update_success` | `accepted` |
/// | `update_rejected` | `rejected` |
/// | `update_failure` | `failures` |
/// | `init_fetch_timeout` | `timeouts` |
/// | `update_attempt` | [`attempts`](TypeStats::attempts) |
/// | `version`, a hash | `version`, the text |
/// | `update_time` | `accepted_at` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeStats<'a> {
    /// URI of the server.
    pub server: &'a str,
    /// Resource type.
    pub type_url: &'a TypeUrl,
    /// Completely accepted responses.
    pub accepted: u64,
    /// Responses with rejected resources.
    pub rejected: u64,
    /// Valid resources, changed or unchanged.
    pub resources_valid: u64,
    /// Rejected resources.
    pub resources_invalid: u64,
    /// Resources with a type URL of API version 2.
    // S4.011
    pub v2_resources: u64,
    /// Connections and streams that ended without a response, or because of a protocol violation by
    /// the server, while the type was subscribed.
    pub failures: u64,
    /// Resources and collections that were not received in time.
    pub timeouts: u64,
    /// Version of the last completely accepted response, which the next request states. With
    /// [`NackVersion::Newest`](crate::client::NackVersion::Newest), also that of a partially
    /// accepted one.
    pub version: &'a Version,
    /// Arrival time of the last accepted response.
    pub accepted_at: Option<Time>,
}

impl TypeStats<'_> {
    /// Returns the number of update attempts: responses or file contents, accepted or not,
    /// failures, and timeouts. Polling responses without changes are not counted.
    // S0.017, CM-14
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.accepted + self.rejected + self.failures + self.timeouts
    }
}

impl fmt::Display for TypeStats<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}:", self.type_url.message_name(), self.server)?;
        let counters = [
            ("attempts", self.attempts()),
            ("accepted", self.accepted),
            ("rejected", self.rejected),
            ("valid", self.resources_valid),
            ("invalid", self.resources_invalid),
            ("v2", self.v2_resources),
            ("failures", self.failures),
            ("timeouts", self.timeouts),
        ];
        for (name, count) in counters.into_iter().filter(|&(_, count)| count > 0) {
            write!(f, " {name}={count}")?;
        }
        match self.accepted_at {
            Some(at) => write!(f, " version={:?} at {at}", self.version.as_str()),
            None => Ok(()),
        }
    }
}
