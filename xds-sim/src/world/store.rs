//! What operators do: what is true, and which server has heard of it.

use std::time::Duration;

use bytes::Bytes;
use xds_core::server::{ResourceOptions, StatusCode, Transaction};

use super::{
    World,
    message::Text,
    names,
    parts::{Beside, Plane, Word},
    texts,
};
use crate::{Toy, options::Transport, oracle::Event};

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
        format!("{text} {}", self.revision)
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
        let Some(known) = self.truth.get_mut(kind) else { return };
        word.take_effect(name, known, &mut self.truth_beside[kind]);
        let bytes = self.truth[kind].get(name).cloned();
        self.emit(&Event::Stored { kind, name, bytes: bytes.as_ref() });
        for server in 0..self.servers.len() {
            if names::serves(server, name) && !self.servers[server].is_lagging {
                self.apply(server, &[(kind, name.into(), word.clone())]);
            }
        }
    }

    /// What is true of a name beside its resource.
    #[must_use]
    pub fn truth_beside(&self, kind: usize, name: &str) -> Beside {
        let of_type = self.truth_beside.get(kind);
        of_type.and_then(|it| it.get(name)).copied().unwrap_or_default()
    }

    /// What a server was told of a name beside its resource.
    ///
    /// # Panics
    ///
    /// If there is no server at the position.
    #[must_use]
    pub fn beside(&self, server: usize, kind: usize, name: &str) -> Beside {
        let of_type = self.servers[server].beside.get(kind);
        of_type.and_then(|it| it.get(name)).copied().unwrap_or_default()
    }

    /// How many names of a type a server was told something of.
    pub(crate) fn known_names(&self, server: usize, kind: usize) -> usize {
        let node = &self.servers[server];
        let has = &node.has[kind];
        has.len() + node.beside[kind].keys().filter(|name| !has.contains_key(*name)).count()
    }

    /// A server is told of all that it does not know.
    pub(super) fn catch_up(&mut self, server: usize) {
        let mut changes = Vec::new();
        for (kind, truth) in self.truth.iter().enumerate() {
            let node = &self.servers[server];
            let has = &node.has[kind];
            // The end of an error is told with the resource, or with its absence.
            let is_over = |name: &Text| {
                let is_reported = |beside: &Beside| beside.error.is_some();
                node.beside[kind].get(name).is_some_and(is_reported)
                    && !self.truth_beside[kind].get(name).is_some_and(is_reported)
            };
            let known = has.keys().chain(node.beside[kind].keys().filter(|name| is_over(name)));
            let gone = known.filter(|name| !truth.contains_key(*name));
            changes.extend(gone.map(|name| (kind, name.clone(), Word::Gone)));
            let ttl_of = |beside: Option<&Beside>| beside.and_then(|beside| beside.ttl);
            let new = truth.iter().filter_map(|(name, bytes)| {
                let ttl = ttl_of(self.truth_beside[kind].get(name));
                let is_same = has.get(name) == Some(bytes)
                    && ttl == ttl_of(node.beside[kind].get(name))
                    && !is_over(name);
                let is_new = names::serves(server, name) && !is_same;
                is_new.then(|| (kind, name.clone(), Word::Set(bytes.clone(), ttl)))
            });
            changes.extend(new);
        }
        self.apply(server, &changes);
        let mut errors = Vec::new();
        for (kind, beside) in self.truth_beside.iter().enumerate() {
            let known = &self.servers[server].beside[kind];
            let told = |name: &Text| known.get(name).and_then(|beside| beside.error);
            let new = beside.iter().filter_map(|(name, beside)| {
                let code = beside.error.filter(|code| told(name) != Some(*code))?;
                names::serves(server, name).then(|| (kind, name.clone(), Word::Error(code)))
            });
            errors.extend(new);
        }
        self.apply(server, &errors);
    }

    fn apply(&mut self, server: usize, changes: &[(usize, Text, Word)]) {
        if changes.is_empty() {
            return;
        }
        let now = self.now;
        let mut transaction = Transaction::new();
        for (kind, name, word) in changes {
            let node = &mut self.servers[server];
            let type_url = &self.types[*kind];
            word.take_effect(name, &mut node.has[*kind], &mut node.beside[*kind]);
            match (&mut node.core, word) {
                (Plane::Core(_), Word::Set(bytes, ttl)) => {
                    let mut options = ResourceOptions::default();
                    options.ttl = *ttl;
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
            let bytes = self.servers[server].has[*kind].get(name).cloned();
            self.emit(&Event::Applied { server, kind: *kind, name, bytes: bytes.as_ref() });
            if matches!(self.servers[server].core, Plane::Own(_)) {
                // It knows no transactions: each change is told by itself.
                self.drain_server(server);
            }
        }
        if let Plane::Core(core) = &mut self.servers[server].core
            && let Err(error) = core.apply(transaction, now)
        {
            self.break_rule(&crate::oracle::NO_PANIC, format!("a change is refused: {error}"));
        }
        if self.options.transport == Transport::Files {
            let mut kinds: Vec<usize> = changes.iter().map(|(kind, ..)| *kind).collect();
            kinds.dedup();
            kinds.into_iter().for_each(|kind| self.touch_files(server, Some(kind)));
        }
        self.drain_server(server);
    }
}
