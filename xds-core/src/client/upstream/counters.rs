//! What is counted of one server and, within it, of each type. Lives as long as the client.

use alloc::vec::Vec;
use core::fmt;

use crate::{
    client::event::status::ClientStats,
    text::{TypeUrl, Version},
    time::Time,
};

/// The counters of one server.
#[derive(Debug)]
pub(crate) struct Tally {
    health: Health,
    /// How often the server went from working to not working.
    failures: u64,
    /// One per registered type.
    types: Vec<TypeTally>,
}

/// Whether the server works, as the gauge `connected` has it (CM-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// It has not been tried since anybody was last interested.
    #[default]
    Untried,
    /// A stream was opened, and none has failed without a response since.
    Working,
    /// A connection or a stream failed, and no response has come since.
    Failing,
}

#[derive(Clone, Debug, Default)]
struct TypeTally {
    accepted: u64,
    rejected: u64,
    valid: u64,
    invalid: u64,
    older: u64,
    failures: u64,
    timeouts: u64,
    accepted_at: Option<Time>,
}

impl Tally {
    pub(crate) fn new(types: usize) -> Self {
        Self {
            health: Health::default(),
            failures: 0,
            types: alloc::vec![TypeTally::default(); types],
        }
    }

    pub(crate) fn health(&self) -> Health {
        self.health
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// A stream was opened. After a failure that alone proves nothing.
    pub(crate) fn opened(&mut self) {
        if self.health == Health::Untried {
            self.health = Health::Working;
        }
    }

    pub(crate) fn responded(&mut self) {
        self.health = Health::Working;
    }

    /// The server failed; `wanted` tells which types were waited for.
    pub(crate) fn failed(&mut self, wanted: impl Iterator<Item = bool>) {
        if self.health != Health::Failing {
            self.failures += 1;
        }
        self.health = Health::Failing;
        for (tally, _) in self.types.iter_mut().zip(wanted).filter(|(_, is_wanted)| *is_wanted) {
            tally.failures += 1;
        }
    }

    /// Nobody is interested any more: how it was says nothing to whoever comes next.
    pub(crate) fn left_alone(&mut self) {
        self.health = Health::Untried;
    }

    /// A response was judged, which moved the counters of the client.
    pub(crate) fn judged(&mut self, type_index: usize, before: ClientStats, after: ClientStats) {
        if let Some(tally) = self.types.get_mut(type_index) {
            tally.valid += after.resources_valid - before.resources_valid;
            tally.invalid += after.resources_invalid - before.resources_invalid;
            tally.older += after.older_resources - before.older_resources;
        }
    }

    pub(crate) fn accepted(&mut self, type_index: usize, now: Time) {
        if let Some(tally) = self.types.get_mut(type_index) {
            tally.accepted += 1;
            tally.accepted_at = Some(now);
        }
    }

    pub(crate) fn rejected(&mut self, type_index: usize) {
        if let Some(tally) = self.types.get_mut(type_index) {
            tally.rejected += 1;
        }
    }

    /// A resource or collection of the type did not come in time.
    pub(crate) fn timed_out(&mut self, type_index: usize) {
        if let Some(tally) = self.types.get_mut(type_index) {
            tally.timeouts += 1;
        }
    }

    /// The counters of one type, with what the client keeps beside them.
    pub(crate) fn of_type<'a>(
        &self,
        type_index: usize,
        server: &'a str,
        type_url: &'a TypeUrl,
        version: &'a Version,
    ) -> Option<TypeStats<'a>> {
        let tally = self.types.get(type_index)?;
        Some(TypeStats {
            server,
            type_url,
            accepted: tally.accepted,
            rejected: tally.rejected,
            resources_valid: tally.valid,
            resources_invalid: tally.invalid,
            older_resources: tally.older,
            failures: tally.failures,
            timeouts: tally.timeouts,
            version,
            accepted_at: tally.accepted_at,
        })
    }
}

/// How often things happened with one type at one server since the client was made.
///
/// Those who know the proxy's statistics of a subscription find them here (CM-14):
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
    /// The server's URI.
    pub server: &'a str,
    /// The type.
    pub type_url: &'a TypeUrl,
    /// Responses that were accepted whole.
    pub accepted: u64,
    /// Responses in which something was rejected.
    pub rejected: u64,
    /// Resources that were valid, changed or not.
    pub resources_valid: u64,
    /// Resources that were rejected.
    pub resources_invalid: u64,
    /// Resources that came under a name of version 2 of the API (S4.011).
    pub older_resources: u64,
    /// Connections and streams that failed without a response, or for what the server sent, while
    /// the type was wanted.
    pub failures: u64,
    /// Resources, and collections, that did not come in time.
    pub timeouts: u64,
    /// The version that the next request states: that of the last response that was accepted whole. A
    /// rejected one leaves it alone, except under [`NackVersion::Newest`](crate::client::NackVersion::Newest).
    pub version: &'a Version,
    /// When that response arrived.
    pub accepted_at: Option<Time>,
}

impl TypeStats<'_> {
    /// How often there was something to make of the type: a response or the content of a file, used or not, or none
    /// where one was waited for (S0.017). An answer to a poll that says there is nothing new is none.
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
            ("older", self.older_resources),
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
