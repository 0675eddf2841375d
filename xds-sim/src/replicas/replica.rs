//! Replica: a server, and the driver that keeps it in step with the source.

use std::time::Duration;

use xds_core::{
    Time,
    server::{
        Confirmation, Readiness, Server, ServerConfig, SourcePolicy, Transaction, VersionMode,
        Warming,
    },
};
use xds_source::{Change, Follower, FollowerOptions, ObjectChange, Revision};

use super::{
    bug::ReplicaBug,
    options::ReplicaOptions,
    source::{self, SimulatedSource, all_keys},
};
use crate::Toy;

/// Time that a stream waits for the source.
pub(super) const CATCH_UP: Duration = Duration::from_secs(4);

/// Server with its follower and the state of its calls to the source.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) server: Server,
    pub(super) follower: Follower,
    /// Number of restarts. Events of earlier starts are void.
    pub(super) start: u64,
    pub(super) is_running: bool,
    /// Whether the list or the watch of the follower's step was begun.
    pub(super) call: Call,
    /// Number of watches ever opened.
    pub(super) watches: u64,
    pub(super) is_partitioned: bool,
    /// End of the last partition.
    pub(super) healed_at: Time,
    pub(super) bug: Option<ReplicaBug>,
    /// Whether a list was applied since the start.
    is_whole: bool,
}

/// Call to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    None,
    List,
    Watch {
        number: u64,
        is_open: bool,
        /// Revision up to which changes were delivered.
        sent: u64,
        /// Whether a delivery is scheduled.
        is_due: bool,
        /// Whether the next delivery ends with the current revision.
        progress: bool,
    },
}

impl Replica {
    pub(super) fn new(
        options: &ReplicaOptions,
        seed: u64,
        now: Time,
        bug: Option<ReplicaBug>,
    ) -> Self {
        let mut replica = Self {
            server: Server::new(config(options), seed, now),
            follower: Follower::new(FollowerOptions::default(), seed),
            start: 0,
            is_running: true,
            call: Call::None,
            watches: 0,
            is_partitioned: false,
            healed_at: Time::ZERO,
            bug,
            is_whole: false,
        };
        if replica.has(ReplicaBug::ReadyTooEarly) {
            replica.server.set_ready(now);
        }
        replica
    }

    pub(super) fn has(&self, bug: ReplicaBug) -> bool {
        self.bug == Some(bug)
    }

    /// Starts anew without any state.
    pub(super) fn restart(&mut self, options: &ReplicaOptions, seed: u64, now: Time) {
        let fresh = Self::new(options, seed, now, self.bug);
        *self = Self {
            start: self.start + 1,
            is_partitioned: self.is_partitioned,
            healed_at: self.healed_at,
            ..fresh
        };
    }

    /// Applies a list of the source at a revision. Returns whether it was used, and the number of
    /// resources that it removed.
    pub(super) fn listed(
        &mut self,
        source: &SimulatedSource,
        revision: u64,
        now: Time,
    ) -> (bool, usize) {
        if !self.follower.listed(Revision(revision), now) {
            return (false, 0);
        }
        let as_diff = self.is_whole && self.has(ReplicaBug::ListAsDiff);
        let mut list = if as_diff { Transaction::new() } else { Transaction::snapshot("") };
        self.carry(&mut list, revision);
        for (key, written) in source.state_at(revision) {
            let name = source::name(key);
            let bytes = Toy::bytes(&name, &written.text);
            list.set(source::type_url(key), name, bytes);
            if !self.has(ReplicaBug::RevisionNotCarried) {
                list.changed_at(written.at);
            }
        }
        let removed = self.apply(list, revision, now);
        if !self.is_whole {
            self.is_whole = true;
            self.server.set_ready(now);
        }
        (true, removed)
    }

    /// Applies a change of the source.
    pub(super) fn changed(&mut self, source: &SimulatedSource, change: &Change, now: Time) {
        if !self.follower.changed(change, now) {
            return;
        }
        let revision = change.revision.0;
        let mut transaction = Transaction::new();
        self.carry(&mut transaction, revision);
        for object in &change.objects {
            let key = all_keys().find(|&key| id(key) == object.id().as_str());
            let Some(key) = key else { continue };
            let name = source::name(key);
            match object {
                ObjectChange::Set(_) => {
                    let text = source.written(key, revision).map(|it| it.text).unwrap_or_default();
                    let bytes = Toy::bytes(&name, &text);
                    transaction.set(source::type_url(key), name, bytes);
                }
                ObjectChange::Delete(_) => {
                    transaction.remove(source::type_url(key), name);
                }
            }
        }
        self.apply(transaction, revision, now);
    }

    fn carry(&self, transaction: &mut Transaction, revision: u64) {
        if !self.has(ReplicaBug::RevisionNotCarried) {
            transaction.source_revision(revision);
        }
    }

    fn apply(&mut self, transaction: Transaction, revision: u64, now: Time) -> usize {
        let applied = self.server.apply(transaction, now).expect("a valid transaction");
        self.server.source_reached(revision, now);
        applied.removed
    }

    /// Notes a failure of the source after the follower has.
    pub(super) fn note_failure(&mut self, now: Time) {
        if self.follower.failing_since().is_some() {
            self.server.source_unreachable(now);
            if self.has(ReplicaBug::LastStateLost) {
                self.server.apply(Transaction::snapshot(""), now).expect("an empty snapshot");
            }
        }
    }
}

/// Name of an object in the source.
pub(super) fn id(key: source::SourceKey) -> String {
    format!("{}/{}", key.0, source::name(key))
}

fn config(options: &ReplicaOptions) -> ServerConfig {
    let confirmation = match options.confirms {
        true => Confirmation::EachStream,
        false => Confirmation::Off,
    };
    let policy =
        SourcePolicy::default().with_confirmation(confirmation).with_catch_up_timeout(CATCH_UP);
    let readiness = match options.holds_until_ready {
        true => Readiness::HoldRequests,
        false => Readiness::NotReady,
    };
    ServerConfig::default()
        .with_every_type(|config| config.versions = VersionMode::Content)
        // Endpoints that are sent again after clusters would look like those that the client lacks.
        .with_warming(Warming::Off)
        .with_source(policy)
        .with_readiness(readiness)
}
