//! Cache of printed responses. Many clients get equal responses, and printing is expensive.
// M195

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;

/// Maximum number of cached responses.
const MOST: usize = 4_096;

/// Cache of the newest responses and their JSON.
#[derive(Debug)]
pub(crate) struct Printed {
    kept: Mutex<Kept>,
    /// Maximum number of bytes of messages and JSON.
    limit: usize,
}

#[derive(Debug, Default)]
struct Kept {
    /// JSON by message. It is never iterated, so its order does not matter.
    json: HashMap<Bytes, Bytes>,
    /// Messages, oldest first.
    order: VecDeque<Bytes>,
    /// Number of bytes of messages and JSON.
    bytes: usize,
}

impl Printed {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: Mutex::default(), limit }
    }

    /// Returns the JSON of a message if it is cached.
    pub(crate) fn find(&self, message: &Bytes) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.json.get(message).cloned()
    }

    /// Caches the JSON of a message.
    pub(crate) fn keep(&self, message: &Bytes, json: &Bytes) {
        let bytes = message.len() + json.len();
        // It would evict all other responses, and then itself.
        if bytes > self.limit {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.json.contains_key(message) {
            return;
        }
        // A copy, so that the cache does not keep a larger buffer alive.
        let message = Bytes::copy_from_slice(message);
        kept.json.insert(message.clone(), json.clone());
        kept.order.push_back(message);
        kept.bytes += bytes;
        while (kept.bytes > self.limit || kept.order.len() > MOST)
            && let Some(oldest) = kept.order.pop_front()
        {
            let json = kept.json.remove(&oldest).unwrap_or_default();
            kept.bytes -= oldest.len() + json.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Caches a message, whose JSON is the message twice.
    fn keep(printed: &Printed, message: &Bytes) {
        printed.keep(message, &[&message[..], message].concat().into());
    }

    #[test]
    fn oldest_message_is_evicted() {
        // Two messages of one byte, with two bytes of JSON each.
        let printed = Printed::new(6);
        let [a, b, c] = [b"a", b"b", b"c"].map(|text| Bytes::from_static(text));
        assert_eq!(printed.find(&a), None);
        keep(&printed, &a);
        keep(&printed, &b);
        assert_eq!(printed.find(&a).as_deref(), Some(&b"aa"[..]));
        keep(&printed, &c);
        assert_eq!(printed.find(&a), None, "it was the oldest");
        assert!(printed.find(&b).is_some() && printed.find(&c).is_some());
    }

    // IS24: The limit applies to messages and to the number of entries, however short the JSON is.
    #[test]
    fn cache_is_limited_by_message_size_and_entry_count() {
        let printed = Printed::new(100);
        for at in 0..10 {
            printed.keep(&Bytes::from(vec![at; 60]), &Bytes::from_static(b"0"));
        }
        assert_eq!(printed.kept.lock().expect("no panic").json.len(), 1);
        // A message too long to be cached evicts no other.
        keep(&printed, &Bytes::from(vec![0; 200]));
        assert!(printed.find(&Bytes::from(vec![9; 60])).is_some());
        assert_eq!(printed.kept.lock().expect("no panic").json.len(), 1);

        let printed = Printed::new(usize::MAX);
        for at in 0..MOST + 10 {
            printed.keep(&Bytes::from(at.to_string()), &Bytes::new());
        }
        let kept = printed.kept.lock().expect("no panic");
        assert_eq!((kept.json.len(), kept.order.len()), (MOST, MOST));
        let bytes: usize = kept.json.iter().map(|(message, json)| message.len() + json.len()).sum();
        assert_eq!(kept.bytes, bytes);
    }
}
