//! Pool of payloads, each stored once even if several views have it.

use core::hash::BuildHasher as _;

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::{
    encode::body::Payload, resource_options::ResourceOptions, version::content::ContentHash,
};
use crate::{
    rng::Rng,
    slab::{Slab, Slot},
    text::TypeUrl,
};

/// All payloads, indexed by content.
#[derive(Debug)]
pub(crate) struct PayloadPool {
    shared: Slab<PooledPayload>,
    by_content: HashTable<Slot>,
    hasher: FixedState,
}

#[derive(Debug)]
struct PooledPayload {
    payload: Payload,
    uses: u32,
}

impl PayloadPool {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self {
            shared: Slab::default(),
            by_content: HashTable::new(),
            hasher: FixedState::with_seed(rng.next_u64()),
        }
    }

    /// Returns the payload of a resource, to be returned with [`release`](Self::release).
    /// Payloads with equal digests are compared byte by byte.
    pub(crate) fn take(
        &mut self,
        type_url: &TypeUrl,
        value: &Bytes,
        options: &ResourceOptions,
    ) -> Payload {
        let content = ContentHash::with(value, options);
        let found = self.find(content, |payload| {
            payload.is(value, options) && payload.type_url() == type_url.as_str().as_bytes()
        });
        if let Some(shared) = found.and_then(|slot| self.shared.at_mut(slot))
            && let Some(uses) = shared.uses.checked_add(1)
        {
            shared.uses = uses;
            return shared.payload.clone();
        }
        let payload = Payload::new(type_url, value, options, content);
        if let Some(key) =
            self.shared.push_back(PooledPayload { payload: payload.clone(), uses: 1 })
        {
            let (shared, hasher) = (&self.shared, &self.hasher);
            self.by_content.insert_unique(hasher.hash_one(content), key.slot(), |&slot| {
                shared.at(slot).map_or(0, |shared| hasher.hash_one(shared.payload.hash))
            });
        }
        payload
    }

    /// Releases one use of a payload and frees it with the last one.
    pub(crate) fn release(&mut self, payload: &Payload) {
        let found =
            self.find(payload.hash, |other| other.framed.as_ptr() == payload.framed.as_ptr());
        let Some(slot) = found else { return };
        let Some(shared) = self.shared.at_mut(slot) else { return };
        shared.uses -= 1;
        if shared.uses == 0 {
            let hash = self.hasher.hash_one(payload.hash);
            if let Ok(entry) = self.by_content.find_entry(hash, |&other| other == slot) {
                entry.remove();
            }
            self.shared.remove(slot);
        }
    }

    /// Number of distinct payloads.
    pub(crate) fn len(&self) -> usize {
        self.shared.len()
    }

    fn find(&self, content: ContentHash, is_same: impl Fn(&Payload) -> bool) -> Option<Slot> {
        let matches = |&slot: &Slot| {
            self.shared
                .at(slot)
                .is_some_and(|shared| shared.payload.hash == content && is_same(&shared.payload))
        };
        self.by_content.find(self.hasher.hash_one(content), matches).copied()
    }
}

#[cfg(test)]
mod tests {
    use crate::server::store::payload_pool::*;

    // M222, M243: equal resources share one payload, which is freed with its last user.
    #[test]
    fn equal_payloads_are_shared() {
        let mut pool = PayloadPool::new(&mut Rng::new(1));
        let (one_type, other_type) = (TypeUrl::from("t/one"), TypeUrl::from("t/other"));
        let value = Bytes::from_static(b"value");
        let plain = ResourceOptions::default();
        let first = pool.take(&one_type, &value, &plain);
        let second = pool.take(&one_type, &Bytes::from_static(b"value"), &plain);
        assert_eq!(first.framed.as_ptr(), second.framed.as_ptr());
        let foreign = pool.take(&other_type, &value, &plain);
        assert_ne!(first.framed, foreign.framed, "the type is part of what is sent");
        let timed = plain.with_ttl(core::time::Duration::from_secs(1));
        let timed = pool.take(&one_type, &value, &timed);
        assert_ne!(first.hash, timed.hash, "and so is its time to live");
        assert_eq!(pool.len(), 3);
        pool.release(&timed);
        pool.release(&first);
        assert_eq!(pool.len(), 2);
        pool.release(&second);
        pool.release(&foreign);
        assert_eq!(pool.len(), 0);
    }
}
