//! Operations of operators: the current resources, and their distribution to servers.

use std::time::Duration;

use bytes::Bytes;
use xds_core::{
    TypeUrl, ViewName,
    server::{ResourceOptions, StatusCode, Transaction},
    service::Variant,
    types,
};

use super::{
    World,
    message::Text,
    names,
    parts::{Plane, ResourceExtras, StoreChange, StoreState},
    texts,
};
use crate::{Toy, options::Transport, world::events::Event};

/// Error code for resources that exceed the size limit.
pub(crate) const TOO_LONG: StatusCode = StatusCode::ResourceExhausted;

/// With short responses, one in this number of new texts exceeds the size limit.
const LONG: u64 = 5;

/// Operations of operators.
impl World {
    /// Sets the text of a resource. Its servers receive the change unless they lag.
    ///
    /// # Panics
    ///
    /// Panics if the run has no such kind of resource. [`Options::types`](crate::Options) sets their
    /// number.
    #[track_caller]
    pub fn set(&mut self, kind: usize, name: &str, text: &str) {
        self.set_bytes(kind, name, Some(Toy::bytes(name, text)));
    }

    /// Sets a resource to a unique text that starts with `text`.
    ///
    /// # Panics
    ///
    /// Panics if the run has no such kind of resource.
    #[track_caller]
    pub fn set_new_text(&mut self, kind: usize, name: &str, text: &str) {
        let text = self.new_text(text);
        self.set(kind, name, &text);
    }

    /// Sets a resource to a unique text, with a TTL. A user-defined control plane receives no TTL.
    ///
    /// # Panics
    ///
    /// Panics if the run has no such kind of resource.
    #[track_caller]
    pub fn set_for(&mut self, kind: usize, name: &str, text: &str, ttl: Duration) {
        let ttl = Some(ttl).filter(|_| self.participants.control_plane.is_none());
        let text = self.new_text(text);
        self.store(kind, name, StoreChange::Set(Toy::bytes(name, &text), ttl));
    }

    fn new_text(&mut self, text: &str) -> String {
        self.revision += 1;
        let text = format!("{text} {}", self.revision);
        match self.options.responses.limit().filter(|_| self.revision.is_multiple_of(LONG)) {
            Some(limit) => format!("{text} {}", "and so on ".repeat(limit / 8)),
            None => text,
        }
    }

    /// Deletes a resource.
    ///
    /// # Panics
    ///
    /// Panics if the run has no such kind of resource.
    #[track_caller]
    pub fn delete(&mut self, kind: usize, name: &str) {
        self.set_bytes(kind, name, None);
    }

    /// Sets a resource to any bytes whose first field is the name, or deletes it (`None`).
    ///
    /// # Panics
    ///
    /// Panics if the run has no such kind of resource.
    #[track_caller]
    pub fn set_bytes(&mut self, kind: usize, name: &str, bytes: Option<Bytes>) {
        self.store(
            kind,
            name,
            bytes.map_or(StoreChange::Gone, |bytes| StoreChange::Set(bytes, None)),
        );
    }

    /// Makes servers report an error to clients that name the resource, until it is set or deleted.
    /// Clients keep a resource that they have. Has no effect with a user-defined control plane.
    ///
    /// # Panics
    ///
    /// Panics if the run has no such kind of resource.
    #[track_caller]
    pub fn set_error(&mut self, kind: usize, name: &str, code: StatusCode) {
        if self.participants.control_plane.is_none() {
            self.store(kind, name, StoreChange::Error(code));
        }
    }

    #[track_caller]
    fn store(&mut self, kind: usize, name: &str, change: StoreChange) {
        self.require_kind(kind);
        for view in 0..self.truth.len() {
            let state = &mut self.truth[view];
            let stored =
                |state: &StoreState| (state.has[kind].get(name).cloned(), state.extras(kind, name));
            let before = stored(state);
            change.in_view(view, name).take_effect(kind, name, state);
            self.changes += u64::from(before != stored(state));
        }
        let bytes = self.truth[0].has[kind].get(name).cloned();
        self.emit(&Event::Stored { kind, name, bytes: bytes.as_ref() });
        for server in 0..self.servers.len() {
            if !names::serves(server, name) {
                continue;
            }
            if let Some(fault) = self.servers[server].lags_for {
                self.takes_effect(fault);
                continue;
            }
            for view in 0..self.truth.len() {
                self.apply(server, view, &[(kind, name.into(), change.in_view(view, name))]);
            }
        }
    }

