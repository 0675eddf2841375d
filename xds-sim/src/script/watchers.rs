//! Watchers of a pair's client. They print their notices, and finish handling them or stay busy.

use std::mem;

use xds_core::{
    TypeUrl, WatchId,
    client::{Change, Interest, Notice, Resource},
    xdstp::XdstpName,
};

use super::pair::Pair;
use crate::{Toy, wire_text};

/// A watcher of an application.
#[derive(Debug)]
pub(crate) struct Watcher {
    label: String,
    /// Whether the watcher takes its notices without finishing them.
    is_busy: bool,
    /// Actions to perform inside the next notice, before it is finished.
    actions: Vec<WatcherAction>,
}

/// Action of an application inside a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatcherAction {
    /// Begins watches of these names with this label, which is numbered if there are several names.
    Watch { label: String, type_url: String, names: Vec<String> },
    /// Ends the watch with this label.
    Unwatch(String),
}

impl Pair {
    /// Gives a watch a label in the log and a watcher that handles its notices at once.
    pub fn attach(&mut self, watch: WatchId, label: impl Into<String>) {
        self.watchers
            .insert(watch, Watcher { label: label.into(), is_busy: false, actions: Vec::new() });
    }

    /// Removes the watcher of a watch that has ended.
    pub fn detach(&mut self, watch: WatchId) {
        self.watchers.remove(&watch);
    }

    /// Returns the watch with this label.
    pub(crate) fn watch_labelled(&self, label: &str) -> Option<WatchId> {
        let mut watchers = self.watchers.iter();
        watchers.find(|(_, watcher)| watcher.label == label).map(|(watch, _)| *watch)
    }

    /// Schedules an action for the watcher's next notice.
    pub(crate) fn add_action(&mut self, watch: WatchId, act: WatcherAction) {
        if let Some(watcher) = self.watchers.get_mut(&watch) {
            watcher.actions.push(act);
        }
    }

    /// Performs an action. Returns false if there is no such watch.
    pub(crate) fn act(&mut self, act: WatcherAction) -> bool {
        match act {
            WatcherAction::Watch { label, type_url, names } => {
                let type_url = TypeUrl::from(type_url);
                for (n, name) in names.iter().enumerate() {
                    let label =
                        if names.len() == 1 { label.clone() } else { format!("{label}{n}") };
                    self.begin(label, &type_url, name);
                }
                true
            }
            WatcherAction::Unwatch(label) => {
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

    /// Makes the watcher keep its notices unfinished.
    pub fn make_busy(&mut self, watch: WatchId) {
        if let Some(watcher) = self.watchers.get_mut(&watch) {
            watcher.is_busy = true;
        }
    }

    /// Finishes the watcher's notices, and makes it handle later ones at once.
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
            Notice::ChangesAvailable => {}
            other => self.note(format!("{label}: {other:?}")),
        }
        let actions = self.watchers.get_mut(&watch).map(|watcher| mem::take(&mut watcher.actions));
        for act in actions.unwrap_or_default() {
            if !self.act(act) {
                self.note(format!("{label}: no such watch"));
            }
        }
        if !self.watchers.get(&watch).is_some_and(|watcher| watcher.is_busy) {
            self.follow(watch);
        }
    }

    /// Takes all pending changes of a wildcard or glob watch and finishes them.
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

/// Formats a resource as its watcher prints it.
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
