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
    parts::{Beside, Plane, State, Word},
    texts,
};
use crate::{Toy, options::Transport, oracle::Event};

/// Error code for resources that exceed the size limit.
pub(crate) const TOO_LONG: StatusCode = StatusCode::ResourceExhausted;

/// With short responses, one in this number of new texts exceeds the size limit.
const LONG: u64 = 5;

/// Operations of operators.
impl World {
    /// Sets the text of a resource. Its servers receive the change unless they lag.
    pub fn set(&mut self, kind: usize, name: &str, text: &str) {
        self.set_bytes(kind, name, Some(Toy::bytes(name, text)));
    }

    /// Sets a resource to a unique text that starts with `text`.
    pub fn set_anew(&mut self, kind: usize, name: &str, text: &str) {
        let text = self.new_text(text);
        self.set(kind, name, &text);
    }

    /// Sets a resource to a unique text, with a TTL. A user-defined control plane receives no TTL.
    pub fn set_for(&mut self, kind: usize, name: &str, text: &str, ttl: Duration) {
        let ttl = Some(ttl).filter(|_| self.config.control_plane.is_none());
        let text = self.new_text(text);
        self.store(kind, name, Word::Set(Toy::bytes(name, &text), ttl));
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
    pub fn delete(&mut self, kind: usize, name: &str) {
        self.set_bytes(kind, name, None);
    }

    /// Sets a resource to any bytes whose first field is the name, or deletes it (`None`).
    pub fn set_bytes(&mut self, kind: usize, name: &str, bytes: Option<Bytes>) {
        self.store(kind, name, bytes.map_or(Word::Gone, |bytes| Word::Set(bytes, None)));
    }

    /// Makes servers report an error to clients that name the resource, until it is set or deleted.
    /// Clients keep a resource that they have. Has no effect with a user-defined control plane.
    pub fn set_error(&mut self, kind: usize, name: &str, code: StatusCode) {
        if self.config.control_plane.is_none() {
            self.store(kind, name, Word::Error(code));
        }
    }

    fn store(&mut self, kind: usize, name: &str, word: Word) {
        if kind >= self.types.len() {
            return;
        }
        for view in 0..self.truth.len() {
            let state = &mut self.truth[view];
            let told_of =
                |state: &State| (state.has[kind].get(name).cloned(), state.beside(kind, name));
            let before = told_of(state);
            word.in_view(view, name).take_effect(kind, name, state);
            self.changes += u64::from(before != told_of(state));
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
                self.apply(server, view, &[(kind, name.into(), word.in_view(view, name))]);
            }
        }
    }

    /// TTL and error of a resource in the first view.
    #[must_use]
    pub fn truth_beside(&self, kind: usize, name: &str) -> Beside {
        self.truth_beside_in(0, kind, name)
    }

    /// TTL and error of a resource in a view.
    pub(crate) fn truth_beside_in(&self, view: usize, kind: usize, name: &str) -> Beside {
        self.told_beside(&self.truth[view], kind, name)
    }

    /// TTL and error of a resource that a server has received, in a view.
    ///
    /// # Panics
    ///
    /// If there is no server or no view at the index.
    #[must_use]
    pub fn beside(&self, server: usize, view: usize, kind: usize, name: &str) -> Beside {
        self.told_beside(&self.servers[server].state[view], kind, name)
    }