    /// TTL and error of a resource in the first view.
    #[must_use]
    pub fn truth_extras(&self, kind: usize, name: &str) -> ResourceExtras {
        self.truth_extras_in(0, kind, name)
    }

    /// TTL and error of a resource in a view.
    pub(crate) fn truth_extras_in(&self, view: usize, kind: usize, name: &str) -> ResourceExtras {
        self.effective_extras(&self.truth[view], kind, name)
    }

    /// TTL and error of a resource that a server has received, in a view.
    ///
    /// # Panics
    ///
    /// Panics if there is no server or no view at the index.
    #[must_use]
    pub fn extras(&self, server: usize, view: usize, kind: usize, name: &str) -> ResourceExtras {
        self.effective_extras(&self.servers[server].state[view], kind, name)
    }

    /// Returns the TTL and error as clients receive them: a resource that exceeds the size limit
    /// has an error. Full states have no size limit.
    fn effective_extras(&self, state: &StoreState, kind: usize, name: &str) -> ResourceExtras {
        let mut extras = state.extras(kind, name);
        if extras.error.is_none()
            && let Some(limit) = self.options.responses.limit()
            && !self.is_sent_whole(kind)
            && state.has[kind].get(name).is_some_and(|bytes| bytes.len() > limit)
        {
            extras.error = Some(TOO_LONG);
        }
        extras
    }

    /// Whether each response of a type contains its full state.
    pub(crate) fn is_sent_whole(&self, kind: usize) -> bool {
        self.options.variant == Variant::StateOfTheWorld
            && types::is_full_state_in_sotw(self.types[kind].as_str())
    }

    /// Number of names of a type for which a server has received a resource or an error, in all
    /// views.
    pub(crate) fn known_names(&self, server: usize, kind: usize) -> usize {
        let names = self.servers[server].state.iter().map(|state| {
            let has = &state.has[kind];
            has.len() + state.extras[kind].keys().filter(|name| !has.contains_key(*name)).count()
        });
        names.sum()
    }

    /// Sends a server everything that it lacks.
    pub(super) fn catch_up(&mut self, server: usize) {
        let truth = self.truth.clone();
        self.update_to(server, &truth);
    }

    /// Sends a server the differences between its state and `states`.
    pub(super) fn update_to(&mut self, server: usize, states: &[StoreState]) {
        for (view, target) in states.iter().enumerate() {
            let changes_to = changes_to(&self.servers[server].state[view], target, server);
            self.apply(server, view, &changes_to);
            let errors = new_errors(&self.servers[server].state[view], target, server);
            self.apply(server, view, &errors);
        }
    }

    fn apply(&mut self, server: usize, view: usize, changes: &[(usize, Text, StoreChange)]) {
        if changes.is_empty() {
            return;
        }
        let now = self.now;
        let _guard = self.act_as_server(server, "applies a change");
        let mut transaction = Transaction::in_view(self.view_name(view).clone());
        for (kind, name, change) in changes {
            let node = &mut self.servers[server];
            let type_url = &self.types[*kind];
            change.take_effect(*kind, name, &mut node.state[view]);
            match (&mut node.core, change) {
                (Plane::Core(_), StoreChange::Set(bytes, ttl)) => {
                    let mut options = ResourceOptions::default();
                    options.ttl = *ttl;
                    if self.options.has_aliases() {
                        options.aliases = vec![names::alias_of(name).into()];
                    }
                    transaction.set_with(type_url.clone(), name.as_str(), bytes.clone(), options);
                }
                (Plane::Core(_), StoreChange::Gone) => {
                    transaction.remove(type_url.clone(), name.as_str());
                }
                (Plane::Core(_), StoreChange::Error(code)) => {
                    transaction.set_error(type_url.clone(), name.as_str(), *code, "on purpose");
                }
                (Plane::Own(plane), change) => plane.changed(type_url, name, change.bytes(), now),
            }
            let lane = node.lane;
            let short = texts::kind(&self.types, *kind);
            let new_bytes = change.bytes().map(|bytes| &**bytes).unwrap_or_default();
            self.recorder.local(now, lane, new_bytes, || texts::stored(short, name, change));
            let bytes = self.servers[server].state[view].has[*kind].get(name).cloned();
            let bytes = bytes.as_ref();
            self.emit(&Event::Applied { server, view, kind: *kind, name, bytes });
            if matches!(self.servers[server].core, Plane::Own(_)) {
                // A control plane has no transactions and receives each change alone.
                self.drain_server(server);
            }
        }
        if let Plane::Core(core) = &mut self.servers[server].core {
            match core.apply(transaction, now) {
                Ok(applied) => self.ask_for_convergence(server, view, changes, applied.sequence),
                Err(error) => {
                    let what = format!("a change is rejected: {error}");
                    self.break_rule(&crate::world::events::NO_PANIC, what);
                }
            }
        }
        if self.options.transport == Transport::Files {
            let mut kinds: Vec<usize> = changes.iter().map(|(kind, ..)| *kind).collect();
            kinds.dedup();
            kinds.into_iter().for_each(|kind| self.touch_files(server, Some(kind)));
        }
        self.drain_server(server);
    }
}

