//! Cache of printed responses. Many clients get equal responses, and printing is expensive.
// M195

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;

use crate::pause::let_others_run;

/// Maximum number of cached responses.
const MOST: usize = 4_096;
/// Number of bytes that are hashed before other tasks of the thread run.
const AT_ONCE: usize = 256 << 10;

/// BLAKE3 hash of a message, which identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageHash([u8; 32]);

impl MessageHash {
    pub(crate) async fn of(message: &Bytes) -> Self {
        let mut hasher = blake3::Hasher::new();
        for (at, part) in message.chunks(AT_ONCE).enumerate() {
            if at > 0 {
                let_others_run().await;
            }
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }
}

/// Cache of the newest responses as JSON.
#[derive(Debug)]
pub(crate) struct Printed {
    kept: Mutex<Kept>,
    /// Maximum number of bytes of JSON.
    limit: usize,
}

#[derive(Debug, Default)]
struct Kept {
    /// JSON by message. It is never iterated, so its order does not matter.
    json: HashMap<MessageHash, Bytes>,
    /// Messages, oldest first.
    order: VecDeque<MessageHash>,
    /// Number of bytes of JSON.
    bytes: usize,
}

impl Printed {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: Mutex::default(), limit }
    }

    /// Returns the JSON of a message if it is cached.
    pub(crate) fn find(&self, message: MessageHash) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.json.get(&message).cloned()
    }

    /// Caches the JSON of a message.
    pub(crate) fn keep(&self, message: MessageHash, json: &Bytes) {
        // It would evict all other responses, and then itself.
        if json.len() > self.limit {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.json.contains_key(&message) {
            return;
        }
        kept.json.insert(message, json.clone());
        kept.order.push_back(message);
        kept.bytes += json.len();
        while (kept.bytes > self.limit || kept.order.len() > MOST)
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.bytes -= kept.json.remove(&oldest).unwrap_or_default().len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a number as the hash of a message.
    fn hash(number: usize) -> MessageHash {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        MessageHash(bytes)
    }

    fn json(bytes: usize) -> Bytes {
        vec![b'0'; bytes].into()
    }

    #[tokio::test]
    async fn hash_does_not_depend_on_pauses() {
        let message = json(2 * AT_ONCE + 1);
        let hash = MessageHash::of(&message).await;
        assert_eq!(hash.0, *blake3::hash(&message).as_bytes());
    }

    #[test]
    fn oldest_message_is_evicted() {
        let printed = Printed::new(4);
        assert_eq!(printed.find(hash(0)), None);
        printed.keep(hash(0), &json(2));
        printed.keep(hash(1), &json(2));
        assert_eq!(printed.find(hash(0)), Some(json(2)));
        printed.keep(hash(2), &json(2));
        assert_eq!(printed.find(hash(0)), None, "it was the oldest");
        assert!(printed.find(hash(1)).is_some() && printed.find(hash(2)).is_some());
    }

    // IS24: The limit applies to bytes and to the number of entries.
    #[test]
    fn cache_is_limited_by_size_and_entry_count() {
        let printed = Printed::new(100);
        for at in 0..10 {
            printed.keep(hash(at), &json(60));
        }
        assert_eq!(printed.kept.lock().expect("no panic").json.len(), 1);
        // A response too long to be cached evicts no other.
        printed.keep(hash(20), &json(200));
        assert!(printed.find(hash(9)).is_some());
        assert_eq!(printed.kept.lock().expect("no panic").json.len(), 1);

        let printed = Printed::new(usize::MAX);
        for at in 0..MOST + 10 {
            printed.keep(hash(at), &json(1));
        }
        let kept = printed.kept.lock().expect("no panic");
        assert_eq!((kept.json.len(), kept.order.len(), kept.bytes), (MOST, MOST, MOST));
    }
}
