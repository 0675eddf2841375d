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

    /// Returns the JSON of a message, printing it if it is not cached.
    pub(crate) fn get<E>(
        &self,
        message: &Bytes,
        print: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<Bytes, E> {
        if let Some(known) = self.find(message) {
            return Ok(known);
        }
        // Two threads may print the same message, which is harmless.
        let json = Bytes::from(print(message)?);
        self.keep(message, &json);
        Ok(json)
    }

    /// Returns the JSON of a message if it is cached.
    pub(crate) fn find(&self, message: &Bytes) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.json.get(message).cloned()
    }

    fn keep(&self, message: &Bytes, json: &Bytes) {
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

    /// Gets a message, whose JSON is the message twice, and returns whether it was printed.
    fn is_printed(printed: &Printed, message: &Bytes) -> bool {
        let mut is_printed = false;
        let json = printed.get(message, |message| {
            is_printed = true;
            Ok::<_, ()>([message, message].concat())
        });
        assert_eq!(json.expect("no error"), [&message[..], message].concat());
        is_printed
    }

    #[test]
    fn equal_messages_are_printed_once_and_the_oldest_is_evicted() {
        // Two messages of one byte, with two bytes of JSON each.
        let printed = Printed::new(6);
        let [a, b, c] = [b"a", b"b", b"c"].map(|text| Bytes::from_static(text));
        assert!(is_printed(&printed, &a));
        assert!(!is_printed(&printed, &a));
        assert!(is_printed(&printed, &b));
        assert!(!is_printed(&printed, &a));
        assert!(is_printed(&printed, &c));
        assert!(is_printed(&printed, &a), "it was the oldest");
        println!("covers: M195");
    }

    // IS24: The limit applies to messages and to the number of entries, however short the JSON is.
    #[test]
    fn cache_is_limited_by_message_size_and_entry_count() {
        let printed = Printed::new(100);
        for at in 0..10 {
            let message = Bytes::from(vec![at; 60]);
            printed.get(&message, |_| Ok::<_, ()>(vec![b'0'])).expect("no error");
        }
        assert_eq!(printed.kept.lock().expect("no panic").json.len(), 1);
        // A message too long to be cached evicts no other.
        let long = Bytes::from(vec![0; 200]);
        assert!(is_printed(&printed, &long) && is_printed(&printed, &long));
        assert_eq!(printed.kept.lock().expect("no panic").json.len(), 1);

        let printed = Printed::new(usize::MAX);
        for at in 0..MOST + 10 {
            printed.get(&Bytes::from(at.to_string()), |_| Ok::<_, ()>(Vec::new())).expect("fine");
        }
        let kept = printed.kept.lock().expect("no panic");
        assert_eq!((kept.json.len(), kept.order.len()), (MOST, MOST));
        let bytes: usize = kept.json.iter().map(|(message, json)| message.len() + json.len()).sum();
        assert_eq!(kept.bytes, bytes);
    }
}
