//! Rollouts on a server.

use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};

use super::{
    active::ActiveRollout,
    candidate::{self, CandidateViews},
    clients::Side,
    events::{NodeDetail, RolloutEvent, StartError},
    machine::{
        CommandError, MetricVerdict, Rollout, RolloutCommand, RolloutOutput, RolloutProgress,
    },
    policy::{OnNewer, PolicyError, RolloutPolicy},
    shared::{PeerNews, Sharing, StoreResult},
    state::{RolloutId, RolloutState},
    table::RolloutPhase,
};
use crate::{
    id::StreamId,
    selector::NodeFacts,
    server::{Applied, Server, ServerOutput, Transaction, TransactionError},
    text::ViewName,
    time::Time,
    zoo::{self, Bug},
};

/// Maximum number of superseded rollouts whose changes are kept.
const MOST_SUPERSEDED: usize = 100;

/// Change with its policy, before it is rolled out.
#[derive(Clone, Debug)]
struct QueuedChange {
    id: RolloutId,
    change: Vec<Transaction>,
    policy: RolloutPolicy,
}

/// Rollouts on a server, one at a time.
///
/// The host passes each output of the server to [`handle_output`](Self::handle_output) before it
/// acts on it, and gives clients their views with [`assign`](Self::assign). While no rollout is under
/// way, this keeps and does nothing, except with [`NodeDetail::Full`]. All changes of views that a
/// rollout concerns have to be made by [`start`](Self::start) or [`apply`](Self::apply), and their
/// layers must not be changed meanwhile.
///
/// ```
/// use xds_core::rollout::{
///     Cohort, RolloutCommand, RolloutEvent, RolloutId, RolloutPhase, RolloutPolicy, RolloutStep,
///     ServerRollouts, Share,
/// };
/// use xds_core::server::{Server, ServerConfig, Transaction};
/// use xds_core::{Time, types};
///
/// let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
/// let mut rollouts = ServerRollouts::default();
///
/// let mut change = Transaction::new();
/// change.set(types::CLUSTER, "backend", &b"\x0a\x07backend"[..]);
/// let policy = RolloutPolicy::new([RolloutStep::new(Cohort::of(Share::percent(5)))]);
/// rollouts.start(&mut server, RolloutId(1), vec![change], policy, None, Time::ZERO)?;
///
/// // Nobody is connected. Without waiting for clients:
/// assert_eq!(rollouts.progress().map(|it| it.phase), Some(RolloutPhase::Deploying));
/// assert!(server.resource(types::CLUSTER, "backend").is_none());
/// rollouts.command(&mut server, RolloutCommand::Promote, Time::ZERO)?;
/// assert!(server.resource(types::CLUSTER, "backend").is_some());
/// assert!(matches!(rollouts.poll_event(), Some(RolloutEvent::Ended { .. })));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct ServerRollouts {
    pub(super) detail: NodeDetail,
    sharing: Sharing,
    pub(super) nodes: BTreeMap<StreamId, NodeFacts>,
    peers: Vec<Arc<str>>,
    newest: Option<RolloutId>,
    pub(super) active: Option<ActiveRollout>,
    queued: Option<QueuedChange>,
    /// Changes of superseded rollouts, until the source states whether one has completed: another
    /// replica may have stored that meanwhile.
    superseded: BTreeMap<RolloutId, Vec<Transaction>>,
    /// Newest state of the source.
    state: Option<RolloutState>,
    events: VecDeque<RolloutEvent>,
}

impl ServerRollouts {
    /// Returns rollouts of which none is under way.
    #[must_use]
    pub fn new(detail: NodeDetail, sharing: Sharing) -> Self {
        Self { detail, sharing, ..Self::default() }
    }

