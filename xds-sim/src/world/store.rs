//! What operators do: what is true, and which server has heard of it.

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

/// What clients are told of a resource that is too long for any response.
pub(crate) const TOO_LONG: StatusCode = StatusCode::ResourceExhausted;

/// Of so many new texts one is too long for any response, where responses are short.
const LONG: u64 = 5;

/// Operators.
impl World {
    /// Sets a resource to a text: the servers that answer for it are told, unless they lag behind.
    pub fn set(&mut self, kind: usize, name: &str, text: &str) {
        self.set_bytes(kind, name, Some(Toy::bytes(name, text)));
    }

    /// Sets a resource to a text that it never had.
    pub fn set_anew(&mut self, kind: usize, name: &str, text: &str) {
        let text = self.new_text(text);
        self.set(kind, name, &text);
    }

    /// Sets a resource to a text that it never had, which clients may use for a time only unless they are
    /// told again. A control plane of the user's own is told of no such time.
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

    /// Sets a resource to whatever bytes, whose first field must be the name, or deletes it.
    pub fn set_bytes(&mut self, kind: usize, name: &str, bytes: Option<Bytes>) {
        self.store(kind, name, bytes.map_or(Word::Gone, |bytes| Word::Set(bytes, None)));
    }

    /// From now on clients that name the resource are told this error, until it is set or deleted; whoever
    /// has it keeps it. A control plane of the user's own knows no errors: nothing happens.
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

    /// What is true of a name beside its resource, in the first view.
    #[must_use]
    pub fn truth_beside(&self, kind: usize, name: &str) -> Beside {
        self.truth_beside_in(0, kind, name)
    }

    /// The same in another view.
    pub(crate) fn truth_beside_in(&self, view: usize, kind: usize, name: &str) -> Beside {
        self.told_beside(&self.truth[view], kind, name)
    }

    /// What a server was told of a name beside its resource, in a view.
    ///
    /// # Panics
    ///
    /// If there is no server or no view at the position.
    #[must_use]
    pub fn beside(&self, server: usize, view: usize, kind: usize, name: &str) -> Beside {
        self.told_beside(&self.servers[server].state[view], kind, name)
    }

    /// What there is beside a resource, for clients: where it is longer than any response may be, those who name it are
    /// told so. A full state is sent however long it is.
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

    /// Whether clients are sent all there is of a type, whenever they are sent any of it.
    pub(crate) fn is_sent_whole(&self, kind: usize) -> bool {
        self.options.variant == Variant::StateOfTheWorld
            && types::is_full_state_in_sotw(self.types[kind].as_str())
    }

    /// How many names of a type a server was told something of, in all views.
    pub(crate) fn known_names(&self, server: usize, kind: usize) -> usize {
        let names = self.servers[server].state.iter().map(|state| {
            let has = &state.has[kind];
            has.len() + state.beside[kind].keys().filter(|name| !has.contains_key(*name)).count()
        });
        names.sum()
    }

    /// A server is told of all that it does not know.
    pub(super) fn catch_up(&mut self, server: usize) {
        let truth = self.truth.clone();
        self.bring_to(server, &truth);
    }

    /// A server is told of all in which it differs from this state.
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
                // It knows no transactions: each change is told by itself.
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

/// Who has accepted what.
impl World {
    /// What servers call a view.
    pub(crate) fn view_name(&self, view: usize) -> ViewName {
        match self.options.views {
            0 | 1 => ViewName::default(),
            _ => names::view(view),
        }
    }

    /// Operators ask a server to be told when all have accepted a change, unless they wait for an earlier one of the
    /// same type.
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

    /// They are told.
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

/// What a server has to be told to have these resources. The end of an error is told with the resource, or with
/// its absence.
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

/// And which errors.
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
