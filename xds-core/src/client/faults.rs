//! What is wrong with a response, gathered into the one message of its NACK.

use alloc::{string::String, sync::Arc};
use core::{fmt::Write as _, hash::BuildHasher as _};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// The bad resources of a response, each with its reason, in the order in which they were found.
///
/// Every one is counted; the text is bounded, because it travels in a request whose size servers
/// limit (AN-09).
#[derive(Debug)]
pub(crate) struct Faults {
    message: String,
    limit: usize,
    count: u64,
    left_out: u64,
}

impl Faults {
    pub(crate) fn new(limit: usize) -> Self {
        Self { message: String::new(), limit, count: 0, left_out: 0 }
    }

    /// Adds the resource at `index`, by name where it is known.
    pub(crate) fn add(&mut self, index: usize, name: Option<&str>, reason: &str) {
        self.count += 1;
        if self.message.len() >= self.limit {
            self.left_out += 1;
            return;
        }
        let separator = if self.message.is_empty() { "" } else { "; " };
        let mut fault = String::new();
        // Writing to a string cannot fail.
        let _ = match name {
            Some(name) => write!(fault, "{separator}resource {index} ({name}): {reason}"),
            None => write!(fault, "{separator}resource {index}: {reason}"),
        };
        let room = self.limit - self.message.len();
        self.message.push_str(cut(&fault, room));
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The message, if anything is wrong.
    pub(crate) fn into_message(mut self) -> Option<Arc<str>> {
        if self.count == 0 {
            return None;
        }
        if self.left_out > 0 {
            let note = alloc::format!("; and {} more", self.left_out);
            let keep = cut(&self.message, self.limit.saturating_sub(note.len())).len();
            self.message.truncate(keep);
            self.message.push_str(&note);
        }
        Some(self.message.into())
    }
}

/// The longest part of `text` within `limit` bytes that ends between characters.
fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

/// Names in a response that nobody asked for: kept only to see whether one comes twice.
#[derive(Debug)]
pub(crate) struct Strangers {
    /// Their hashes under a key that the server does not know.
    seen: HashTable<u64>,
    hasher: FixedState,
}

impl Strangers {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seen: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    /// Notes a name. True if it came before.
    pub(crate) fn is_repeated(&mut self, name: &str) -> bool {
        let hash = self.hasher.hash_one(name);
        if self.seen.find(hash, |&other| other == hash).is_some() {
            return true;
        }
        self.seen.insert_unique(hash, hash, |&other| other);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_every_fault_until_the_limit() {
        let mut faults = Faults::new(64);
        faults.add(0, Some("a"), "bad");
        faults.add(3, None, "worse");
        assert_eq!(
            faults.into_message().as_deref(),
            Some("resource 0 (a): bad; resource 3: worse")
        );

        let mut faults = Faults::new(64);
        for index in 0..100 {
            faults.add(index, Some("ü"), "a long reason for refusing it");
        }
        assert_eq!(faults.count(), 100);
        let message = faults.into_message().unwrap();
        assert!(message.len() <= 64 && message.ends_with("more"), "{message}");
        assert!(Faults::new(64).into_message().is_none());
    }
}
