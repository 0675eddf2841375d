//! Cache of printed responses. Many clients get equal responses, and printing is expensive.
// M195

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;

use crate::{pause::let_others_run, unprintable::Omission};

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

/// A response as JSON, without the resources that have no JSON form.
#[derive(Debug)]
pub(crate) struct PrintedResponse {
    pub(crate) json: Bytes,
    /// Version of the response. It identifies the omitted resources.
    pub(crate) version: String,
    pub(crate) omission: Option<Omission>,
}

impl PrintedResponse {
    /// Number of bytes that the response occupies in the cache.
    fn size(&self) -> usize {
        self.json.len() + self.omission.as_ref().map_or(0, |omission| omission.text.len())
    }
}

/// Cache of the newest responses as JSON.
#[derive(Debug)]
pub(crate) struct Printed {
    kept: Mutex<Kept>,
    /// Maximum number of bytes of the responses.
    limit: usize,
}

#[derive(Debug, Default)]
struct Kept {
    /// Responses by message. They are never iterated, so their order does not matter.
    responses: HashMap<MessageHash, Arc<PrintedResponse>>,
    /// Messages, oldest first.
    order: VecDeque<MessageHash>,
    /// Number of bytes of the responses.
    bytes: usize,
}

impl Printed {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: Mutex::default(), limit }
    }

    /// Returns the response for a message if it is cached.
    pub(crate) fn find(&self, message: MessageHash) -> Option<Arc<PrintedResponse>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.responses.get(&message).cloned()
    }

    /// Caches the response for a message.
    pub(crate) fn keep(&self, message: MessageHash, response: &Arc<PrintedResponse>) {
        // It would evict all other responses, and then itself.
        if response.size() > self.limit {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.responses.contains_key(&message) {
            return;
        }
        kept.responses.insert(message, Arc::clone(response));
        kept.order.push_back(message);
        kept.bytes += response.size();
        while (kept.bytes > self.limit || kept.order.len() > MOST)
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.bytes -= kept.responses.remove(&oldest).map_or(0, |it| it.size());
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

    fn response(bytes: usize) -> Arc<PrintedResponse> {
        let json = vec![b'0'; bytes].into();
        Arc::new(PrintedResponse { json, version: String::new(), omission: None })
    }

    #[tokio::test]
    async fn hash_does_not_depend_on_pauses() {
        let message = Bytes::from(vec![b'0'; 2 * AT_ONCE + 1]);
        let hash = MessageHash::of(&message).await;
        assert_eq!(hash.0, *blake3::hash(&message).as_bytes());
    }

    #[test]
    fn oldest_message_is_evicted() {
        let printed = Printed::new(4);
        assert!(printed.find(hash(0)).is_none());
        printed.keep(hash(0), &response(2));
        printed.keep(hash(1), &response(2));
        assert_eq!(printed.find(hash(0)).map(|it| it.json.len()), Some(2));
        printed.keep(hash(2), &response(2));
        assert!(printed.find(hash(0)).is_none(), "it was the oldest");
        assert!(printed.find(hash(1)).is_some() && printed.find(hash(2)).is_some());
    }

    // IS24: The limit applies to bytes and to the number of entries.
    #[test]
    fn cache_is_limited_by_size_and_entry_count() {
        let printed = Printed::new(100);
        for at in 0..10 {
            printed.keep(hash(at), &response(60));
        }
        assert_eq!(printed.kept.lock().expect("no panic").responses.len(), 1);
        // A response too long to be cached evicts no other.
        printed.keep(hash(20), &response(200));
        assert!(printed.find(hash(9)).is_some());
        assert_eq!(printed.kept.lock().expect("no panic").responses.len(), 1);

        let printed = Printed::new(usize::MAX);
        for at in 0..MOST + 10 {
            printed.keep(hash(at), &response(1));
        }
        let kept = printed.kept.lock().expect("no panic");
        assert_eq!((kept.responses.len(), kept.order.len(), kept.bytes), (MOST, MOST, MOST));
    }
}
