//! Applications in a world: watchers that take notices, say what they are told, and finish with them
//! or not.

use xds_core::{
    WatchId,
    client::{Change, Notice, Resource},
};

use crate::{Toy, World, wire_text};

/// An application's watcher.
#[derive(Debug)]
pub(crate) struct Watcher {
    label: String,
    /// A busy watcher takes its notices but does not finish with them.
    is_busy: bool,
}

impl World {
    /// Gives a watch a name in the log and a watcher that handles its notices at once.
    pub fn attach(&mut self, watch: WatchId, label: impl Into<String>) {
        self.watchers.insert(watch, Watcher { label: label.into(), is_busy: false });
    }

    /// Forgets a watcher, after `unwatch`.
    pub fn detach(&mut self, watch: WatchId) {
        self.watchers.remove(&watch);
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
