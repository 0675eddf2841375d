//! The client's applications: watchers that take notices, say what they are told, and finish with them
//! or not.

use std::mem;

use xds_core::{
    TypeUrl, WatchId,
    client::{Change, Interest, Notice, Resource},
    xdstp::XdstpName,
};

use super::pair::Pair;
use crate::{Toy, wire_text};

/// An application's watcher.
#[derive(Debug)]
pub(crate) struct Watcher {
    label: String,
    /// A busy watcher takes its notices but does not finish with them.
    is_busy: bool,
    /// What the watcher does when it is told something next, before it finishes with that.
    acts: Vec<Act>,
}

/// What an application does in a watcher's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It begins watches with this label, of these names; a number tells them apart if there are several.
    Watch { label: String, type_url: String, names: Vec<String> },
    /// It ends the watch with this label.
    Unwatch(String),
}

impl Pair {
    /// Gives a watch a name in the log and a watcher that handles its notices at once.
    pub fn attach(&mut self, watch: WatchId, label: impl Into<String>) {
        self.watchers
            .insert(watch, Watcher { label: label.into(), is_busy: false, acts: Vec::new() });
    }

    /// Forgets a watcher, after `unwatch`.
    pub fn detach(&mut self, watch: WatchId) {
        self.watchers.remove(&watch);
    }

    /// The watch with this label.
    pub(crate) fn watch_labelled(&self, label: &str) -> Option<WatchId> {
        let mut watchers = self.watchers.iter();
        watchers.find(|(_, watcher)| watcher.label == label).map(|(watch, _)| *watch)
    }

    /// The watcher is going to do this in its next turn.
    pub(crate) fn act_later(&mut self, watch: WatchId, act: Act) {
        if let Some(watcher) = self.watchers.get_mut(&watch) {
            watcher.acts.push(act);
        }
    }

    /// An application does something. False if there is no such watch.
    pub(crate) fn act(&mut self, act: Act) -> bool {
        match act {
            Act::Watch { label, type_url, names } => {
                let type_url = TypeUrl::from(type_url);
                for (n, name) in names.iter().enumerate() {
                    let label =
                        if names.len() == 1 { label.clone() } else { format!("{label}{n}") };
                    self.begin(label, &type_url, name);
                }
                true
            }
            Act::Unwatch(label) => {
                let Some(watch) = self.watch_labelled(&label) else { return false };
                self.client.unwatch(watch, self.now);
                self.detach(watch);
                true
            }
        }
    }

    fn begin(&mut self, label: String, type_url: &TypeUrl, name: &str) {
        let is_glob = XdstpName::parse(name).is_ok_and(|name| name.is_glob());
        let interest = match name {
            "*" => Interest::Wildcard,
            glob if is_glob => Interest::Glob(glob),
            name => Interest::Name(name),
        };
        match self.client.watch(type_url, interest, self.now) {
            Ok(watch) => self.attach(watch, label),
            Err(error) => self.note(format!("{label}: refused: {error}")),
        }
    }

    /// From now on the watcher does not finish with its notices.
    pub fn make_busy(&mut self, watch: WatchId) {
        if let Some(watcher) = self.watchers.get_mut(&watch) {
            watcher.is_busy = true;
        }
    }

    /// The watcher finishes with what it was told, and is quick from now on.
    pub fn make_done(&mut self, watch: WatchId) {
        if let Some(watcher) = self.watchers.get_mut(&watch) {
            watcher.is_busy = false;
        }
        self.follow(watch);
    }

    pub(crate) fn notify(&mut self, watch: WatchId, notice: &Notice) {
        let label = self.label(watch);
        match notice {
            Notice::Changed(Ok(resource)) => {
                self.note(format!("{label}: {}", text_of(resource)));
            }
            Notice::Changed(Err(error)) => self.note(format!("{label}: no value: {error}")),
            Notice::Ambient(Some(error)) => self.note(format!("{label}: ambient: {error}")),
            Notice::Ambient(None) => self.note(format!("{label}: ambient cleared")),
            Notice::Behind => {}
            other => self.note(format!("{label}: {other:?}")),
        }
        let acts = self.watchers.get_mut(&watch).map(|watcher| mem::take(&mut watcher.acts));
        for act in acts.unwrap_or_default() {
            if !self.act(act) {
                self.note(format!("{label}: there is no such watch to end"));
            }
        }
        if !self.watchers.get(&watch).is_some_and(|watcher| watcher.is_busy) {
            self.follow(watch);
        }
    }

    /// Takes what the watch of a wildcard or a glob has ahead and finishes with it.
    fn follow(&mut self, watch: WatchId) {
        let label = self.label(watch);
        while let Some(change) = self.client.next_change(watch) {
            let line = match change {
                Change::Resource { result: Ok(resource), .. } => text_of(&resource),
                Change::Resource { result: Err(error), .. } => format!("gone: {error}"),
                Change::Ambient { error: Some(error), .. }
                | Change::CollectionAmbient(Some(error)) => format!("ambient: {error}"),
                Change::Ambient { name, error: None } => format!("{name}: ambient cleared"),
                Change::CollectionAmbient(None) => "ambient cleared".into(),
                Change::Collection(Ok(())) => "collection received".into(),
                Change::Collection(Err(error)) => format!("no collection: {error}"),
                Change::Resync => "resync".into(),
                other => format!("{other:?}"),
            };
            self.note(format!("{label}: {line}"));
        }
        self.client.handled(watch, self.now);
    }

    fn label(&self, watch: WatchId) -> String {
        self.watchers.get(&watch).map_or_else(|| watch.to_string(), |w| w.label.clone())
    }
}

/// A resource as its watcher prints it, with what the server said beside it.
fn text_of(resource: &Resource) -> String {
    let text = Toy::text_of(&resource.bytes);
    let mut line = format!("{}={text} version {}", resource.name, resource.version);
    match resource.decode_metadata() {
        Ok(metadata) if resource.metadata.is_some() => {
            line.push_str(&format!(" meta={}", wire_text::names_of(&metadata)));
        }
        Ok(_) => {}
        Err(why) => line.push_str(&format!(" meta undecodable: {why}")),
    }
    if !resource.control_plane.is_empty() {
        line.push_str(&format!(" from {}", resource.control_plane));
    }
    line
}
