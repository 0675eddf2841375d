//! Oracles: what clients observe, and what replicas send, judged by the history of the source.

use xds_core::{
    WatchId,
    client::{Change, Notice, WatchError, WatchErrorKind},
    service::Variant,
};

use super::{
    client::ReplicaSubscription,
    link::{ReplicaLink, StatedVersions, hash_of, read_response},
    rules::{CONFIRMED, NEVER_OLDER, SENT_AGAIN, STATED, WHOLE},
    situations::ReplicaSituation,
    source::{NAMES, SourceKey, TYPES, all_keys, name, state_text, type_url},
    world::ReplicaWorld,
};
use crate::Toy;

impl ReplicaWorld {
    /// Returns the revision that the versions in a first request stand for: that of the last change
    /// of what the client states to have.
    pub(super) fn floor_of(&self, client: usize, kind: usize, stated: &StatedVersions) -> u64 {
        let application = &self.clients[client];
        let states = |key: &SourceKey| match application.variant {
            Variant::StateOfTheWorld => !stated.version.is_empty(),
            Variant::Incremental => stated.resources.contains_key(&name(*key)),
        };
        let stated = application
            .values
            .iter()
            .filter(|(key, value)| key.0 == kind && value.is_some() && states(key));
        let written = stated.filter_map(|(key, _)| {
            self.source.written(*key, *application.seen.get(key)?).map(|it| it.at)
        });
        written.max().unwrap_or_default()
    }

    /// Judges a response as it leaves a replica.
    pub(super) fn judge_response(&mut self, link: usize, message: &[u8]) {
        let ReplicaLink { replica, variant, .. } = self.links[link];
        self.links[link].reached = self.replicas[replica].server.source_status().revision;
        self.judge_whole(replica);
        let Some(response) = read_response(variant, message) else { return };
        let Some(kind) = TYPES.iter().position(|it| *it == response.type_url) else { return };
        if !self.links[link].answered.insert(kind) {
            return;
        }
        let Some(stated) = self.links[link].stated.get(&kind) else { return };
        // What changes meanwhile, and then has its content again, may be sent again.
        let is_same_since = |key| !self.source.is_changed_after(key, stated.reached);
        let again = match variant {
            Variant::StateOfTheWorld => {
                let is_same = hash_of(&response.version) == hash_of(&stated.version);
                (kind == 0
                    && stated.is_wildcard
                    && !stated.version.is_empty()
                    && is_same
                    && (0..NAMES).all(|name| is_same_since((kind, name))))
                .then(|| stated.version.clone())
            }
            Variant::Incremental => {
                let is_same = |(it, version): &(&String, &String)| {
                    let key =
                        (0..NAMES).map(|number| (kind, number)).find(|&key| name(key) == **it);
                    let has_it = stated.resources.get(*it);
                    has_it.is_some_and(|it| hash_of(it) == hash_of(version))
                        && key.is_some_and(is_same_since)
                };
                response
                    .resources
                    .iter()
                    .find(is_same)
                    .map(|(name, version)| format!("{name} at {version}"))
            }
        };
        if let Some(again) = again {
            let what = format!("replica-{replica} sends {again}, which the client stated to have");
            self.violate(&SENT_AGAIN, what);
        }
    }

    /// Compares the state of a replica with that of the source at the revision that it has reached.
    pub(super) fn judge_whole(&mut self, replica: usize) {
        let server = &self.replicas[replica].server;
        let reached = server.source_status().revision.unwrap_or_default();
        let known = self.replicas[replica].follower.revision();
        if known.is_none() {
            return self
                .violate(&WHOLE, format!("replica-{replica} answers before its first list"));
        }
        for key in all_keys() {
            let held = server.resource(type_url(key).as_str(), &name(key));
            let held = held.map(|bytes| Toy::text_of(bytes));
            let written = self.source.written(key, reached).map(|it| it.text);
            if held != written {
                let what = format!(
                    "replica-{replica} has {held:?} for {key:?} at revision {reached}, not {written:?}"
                );
                return self.violate(&WHOLE, what);
            }
        }
    }

    /// Judges a stream that is answered without a confirmation.
    pub(super) fn judge_unconfirmed(&mut self, link: usize) {
        let replica = self.links[link].replica;
        self.situations.note(ReplicaSituation::ServedUnconfirmed);
        self.links[link].is_confirmed = false;
        self.note(|| format!("replica-{replica}: serves without a confirmation"));
        if self.is_source_reachable(replica) {
            let what = format!("replica-{replica} could reach the source");
            self.violate(&CONFIRMED, what);
        }
    }

    /// Notes from which stream a client gets its state of a type.
    pub(super) fn judge_read(&mut self, link: usize, message: &[u8]) {
        let ReplicaLink { client, variant, .. } = self.links[link];
        let Some(response) = read_response(variant, message) else { return };
        if let Some(kind) = TYPES.iter().position(|it| *it == response.type_url) {
            self.clients[client].read_from[kind] = Some(link);
        }
    }

