//! What the requests of one type on one stream come to: the subscription, as a server has to take it.

use std::collections::BTreeSet;

use crate::world::message::{Names, Request};

/// A subscription of one type on one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    /// Whether there was a request at all.
    pub(super) was_requested: bool,
    /// Whether a name was ever listed, `*` included: until then, nothing means everything.
    pub(super) has_listed: bool,
    pub(super) subscribed: BTreeSet<String>,
}

impl Fold {
    /// Takes one more request.
    pub(super) fn take(&mut self, request: &Request) {
        let is_first = !std::mem::replace(&mut self.was_requested, true);
        match &request.names {
            Names::Whole(names) => {
                self.has_listed |= !names.is_empty();
                self.subscribed = match self.has_listed {
                    true => names.iter().cloned().collect(),
                    false => BTreeSet::from(["*".to_owned()]),
                };
            }
            Names::Change { subscribe, unsubscribe, .. } => {
                if !self.has_listed && !subscribe.is_empty() {
                    // Naming something ends what naming nothing meant.
                    self.subscribed.remove("*");
                }
                self.has_listed |= !subscribe.is_empty();
                if is_first && subscribe.is_empty() {
                    self.subscribed.insert("*".into());
                }
                self.subscribed.extend(subscribe.iter().cloned());
                self.subscribed.retain(|name| !unsubscribe.contains(name));
            }
        }
    }

    /// Whether everything is subscribed.
    pub(super) fn has_all(&self) -> bool {
        self.subscribed.contains("*")
    }

    /// Whether a resource is subscribed, by name or with all others. A wildcard is for what states no
    /// authority.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.subscribed.contains(name) || (self.has_all() && !name.starts_with("xdstp:"))
    }
}
