//! What a watcher makes of what it is told.

use std::{collections::BTreeMap, mem};

use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{
    Client, WatchId,
    client::{Change, Notice, Resource, ResourceStatus, WatchError, WatchErrorKind},
};

use super::{
    TYPES,
    fleet::oracle::{Known, Statuses},
};

/// A watch, and what its watcher believes.
#[derive(Debug)]
pub struct Watcher {
    pub id: WatchId,
    pub kind: usize,
    /// `None` watches everything.
    pub name: Option<String>,
    /// Whether it has taken a notice that it is not done with.
    pub is_busy: bool,
    /// Whether a wildcard watch has taken every change since a response last brought it one.
    pub has_caught_up: bool,
    /// Whether a resource may have ended and come back under the same version: a server has lied, or a
    /// TTL has run out.
    pub may_have_missed_an_end: bool,
    /// The resources in use.
    view: BTreeMap<String, Held>,
    /// Each of them as it was told last, with its version.
    told: BTreeMap<String, Resource>,
    /// Once the collection as a whole was received: whether something is wrong with it.
    collection: Option<Ambient>,
    /// The last notice, and how many responses there had been by then.
    last: Option<(Notice, u64)>,
    /// The same of what a wildcard watch was last told of its server.
    last_trouble: Option<(WatchError, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Held {
    bytes: Bytes,
    ambient: Ambient,
}

/// Whether something is wrong beside what is in use.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ambient {
    Well,
    Wrong,
}

impl Ambient {
    fn of<T>(error: Option<&T>) -> Self {
        if error.is_some() { Self::Wrong } else { Self::Well }
    }

    /// An error comes after the value (IC14), and is cleared only if it was told (IC28).
    fn replace<T>(before: Option<&mut Self>, error: Option<&T>) -> Result<(), TestCaseError> {
        let Some(ambient) = before else {
            return Err(TestCaseError::fail("ambient without a value (IC14)"));
        };
        let before = mem::replace(ambient, Self::of(error));
        prop_assert!(error.is_some() || before == Self::Wrong, "cleared untold (IC28)");
        Ok(())
    }
}

impl Watcher {
    pub fn new(id: WatchId, kind: usize, name: Option<String>) -> Self {
        Self {
            id,
            kind,
            name,
            is_busy: false,
            has_caught_up: true,
            may_have_missed_an_end: false,
            view: BTreeMap::new(),
            told: BTreeMap::new(),
            collection: None,
            last: None,
            last_trouble: None,
        }
    }

    /// Whether the watch is for this resource, alone or among others.
    pub fn covers(&self, status: &ResourceStatus<'_>) -> bool {
        // A wildcard asks for names that state no authority.
        let is_plain = !status.name.as_str().starts_with("xdstp://");
        *status.type_url == *TYPES[self.kind]
            && self.name.as_ref().map_or(is_plain, |name| *status.name == **name)
    }

    /// The resources in use.
    pub fn believes(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.view.iter().map(|(name, held)| (&**name, &held.bytes))
    }

    /// Whether the watch is for a resource of this type and name, alone or among others.
    pub fn asks_for(&self, kind: usize, name: &str) -> bool {
        let is_named =
            || self.name.as_ref().map_or_else(|| !name.starts_with("xdstp:"), |own| own == name);
        self.kind == kind && is_named()
    }

    /// Whether a response brings the watch anything: a wildcard, another resource than the one in use.
    pub fn has_news_in(&self, before: &Statuses, after: &Statuses) -> bool {
        if let Some(name) = &self.name {
            let key = (self.kind, name.clone());
            let news = |known: &Statuses| known.get(&key).map(Known::news);
            return news(before) != news(after);
        }
        after.iter().any(|(key, known)| {
            let had = before.get(key).and_then(|known| known.bytes.as_ref());
            let is_other = known.bytes.is_some() && known.bytes.as_ref() != had;
            is_other && self.asks_for(key.0, &key.1)
        })
    }

    /// Whether the collection was received, as far as the watcher knows.
    pub fn has_collection(&self) -> bool {
        self.collection.is_some()
    }

    /// Whether it was last told that something is wrong.
    pub fn knows_of_trouble(&self) -> bool {
        let is_wrong = |ambient: &Ambient| *ambient == Ambient::Wrong;
        match &self.name {
            Some(name) => self.view.get(name).map_or_else(
                || matches!(self.last, Some((Notice::Changed(Err(_)), _))),
                |held| is_wrong(&held.ambient),
            ),
            None => self.collection.as_ref().is_none_or(is_wrong),
        }
    }

