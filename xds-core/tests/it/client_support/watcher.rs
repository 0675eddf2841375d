//! A watcher's view, built from its notifications.

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

/// A watch with its watcher's view.
#[derive(Debug)]
pub struct Watcher {
    pub id: WatchId,
    pub kind: usize,
    /// `None` for a wildcard watch.
    pub name: Option<String>,
    /// Whether the watcher has an unhandled notice.
    pub is_busy: bool,
    /// Whether a wildcard watch has taken every change since the last response with a change for
    /// it.
    pub has_caught_up: bool,
    /// Whether a resource may have been deleted and restored with the same version: a server has
    /// sent invalid messages, or a TTL has expired.
    pub may_have_missed_an_end: bool,
    /// The resources in use.
    view: BTreeMap<String, Held>,
    /// Last reported value and version of each resource.
    told: BTreeMap<String, Resource>,
    /// Whether the received collection has an ambient error; `None` before it was received.
    collection: Option<Ambient>,
    /// The last notice, and the number of responses before it.
    last: Option<(Notice, u64)>,
    /// The last connectivity error of a wildcard watch, and the number of responses before it.
    last_trouble: Option<(WatchError, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Held {
    bytes: Bytes,
    ambient: Ambient,
}

/// Whether a resource in use has an ambient error.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ambient {
    Well,
    Wrong,
}

impl Ambient {
    fn of<T>(error: Option<&T>) -> Self {
        if error.is_some() { Self::Wrong } else { Self::Well }
    }

    /// Replaces the ambient error. It requires a value, and is cleared only if it was reported.
    // IC14 IC28
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

    /// Whether the watch covers this resource.
    pub fn covers(&self, status: &ResourceStatus<'_>) -> bool {
        // A wildcard covers names without an authority.
        let is_plain = !status.name.as_str().starts_with("xdstp://");
        *status.type_url == *TYPES[self.kind]
            && self.name.as_ref().map_or(is_plain, |name| *status.name == **name)
    }

    /// The resources in use.
    pub fn believes(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.view.iter().map(|(name, held)| (&**name, &held.bytes))
    }

    /// Whether the watch covers this type and name.
    pub fn asks_for(&self, kind: usize, name: &str) -> bool {
        let is_named =
            || self.name.as_ref().map_or_else(|| !name.starts_with("xdstp:"), |own| own == name);
        self.kind == kind && is_named()
    }

    /// Whether a response changes anything for the watch; for a wildcard watch, any value.
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

    /// Whether the collection was reported as received.
    pub fn has_collection(&self) -> bool {
        self.collection.is_some()
    }

    /// Whether an error was reported last.
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

    /// Takes a notice, which `responses` responses preceded.
    pub fn hear(&mut self, notice: Notice, responses: u64) -> Result<(), TestCaseError> {
        self.is_busy = true;
        if let Some((last, before)) = self.last.replace((notice.clone(), responses))
            && self.name.is_some()
        {
            // Unpolled notices coalesce: a value may have changed twice, and a connectivity error
            // may have come and gone. A data error is reported again after such an unreported
            // connectivity error.
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

    /// Records that the resource or collection was found not to exist. Even if a connectivity error
    /// replaces it before it is polled, that error may be reported again.
    pub fn is_found_missing(&mut self) {
        self.last_trouble = None;
        self.last.take_if(|(last, _)| {
            matches!(last, Notice::Changed(Err(error))
                if matches!(error.kind(), WatchErrorKind::Unavailable(_)))
        });
    }

    /// Records a failure of a server whose previous failure ended without a response, because the
    /// server kept a stream open in silence for the does-not-exist timeout. The end may not have
    /// been polled, so the same error may follow.
    // X16 IC27
    pub fn server_fails_again(&mut self, server: &str) {
        self.last_trouble.take_if(|(error, _)| error.server() == server);
        self.last.take_if(|(last, _)| match last {
            Notice::Changed(Err(error)) | Notice::Ambient(Some(error)) => {
                error.server() == server && matches!(error.kind(), WatchErrorKind::Unavailable(_))
            }
            _ => false,
        });
    }

    /// Takes a change, which `responses` responses preceded.
    pub fn step(&mut self, change: Change, responses: u64) -> Result<(), TestCaseError> {
        if let Change::Collection(Err(error)) | Change::CollectionAmbient(Some(error)) = &change
            && matches!(error.kind(), WatchErrorKind::Unavailable(_))
        {
            // The same error of another server is a different error.
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

    /// Checks that a watcher that has taken all notices holds the cached values. Unless the server
    /// works, a watcher of a name may additionally have a connectivity error.
    // IC32
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

/// Number of resources and collections whose timer has expired.
pub fn timeouts(client: &Client) -> u64 {
    client.type_stats().map(|stats| stats.timeouts).sum()
}