    /// Judges what an application is told.
    pub(super) fn observe(&mut self, at: usize, watch: WatchId, notice: Notice) {
        let watched = self.clients[at].watches.get(&watch).copied();
        match (watched, notice) {
            (Some(ReplicaSubscription::Name(key)), Notice::Changed(Ok(resource))) => {
                self.observe_value(at, key, Some(Toy::text_of(&resource.bytes)));
            }
            (
                Some(ReplicaSubscription::Name(key)),
                Notice::Changed(Err(error)) | Notice::Ambient(Some(error)),
            ) => self.observe_error(at, key, &error),
            (Some(ReplicaSubscription::Name(key)), Notice::Ambient(None)) => {
                self.observe_end_of_error(at, key)
            }
            (Some(ReplicaSubscription::Wildcard(kind)), Notice::ChangesAvailable) => {
                while let Some(change) = self.clients[at].core.next_change(watch) {
                    self.observe_change(at, kind, change);
                }
            }
            _ => {}
        }
        self.clients[at].core.handled(watch, self.now);
    }

    fn observe_change(&mut self, at: usize, kind: usize, change: Change) {
        let key_of = |it: &str| (0..NAMES).map(|name| (kind, name)).find(|&key| name(key) == it);
        match change {
            Change::Resource { name, result: Ok(resource) } => {
                if let Some(key) = key_of(name.as_str()) {
                    self.observe_value(at, key, Some(Toy::text_of(&resource.bytes)));
                }
            }
            Change::Resource { name, result: Err(error) }
            | Change::Ambient { name, error: Some(error) } => {
                if let Some(key) = key_of(name.as_str()) {
                    self.observe_error(at, key, &error);
                }
            }
            Change::Ambient { name, error: None } => {
                if let Some(key) = key_of(name.as_str()) {
                    self.observe_end_of_error(at, key);
                }
            }
            _ => {}
        }
    }

    fn observe_error(&mut self, at: usize, key: SourceKey, error: &WatchError) {
        let is_absent = matches!(
            error.kind(),
            WatchErrorKind::Deleted | WatchErrorKind::Absent | WatchErrorKind::DoesNotExist(_)
        );
        if is_absent {
            let is_silent = matches!(error.kind(), WatchErrorKind::DoesNotExist(_));
            self.observe_state(at, key, None, is_silent);
        }
    }

    /// The value in use is valid again: a removed resource exists again with equal content.
    fn observe_end_of_error(&mut self, at: usize, key: SourceKey) {
        if self.clients[at].values.get(&key) == Some(&None)
            && let Some(text) = self.clients[at].cached.get(&key).cloned()
        {
            self.observe_value(at, key, Some(text));
        }
    }

    fn observe_value(&mut self, at: usize, key: SourceKey, value: Option<String>) {
        self.observe_state(at, key, value, false);
    }

    /// Judges an observed state of a resource: a value, or its absence, which silence may mean too.
    fn observe_state(&mut self, at: usize, key: SourceKey, value: Option<String>, is_silent: bool) {
        let text = value.as_deref();
        self.note(|| format!("client-{at}: observes {}", state_text(key, text)));
        let application = &self.clients[at];
        if application.values.get(&key) == Some(&value) {
            // An earlier state may be reported again, such as the reason of an absence once a
            // connectivity error has ended.
            return;
        }
        let seen = application.seen.get(&key).copied().unwrap_or_default();
        // Silence on the newest stream means that a resource does not exist.
        let read_from = application.read_from[key.0].map(|link| &self.links[link]);
        let newest = self.links.iter().rfind(|it| it.client == at);
        let link = read_from.filter(|it| it.is_open).or(newest);
        if value.is_none() && application.values.get(&key).is_some_and(Option::is_some) {
            self.situations.note(ReplicaSituation::ObservedRemoval);
        }
        // A response has nothing newer than what its replica had reached.
        let newest = link.and_then(|it| it.reached).filter(|_| !is_silent).unwrap_or(u64::MAX);
        let first = self.source.first_with(key, text, seen).filter(|first| *first <= newest);
        let revision = match first {
            Some(revision) => revision,
            // The documented exception: the source could not be reached.
            None if link.is_some_and(|it| !it.is_confirmed) => {
                let stated = link.and_then(|it| it.stated.get(&key.0));
                let floor = stated.map_or(0, |it| it.floor).min(seen);
                let last = self.source.last_with(key, text, newest);
                if last.is_none_or(|last| last < floor) {
                    let what = format!(
                        "client-{at} observes {text:?} of {key:?}, which ended at {last:?}, on a \
                         stream that states revision {floor}"
                    );
                    return self.violate(&STATED, what);
                }
                self.situations.note(ReplicaSituation::ObservedOlder);
                last.unwrap_or(floor)
            }
            None => {
                let what = format!(
                    "client-{at} observes {text:?} of {key:?} after it has seen revision {seen}"
                );
                return self.violate(&NEVER_OLDER, what);
            }
        };
        let application = &mut self.clients[at];
        application.seen.insert(key, revision);
        application.cached.extend(value.clone().map(|text| (key, text)));
        application.values.insert(key, value);
    }
}