    /// Starts a rollout, or continues the stored one with the same number. Transactions for the same
    /// view are applied in order.
    ///
    /// If a rollout is under way, the new policy decides ([`RolloutPolicy::on_newer`]): the change is
    /// queued, or it supersedes that rollout, whose change is then part of this one unless a
    /// [snapshot](Transaction::snapshot) replaces it.
    ///
    /// `stored` is the state that the source has, if any.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the policy or the change is invalid.
    pub fn start(
        &mut self,
        server: &mut Server,
        id: RolloutId,
        change: Vec<Transaction>,
        policy: RolloutPolicy,
        stored: Option<RolloutState>,
        now: Time,
    ) -> Result<(), StartError> {
        self.check(id, &policy, stored.as_ref())?;
        if let Some(stored) = stored {
            self.observed(server, stored, now);
        }
        let is_emergency = policy.steps.is_empty();
        let is_queued = policy.on_newer == OnNewer::Queue && !is_emergency;
        if is_queued && self.active.is_some() {
            for transaction in &change {
                server.prepare_preview(transaction)?;
            }
            let earlier = self.queued.take().map(|it| it.change).unwrap_or_default();
            self.queued = Some(QueuedChange { id, change: combined(earlier, change), policy });
            self.newest = Some(id);
            return Ok(());
        }
        let earlier = self.active.as_ref().map(|it| it.views.change().to_vec());
        let queued = self.queued.as_ref().map(|it| it.change.clone());
        let earlier = combined(earlier.unwrap_or_default(), queued.unwrap_or_default());
        self.launch(server, QueuedChange { id, change: combined(earlier, change), policy }, now)
    }

    /// Applies a transaction for all clients at once. If a rollout concerns its view, the candidate gets
    /// it too, and it is part of the change of the rollout from now on, in place of what that has of
    /// the same resources. The returned [sequence number](Applied::sequence) is then that of the
    /// newer one of both transactions.
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the transaction is invalid or exceeds a limit.
    pub fn apply(
        &mut self,
        server: &mut Server,
        transaction: Transaction,
        now: Time,
    ) -> Result<Applied, TransactionError> {
        let needs_copy = self.active.is_some() || !self.superseded.is_empty();
        let copy = needs_copy.then(|| transaction.clone());
        let mut applied = server.apply(transaction, now)?;
        let Some(copy) = copy else { return Ok(applied) };
        if let Some(active) = &mut self.active
            && let Some(in_candidate) = active.views.apply(server, &copy, now)
        {
            applied.sequence = in_candidate.sequence;
        }
        let queued = self.queued.iter_mut().map(|it| &mut it.change);
        for change in queued.chain(self.superseded.values_mut()) {
            candidate::update(change, &copy);
        }
        Ok(applied)
    }

    /// Removes a resource of a view for all clients, unless a client of any cohort requests it by name
    /// ([`Server::remove_unless_named`]). Returns `None` if a client does.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`apply`](Self::apply).
    pub fn remove_unless_named(
        &mut self,
        server: &mut Server,
        view: &ViewName,
        type_url: &str,
        name: &str,
        now: Time,
    ) -> Result<Option<Applied>, TransactionError> {
        let removal = server.removal_unless_named(view, type_url, name);
        removal.map(|removal| self.apply(server, removal, now)).transpose()
    }

    /// Handles an output of the server, before the host acts on it.
    pub fn handle_output(&mut self, server: &mut Server, output: &ServerOutput, now: Time) {
        match output {
            ServerOutput::Observed(observation) => self.observe(server, observation, now),
            ServerOutput::Close(stream, _) | ServerOutput::Finished(stream) => {
                self.left(server, *stream, now);
            }
            _ => {}
        }
    }

    /// Assigns a view to a client, or the candidate in its place. Returns whether the client has it
    /// ([`Server::assign`]).
    pub fn assign(
        &mut self,
        server: &mut Server,
        stream: StreamId,
        view: &ViewName,
        now: Time,
    ) -> bool {
        match &mut self.active {
            Some(it) if it.rollout.side(stream) == Some(Side::Candidate) => {
                let candidate = it.views.candidate(server, view, now);
                let is_assigned = server.assign(stream, &candidate, now);
                self.note_progress(server, stream, now);
                is_assigned
            }
            _ => server.assign(stream, view, now),
        }
    }