/// Acceptance of changes by all clients.
impl World {
    /// Name of a view at the servers.
    pub(crate) fn view_name(&self, view: usize) -> &ViewName {
        &self.view_names[view]
    }

    /// Asks a server to report when all clients have accepted a change, unless an earlier one of
    /// the same type is pending.
    fn ask_for_convergence(
        &mut self,
        server: usize,
        view: usize,
        changes: &[(usize, Text, StoreChange)],
        sequence: u64,
    ) {
        let (name, now) = (self.view_name(view).clone(), self.now);
        for (kind, ..) in changes {
            let (node, kind) = (&mut self.servers[server], *kind);
            if self.options.transport != Transport::Streams || !node.asked.insert((view, kind)) {
                continue;
            }
            let Plane::Core(core) = &mut node.core else { continue };
            let type_url = self.types[kind].as_str();
            if let Ok(sequence) = core.notify_when_converged(&name, type_url, sequence, now) {
                self.emit(&Event::Asked { server, view, kind, sequence });
            }
        }
    }

    /// Handles a server's report that all clients have accepted a change.
    pub(super) fn converged(
        &mut self,
        server: usize,
        view: &ViewName,
        type_url: &TypeUrl,
        sequence: u64,
    ) {
        let view = names::view_at(view);
        let Some(kind) = self.types.iter().position(|known| known == type_url) else { return };
        self.servers[server].asked.remove(&(view, kind));
        self.emit(&Event::Converged { server, view, kind, sequence });
    }
}

/// Returns the changes that give a server the resources of `target`. The end of an error is a
/// change or removal of its resource.
fn changes_to(
    known: &StoreState,
    target: &StoreState,
    server: usize,
) -> Vec<(usize, Text, StoreChange)> {
    let mut changes = Vec::new();
    for (kind, truth) in target.has.iter().enumerate() {
        let has = &known.has[kind];
        let is_over = |name: &Text| {
            let had_error = known.extras(kind, name).error.is_some();
            had_error && target.extras(kind, name).error.is_none()
        };
        let names = has.keys().chain(known.extras[kind].keys().filter(|name| is_over(name)));
        let gone = names.filter(|name| !truth.contains_key(*name));
        changes.extend(gone.map(|name| (kind, name.clone(), StoreChange::Gone)));
        let new = truth.iter().filter_map(|(name, bytes)| {
            let ttl = target.extras(kind, name).ttl;
            let is_same = has.get(name) == Some(bytes)
                && ttl == known.extras(kind, name).ttl
                && !is_over(name);
            let is_new = names::serves(server, name) && !is_same;
            is_new.then(|| (kind, name.clone(), StoreChange::Set(bytes.clone(), ttl)))
        });
        changes.extend(new);
    }
    changes
}

/// Returns the errors of `target` that a server lacks.
fn new_errors(
    known: &StoreState,
    target: &StoreState,
    server: usize,
) -> Vec<(usize, Text, StoreChange)> {
    let mut errors = Vec::new();
    for (kind, extras) in target.extras.iter().enumerate() {
        let new = extras.iter().filter_map(|(name, extras)| {
            let code = extras.error.filter(|code| known.extras(kind, name).error != Some(*code))?;
            names::serves(server, name).then(|| (kind, name.clone(), StoreChange::Error(code)))
        });
        errors.extend(new);
    }
    errors
}