    /// Returns the TTL and error as clients receive them: a resource that exceeds the size limit
    /// has an error. Full states have no size limit.
    fn told_beside(&self, state: &State, kind: usize, name: &str) -> Beside {
        let mut beside = state.beside(kind, name);
        if beside.error.is_none()
            && let Some(limit) = self.options.responses.limit()
            && !self.is_sent_whole(kind)
            && state.has[kind].get(name).is_some_and(|bytes| bytes.len() > limit)
        {
            beside.error = Some(TOO_LONG);
        }
        beside
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
            has.len() + state.beside[kind].keys().filter(|name| !has.contains_key(*name)).count()
        });
        names.sum()
    }

    /// Sends a server everything that it lacks.
    pub(super) fn catch_up(&mut self, server: usize) {
        let truth = self.truth.clone();
        self.bring_to(server, &truth);
    }

    /// Sends a server the differences between its state and `states`.
    pub(super) fn bring_to(&mut self, server: usize, states: &[State]) {
        for (view, target) in states.iter().enumerate() {
            let news = news(&self.servers[server].state[view], target, server);
            self.apply(server, view, &news);
            let errors = new_errors(&self.servers[server].state[view], target, server);
            self.apply(server, view, &errors);
        }
    }

    fn apply(&mut self, server: usize, view: usize, changes: &[(usize, Text, Word)]) {
        if changes.is_empty() {
            return;
        }
        let now = self.now;
        let _turn = self.turn_of_server(server, "takes a change");
        let mut transaction = Transaction::in_view(self.view_name(view));
        for (kind, name, word) in changes {
            let node = &mut self.servers[server];
            let type_url = &self.types[*kind];
            word.take_effect(*kind, name, &mut node.state[view]);
            match (&mut node.core, word) {
                (Plane::Core(_), Word::Set(bytes, ttl)) => {
                    let mut options = ResourceOptions::default();
                    options.ttl = *ttl;
                    if self.options.has_aliases() {
                        options.aliases = vec![names::alias_of(name).into()];
                    }
                    transaction.set_with(type_url.clone(), name.as_str(), bytes.clone(), options);
                }
                (Plane::Core(_), Word::Gone) => {
                    transaction.remove(type_url.clone(), name.as_str());
                }
                (Plane::Core(_), Word::Error(code)) => {
                    transaction.set_error(type_url.clone(), name.as_str(), *code, "on purpose");
                }
                (Plane::Own(plane), word) => plane.changed(type_url, name, word.bytes(), now),
            }
            let lane = node.lane;
            let short = texts::kind(&self.types, *kind);
            let said = word.bytes().map(|bytes| &**bytes).unwrap_or_default();
            self.recorder.local(now, lane, said, || texts::stored(short, name, word));
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
                Ok(applied) => self.ask_who_accepts(server, view, changes, applied.sequence),
                Err(error) => {
                    let what = format!("a change is refused: {error}");
                    self.break_rule(&crate::oracle::NO_PANIC, what);
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
    pub(crate) fn view_name(&self, view: usize) -> ViewName {
        match self.options.views {
            0 | 1 => ViewName::default(),
            _ => names::view(view),
        }
    }

    /// Asks a server to report when all clients have accepted a change, unless an earlier one of
    /// the same type is pending.
    fn ask_who_accepts(
        &mut self,
        server: usize,
        view: usize,
        changes: &[(usize, Text, Word)],
        sequence: u64,
    ) {
        let (name, now) = (self.view_name(view), self.now);
        for (kind, ..) in changes {
            let (node, kind) = (&mut self.servers[server], *kind);
            if self.options.transport != Transport::Streams || !node.asked.insert((view, kind)) {
                continue;
            }
            let Plane::Core(core) = &mut node.core else { continue };
            let type_url = self.types[kind].as_str();
            if let Ok(sequence) = core.tell_when_converged(&name, type_url, sequence, now) {
                self.emit(&Event::Asked { server, view, kind, sequence });
            }
        }
    }

    /// Handles a server's report that all clients have accepted a change.
    pub(super) fn have_accepted(
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
fn news(known: &State, target: &State, server: usize) -> Vec<(usize, Text, Word)> {
    let mut changes = Vec::new();
    for (kind, truth) in target.has.iter().enumerate() {
        let has = &known.has[kind];
        let is_over = |name: &Text| {
            let had_error = known.beside(kind, name).error.is_some();
            had_error && target.beside(kind, name).error.is_none()
        };
        let names = has.keys().chain(known.beside[kind].keys().filter(|name| is_over(name)));
        let gone = names.filter(|name| !truth.contains_key(*name));
        changes.extend(gone.map(|name| (kind, name.clone(), Word::Gone)));
        let new = truth.iter().filter_map(|(name, bytes)| {
            let ttl = target.beside(kind, name).ttl;
            let is_same = has.get(name) == Some(bytes)
                && ttl == known.beside(kind, name).ttl
                && !is_over(name);
            let is_new = names::serves(server, name) && !is_same;
            is_new.then(|| (kind, name.clone(), Word::Set(bytes.clone(), ttl)))
        });
        changes.extend(new);
    }
    changes
}

/// Returns the errors of `target` that a server lacks.
fn new_errors(known: &State, target: &State, server: usize) -> Vec<(usize, Text, Word)> {
    let mut errors = Vec::new();
    for (kind, beside) in target.beside.iter().enumerate() {
        let new = beside.iter().filter_map(|(name, beside)| {
            let code = beside.error.filter(|code| known.beside(kind, name).error != Some(*code))?;
            names::serves(server, name).then(|| (kind, name.clone(), Word::Error(code)))
        });
        errors.extend(new);
    }
    errors
}
