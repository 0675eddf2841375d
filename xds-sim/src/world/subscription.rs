//! Subscription that results from the requests of one type on one stream.

use std::collections::BTreeSet;

use super::{
    alias_of, glob_covers, is_alias, is_glob,
    message::{Names, Request, Text},
};

/// Name of the wildcard.
pub(crate) const ALL: &str = "*";

/// A subscription of one type on one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubscriptionState {
    /// Whether there was a request.
    pub(crate) was_requested: bool,
    /// Whether there was exactly one request.
    pub(crate) is_first: bool,
    /// Whether a name was ever listed, including `*`. Until then, an empty list is the legacy
    /// wildcard.
    pub(crate) has_listed: bool,
    /// Value of `has_listed` before the newest request.
    pub(crate) had_listed: bool,
    pub(crate) subscribed: BTreeSet<Text>,
    /// List of the last state-of-the-world request. Most requests repeat it.
    listed: Option<Vec<Text>>,
    /// Number of globs.
    globs: usize,
    /// Number of aliases.
    aliases: usize,
    /// Names that the newest request added.
    pub(crate) gained: BTreeSet<Text>,
    /// Names that the newest request removed.
    pub(crate) lost: BTreeSet<Text>,
}

impl SubscriptionState {
    /// Applies a request.
    pub(crate) fn take(&mut self, request: &Request) {
        self.is_first = !std::mem::replace(&mut self.was_requested, true);
        self.had_listed = self.has_listed;
        self.gained.clear();
        self.lost.clear();
        match &request.names {
            Names::Whole(names) => {
                self.has_listed |= !names.is_empty();
                let all = [Text::from(ALL)];
                self.replace(if self.has_listed { names } else { &all });
            }
            Names::Change { subscribe, unsubscribe, .. } => {
                self.listed = None;
                if !self.has_listed && !subscribe.is_empty() {
                    // The first name ends the legacy wildcard.
                    self.lose(ALL);
                }
                self.has_listed |= !subscribe.is_empty();
                if self.is_first && subscribe.is_empty() {
                    self.gain(&ALL.into());
                }
                subscribe.iter().for_each(|name| self.gain(name));
                unsubscribe.iter().for_each(|name| self.lose(name));
            }
        }
    }

    fn replace(&mut self, names: &[Text]) {
        if self.listed.as_deref() == Some(names) {
            return;
        }
        self.listed = Some(names.to_vec());
        let all: BTreeSet<&str> = names.iter().map(Text::as_str).collect();
        let gone = self.subscribed.iter().filter(|name| !all.contains(name.as_str()));
        let gone: Vec<Text> = gone.cloned().collect();
        gone.iter().for_each(|name| self.lose(name));
        names.iter().for_each(|name| self.gain(name));
    }

    fn gain(&mut self, name: &Text) {
        if !self.subscribed.insert(name.clone()) {
            return;
        }
        self.globs += usize::from(is_glob(name));
        self.aliases += usize::from(is_alias(name));
        if !self.lost.remove(name) {
            self.gained.insert(name.clone());
        }
    }

    fn lose(&mut self, name: &str) {
        let Some(name) = self.subscribed.take(name) else { return };
        self.globs -= usize::from(is_glob(&name));
        self.aliases -= usize::from(is_alias(&name));
        if !self.gained.remove(&name) {
            self.lost.insert(name);
        }
    }

    /// Whether the wildcard is subscribed.
    pub(crate) fn has_all(&self) -> bool {
        self.subscribed.contains(ALL)
    }

    /// Whether a name was subscribed before the newest request.
    pub(crate) fn had(&self, name: &str) -> bool {
        self.subscribed.contains(name) && !self.gained.contains(name) || self.lost.contains(name)
    }

    /// Whether a resource is subscribed by name, alias, glob or wildcard.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.covers_as_such(name) || self.names_other(name)
    }

    /// Whether a resource is subscribed by name, glob or wildcard, but not by alias. A wildcard
    /// covers only names without an authority.
    pub(crate) fn covers_as_such(&self, name: &str) -> bool {
        self.names_as_such(name) || self.has_all() && !name.starts_with("xdstp:")
    }

    /// Returns the alias of a resource if it is subscribed.
    pub(crate) fn other_name(&self, name: &str) -> Option<Text> {
        let other = (self.aliases > 0).then(|| alias_of(name))?;
        self.subscribed.get(&*other).cloned()
    }

    /// Whether a resource is subscribed by name, alias or glob.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.names_as_such(name) || self.names_other(name)
    }

    fn names_as_such(&self, name: &str) -> bool {
        self.subscribed.contains(name)
            || self.globs > 0 && self.subscribed.iter().any(|own| glob_covers(own, name))
    }

    fn names_other(&self, name: &str) -> bool {
        self.aliases > 0 && self.subscribed.contains(&*alias_of(name))
    }
}
