//! Faults of a response and the message of its NACK.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{fmt, hash::BuildHasher as _};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Invalid resources of a response with their reasons, in the order of the response.
///
/// All are counted, but the text is limited, because servers limit the size of requests.
// AN-09
#[derive(Debug)]
pub(crate) struct Faults {
    found: Vec<(FaultLocation, String)>,
    /// Current length of the message.
    bytes: usize,
    limit: usize,
    count: u64,
    left_out: u64,
    has_unnamed: bool,
}

/// Location of a fault in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultLocation {
    /// Position among the resources.
    Resource(usize),
    /// Position among the `resource_errors` of
    /// [xRFC TP3](https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md).
    Error(usize),
}

const SEPARATOR: &str = "; ";

impl Faults {
    pub(crate) fn new(limit: usize) -> Self {
        Self { found: Vec::new(), bytes: 0, limit, count: 0, left_out: 0, has_unnamed: false }
    }

    /// Adds a fault of a named resource.
    pub(crate) fn add(&mut self, place: FaultLocation, name: &str, reason: &str) {
        self.push(place, || alloc::format!("{place} ({name}): {reason}"));
    }

    /// Adds a fault of a resource whose name is unknown.
    pub(crate) fn add_unnamed(&mut self, place: FaultLocation, reason: &str) {
        self.has_unnamed = true;
        self.push(place, || alloc::format!("{place}: {reason}"));
    }

    fn push(&mut self, place: FaultLocation, fault: impl FnOnce() -> String) {
        self.count += 1;
        if self.bytes >= self.limit {
            self.left_out += 1;
            return;
        }
        let fault = fault();
        let fault = cut(&fault, self.limit - self.bytes);
        self.bytes += fault.len() + SEPARATOR.len();
        self.found.push((place, String::from(fault)));
    }

    /// Returns whether there is a fault of a resource whose name is unknown. It may be any of the
    /// resources missing from the response.
    pub(crate) fn has_unnamed(&self) -> bool {
        self.has_unnamed
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the message of the NACK, or `None` without faults.
    pub(crate) fn into_message(mut self) -> Option<Arc<str>> {
        if self.count == 0 {
            return None;
        }
        self.found.sort_by_key(|&(place, _)| place);
        let texts: Vec<&str> = self.found.iter().map(|(_, text)| &**text).collect();
        let message = texts.join(SEPARATOR);
        if self.left_out == 0 {
            return Some(message.into());
        }
        let note = alloc::format!("; and {} more", self.left_out);
        let kept = cut(&message, self.limit.saturating_sub(note.len()));
        Some(alloc::format!("{kept}{note}").into())
    }
}

impl fmt::Display for FaultLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(index) => write!(f, "resource {index}"),
            Self::Error(index) => write!(f, "resource error {index}"),
        }
    }
}

/// Returns the longest prefix of `text` within `limit` bytes that ends at a character boundary.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// Names in a response that were not requested, used to detect duplicates.
#[derive(Debug)]
pub(crate) struct UnrequestedNames {
    /// Hashes of the names under a secret seed, and whether each occurred twice.
    seen: HashTable<(u64, bool)>,
    hasher: FixedState,
    has_duplicates: bool,
}

impl UnrequestedNames {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seen: HashTable::new(), hasher: FixedState::with_seed(seed), has_duplicates: false }
    }

    pub(crate) fn note(&mut self, name: &str) {
        let hash = self.hasher.hash_one(name);
        match self.seen.find_mut(hash, |&(other, _)| other == hash) {
            Some((_, came_twice)) => {
                *came_twice = true;
                self.has_duplicates = true;
            }
            None => drop(self.seen.insert_unique(hash, (hash, false), |&(other, _)| other)),
        }
    }

    pub(crate) fn has_duplicates(&self) -> bool {
        self.has_duplicates
    }

    pub(crate) fn is_duplicate(&self, name: &str) -> bool {
        let hash = self.hasher.hash_one(name);
        self.seen.find(hash, |&(other, _)| other == hash).is_some_and(|&(_, twice)| twice)
    }
}

#[cfg(test)]
mod tests {
    use crate::client::response::nack_message::*;

    #[test]
    fn nack_message_lists_errors_in_response_order_up_to_the_limit() {
        let mut faults = Faults::new(80);
        faults.add_unnamed(FaultLocation::Error(0), "worst");
        faults.add_unnamed(FaultLocation::Resource(3), "worse");
        faults.add(FaultLocation::Resource(0), "a", "bad");
        assert_eq!(
            faults.into_message().as_deref(),
            Some("resource 0 (a): bad; resource 3: worse; resource error 0: worst"),
            "in the order of the response, whatever was found first"
        );

        let mut faults = Faults::new(64);
        for index in 0..100 {
            faults.add(FaultLocation::Resource(index), "ü", "a long reason for refusing it");
        }
        assert_eq!(faults.count(), 100);
        let message = faults.into_message().unwrap();
        assert!(message.len() <= 64 && message.ends_with("more"), "{message}");
        assert!(Faults::new(64).into_message().is_none());
    }
}