    /// Marks the resources of the server as complete ([`Server::set_ready`]). Clients of the cohort that
    /// waited for that see the candidate.
    pub fn set_ready(&mut self, server: &mut Server, now: Time) {
        server.set_ready(now);
        let Some(active) = &mut self.active else { return };
        let members: Vec<StreamId> = active.rollout.members().collect();
        for stream in members {
            let view = server.view_of(stream);
            if view.is_some_and(|view| active.views.stable(view) == view) {
                active.move_client(server, stream, Side::Candidate, now);
            }
        }
        self.carry_out(server, now);
    }

    /// Carries out a command.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Rollout::command`], or that no rollout is under way.
    pub fn command(
        &mut self,
        server: &mut Server,
        command: RolloutCommand,
        now: Time,
    ) -> Result<(), CommandError> {
        let active = self.active.as_mut().ok_or(CommandError::NoRollout { command })?;
        active.rollout.command(command, now)?;
        self.carry_out(server, now);
        Ok(())
    }

    /// Notes the verdict of an external metric ([`Rollout::metric`]).
    pub fn metric(&mut self, server: &mut Server, name: &str, verdict: MetricVerdict, now: Time) {
        self.update(server, now, |rollout| rollout.metric(name, verdict, now));
    }

    /// Notes the result of storing a state ([`RolloutEvent::Store`]).
    pub fn stored(
        &mut self,
        server: &mut Server,
        state: &RolloutState,
        result: StoreResult,
        now: Time,
    ) {
        match &result {
            StoreResult::Stored => self.note_state(server, state.clone(), now),
            StoreResult::Conflict(current) => self.note_state(server, current.clone(), now),
            StoreResult::Unavailable => {}
        }
        self.update(server, now, |rollout| rollout.stored(state, result, now));
    }

    /// Notes a state that was read from the source.
    pub fn observed(&mut self, server: &mut Server, state: RolloutState, now: Time) {
        self.note_state(server, state.clone(), now);
        self.update(server, now, |rollout| rollout.observed(state, now));
    }

    /// Notes news of another replica, by its name ([`Rollout::peer`]).
    pub fn peer(&mut self, server: &mut Server, name: &Arc<str>, news: PeerNews, now: Time) {
        self.peers.retain(|it| it != name);
        if news != PeerNews::Left {
            self.peers.push(name.clone());
        }
        self.update(server, now, |rollout| rollout.peer(name, news, now));
    }

    /// Handles the timers that are due. Calling it early has no effect.
    pub fn handle_timeout(&mut self, server: &mut Server, now: Time) {
        self.update(server, now, |rollout| rollout.handle_timeout(now));
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.active.as_ref()?.rollout.poll_timeout()
    }

    /// Returns the next event. O(1).
    #[must_use]
    pub fn poll_event(&mut self) -> Option<RolloutEvent> {
        self.events.pop_front()
    }

    /// Returns the rollout under way.
    #[must_use]
    pub fn rollout(&self) -> Option<&Rollout> {
        self.active.as_ref().map(|it| &it.rollout)
    }

    /// Returns the progress of the rollout under way.
    #[must_use]
    pub fn progress(&self) -> Option<RolloutProgress> {
        self.rollout().map(Rollout::progress)
    }

    /// Returns the number of the rollout that waits until the one under way has ended.
    #[must_use]
    pub fn queued(&self) -> Option<RolloutId> {
        self.queued.as_ref().map(|it| it.id)
    }

    fn check(
        &self,
        id: RolloutId,
        policy: &RolloutPolicy,
        stored: Option<&RolloutState>,
    ) -> Result<(), StartError> {
        policy.validate()?;
        if let Some(step) = policy.needs_facts().filter(|_| self.detail == NodeDetail::Id) {
            return Err(PolicyError::NodesNotKept { step }.into());
        }
        if let Some(newest) = self.newest.filter(|it| *it >= id) {
            return Err(StartError::Older { id, newest });
        }
        let own = policy.steps.len();
        match stored.filter(|it| it.id == id && it.steps != own) {
            Some(stored) => Err(StartError::OtherPolicy { stored: stored.steps, own }),
            None => Ok(()),
        }
    }