    /// Takes a notice, before which there were so many responses.
    pub fn hear(&mut self, notice: Notice, responses: u64) -> Result<(), TestCaseError> {
        self.is_busy = true;
        if let Some((last, before)) = self.last.replace((notice.clone(), responses))
            && self.name.is_some()
        {
            // A value may have been another one in between, trouble may have been over. What is wrong
            // with the resource is told again after trouble that came and went unheard.
            let needed = match &notice {
                Notice::Changed(Ok(_)) => 2,
                Notice::Changed(Err(error)) | Notice::Ambient(Some(error)) => {
                    u64::from(matches!(error.kind(), WatchErrorKind::Unavailable(_)))
                }
                _ => 0,
            };
            let is_news = last != notice || responses >= before + needed;
            prop_assert!(is_news, "{:?} is told again (IC16, IC27)", notice);
        }
        let name = self.name.clone().unwrap_or_default();
        match notice {
            Notice::Changed(Ok(resource)) => {
                prop_assert_eq!(resource.name.as_str(), &*name, "nobody asked for it (IC13)");
                self.view.insert(name, Held { bytes: resource.bytes, ambient: Ambient::Well });
            }
            Notice::Changed(Err(_)) => self.view.clear(),
            Notice::Ambient(error) => {
                let held = self.view.get_mut(&name);
                Ambient::replace(held.map(|held| &mut held.ambient), error.as_ref())?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The resource, or the collection, was found not to exist: news, even if trouble replaces it before it is heard. Then the
    /// trouble that was told before may be told again.
    pub fn is_found_missing(&mut self) {
        self.last_trouble = None;
        self.last.take_if(|(last, _)| {
            matches!(last, Notice::Changed(Err(error))
                if matches!(error.kind(), WatchErrorKind::Unavailable(_)))
        });
    }

    /// Takes a change, before which there were so many responses.
    pub fn step(&mut self, change: Change, responses: u64) -> Result<(), TestCaseError> {
        if let Change::Collection(Err(error)) | Change::CollectionAmbient(Some(error)) = &change
            && matches!(error.kind(), WatchErrorKind::Unavailable(_))
        {
            // The same of another server is something else.
            let before = self.last_trouble.replace((error.clone(), responses));
            let is_news =
                before.as_ref().is_none_or(|(last, heard)| last != error || responses > *heard);
            prop_assert!(is_news, "{:?} of everything is told again (IC27)", error);
        }
        match change {
            Change::Resource { name, result: Ok(resource) } => {
                let told = self.told.insert(name.to_string(), resource.clone());
                let is_news = self.may_have_missed_an_end || told.as_ref() != Some(&resource);
                prop_assert!(is_news, "{} is told again (IC16)", name);
                let held = Held { bytes: resource.bytes, ambient: Ambient::Well };
                self.view.insert(name.to_string(), held);
            }
            Change::Resource { name, result: Err(_) } => {
                self.view.remove(name.as_str());
                self.told.remove(name.as_str());
            }
            Change::Ambient { name, error } => {
                let held = self.view.get_mut(name.as_str());
                Ambient::replace(held.map(|held| &mut held.ambient), error.as_ref())?;
            }
            Change::Collection(result) => self.collection = result.ok().map(|()| Ambient::Well),
            Change::CollectionAmbient(error) => {
                Ambient::replace(self.collection.as_mut(), error.as_ref())?;
            }
            Change::Resync => {
                self.last_trouble = None;
                self.view.clear();
                self.told.clear();
            }
            _ => {}
        }
        Ok(())
    }

    /// A watcher that has heard everything holds what the cache holds (IC32). While the server is
    /// well there is no other error than that of the resource; otherwise the watcher of a name may
    /// have been told of the server, too.
    pub fn agrees_with<'a>(
        &self,
        cache: impl Iterator<Item = ResourceStatus<'a>>,
        is_server_well: bool,
    ) -> Result<(), TestCaseError> {
        let mut cached: BTreeMap<String, Held> = cache
            .filter(|status| self.covers(status))
            .filter_map(|status| {
                let ambient = Ambient::of(status.error);
                Some((status.name.to_string(), Held { bytes: status.bytes?.clone(), ambient }))
            })
            .collect();
        if let Some(name) = &self.name
            && !is_server_well
            && let Some((believed, held)) = self.view.get(name).zip(cached.get_mut(name))
            && held.ambient == Ambient::Well
        {
            held.ambient = believed.ambient;
        }
        prop_assert_eq!(&self.view, &cached, "{} sees what is cached (IC32)", self.id);
        Ok(())
    }
}

/// How many resources and collections did not come in time.
pub fn timeouts(client: &Client) -> u64 {
    client.type_stats().map(|stats| stats.timeouts).sum()
}