    /// Begins a rollout in place of the one under way.
    fn launch(
        &mut self,
        server: &mut Server,
        next: QueuedChange,
        now: Time,
    ) -> Result<(), StartError> {
        let QueuedChange { id, change, policy } = next;
        let views = CandidateViews::new(server, id, change, now)?;
        let rollout = match Rollout::new(id, policy, self.sharing, self.state.clone(), now) {
            Ok(rollout) => rollout,
            Err(error) => {
                views.drop_all(server, now);
                return Err(error.into());
            }
        };
        // What waits is part of this change.
        self.queued = None;
        if let Some(active) = self.active.as_ref().filter(|_| self.sharing == Sharing::Replicas) {
            let id = active.rollout.progress().id;
            self.superseded.insert(id, active.views.change().to_vec());
            if self.superseded.len() > MOST_SUPERSEDED {
                self.superseded.pop_first();
            }
        }
        self.update(server, now, |rollout| rollout.supersede(now));
        self.newest = Some(id);
        let active = self.active.insert(ActiveRollout {
            rollout,
            views,
            error: None,
            before: BTreeMap::new(),
        });
        for name in &self.peers {
            active.rollout.peer(name, PeerNews::Joined, now);
        }
        let identified: Vec<_> = server.identified().collect();
        for (stream, node_id) in identified {
            let id_only = || NodeFacts::with_id(&*node_id);
            match self.nodes.get(&stream) {
                Some(node) => active.rollout.joined(stream, node, now),
                None => active.rollout.joined(stream, &id_only(), now),
            };
        }
        active.rollout.begin(now);
        self.carry_out(server, now);
        Ok(())
    }

    fn note_state(&mut self, server: &mut Server, state: RolloutState, now: Time) {
        if self.state.as_ref().is_some_and(|it| it.generation >= state.generation) {
            return;
        }
        for transaction in self.superseded.remove(&state.stable).unwrap_or_default() {
            // It was possible before, and a limit can only have become smaller.
            let _ = server.apply(transaction, now);
        }
        self.superseded = self.superseded.split_off(&state.id);
        self.state = Some(state);
    }

    /// Changes the rollout under way, if there is one, and carries out its outputs.
    pub(super) fn update(
        &mut self,
        server: &mut Server,
        now: Time,
        change: impl FnOnce(&mut Rollout),
    ) {
        if let Some(active) = &mut self.active {
            change(&mut active.rollout);
            self.carry_out(server, now);
        }
    }

    /// Carries out the outputs of the rollout under way.
    pub(super) fn carry_out(&mut self, server: &mut Server, now: Time) {
        while let Some(active) = &mut self.active
            && let Some(output) = active.rollout.poll_output()
        {
            match output {
                RolloutOutput::Move(stream, side) => active.move_client(server, stream, side, now),
                RolloutOutput::Store(state) => self.events.push_back(RolloutEvent::Store(state)),
                RolloutOutput::Report(report) => {
                    self.events.push_back(RolloutEvent::Report(report))
                }
                RolloutOutput::Apply => active.apply(server, now),
                RolloutOutput::Ended(_) => self.end(server, now),
            }
        }
    }

    fn end(&mut self, server: &mut Server, now: Time) {
        let Some(ActiveRollout { rollout, views, error, .. }) = self.active.take() else { return };
        if !zoo::is(Bug::CandidateKept) {
            views.drop_all(server, now);
        }
        self.events.push_back(RolloutEvent::Ended { progress: rollout.progress(), error });
        let Some(next) = self.queued.take() else { return };
        let id = next.id;
        if let Err(StartError::Change(error)) = self.launch(server, next, now) {
            let progress = RolloutProgress {
                id,
                phase: RolloutPhase::RolledBack,
                step: 0,
                steps: 0,
                members: 0,
                acknowledged: 0,
                reason: None,
            };
            self.events.push_back(RolloutEvent::Ended { progress, error: Some(error) });
        }
    }
}

/// Returns the transactions of an earlier change and of a newer one, without those that a snapshot
/// of the newer one replaces.
fn combined(mut earlier: Vec<Transaction>, newer: Vec<Transaction>) -> Vec<Transaction> {
    let is_replaced = |it: &Transaction| {
        newer.iter().any(|newer| newer.is_snapshot() && newer.view() == it.view())
    };
    earlier.retain(|it| !is_replaced(it));
    earlier.extend(newer);
    earlier
}
