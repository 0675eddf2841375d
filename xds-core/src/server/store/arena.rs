//! All resources of one type, in the order of their last change.

use alloc::{collections::VecDeque, vec::Vec};

use bytes::Bytes;

use super::version::{ContentHash, StatedVersion, TypeVersion};
use crate::{
    index::NameIndex,
    server::{config::TypeConfig, session::edge::List},
    slab::{Slab, Slot},
    text::{ResourceName, TypeUrl, Version},
    wire::encode,
};

/// All resources of one type.
///
/// The list of the slab runs from names that are subscribed but do not exist (S0.133), over the
/// resource that has been unchanged for longest, to the one changed last. What a wildcard client is
/// behind by is therefore the tail of the list, however many resources there are.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) type_url: TypeUrl,
    pub(crate) config: TypeConfig,
    pub(crate) version: TypeVersion,
    /// The sessions that subscribe to everything, in the order in which they began to.
    pub(crate) wildcards: Slab<Slot>,
    /// How many sessions there are on the type.
    pub(crate) sessions: usize,
    /// The newest transaction that changed anything here.
    pub(crate) sequence: u64,
    resources: Slab<Resource>,
    names: NameIndex,
    existing: usize,
    framed_bytes: usize,
    stamp: Stamp,
    full: Option<Body>,
    /// Recently asked for, the oldest first.
    tails: VecDeque<Tail>,
    printed: Option<(StatedVersion, Version)>,
}

/// How many tails are kept for other clients, provided they are no longer than all resources.
const TAILS: usize = 64;

/// A position in the history of one type: every change or deletion of a resource has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// Before any change.
    pub(crate) const START: Self = Self(0);
    /// After every change.
    pub(crate) const MAX: Self = Self(u64::MAX);
}

/// A name, and what there is under it.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) name: ResourceName,
    pub(crate) payload: Option<Payload>,
    /// When it last changed, if it exists.
    pub(crate) stamp: Stamp,
    /// Who subscribes to it by name.
    pub(crate) subscribers: List,
}

/// A resource's bytes, stored once.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    /// The resource as the field `resources` of a `DiscoveryResponse`: responses are made by putting
    /// these one behind the other.
    pub(crate) framed: Bytes,
    /// The resource itself; the end of `framed`.
    pub(crate) value: Bytes,
    pub(crate) hash: ContentHash,
}

/// The resources of one response, encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) resources: usize,
}

/// What changed after a position, as far as it fits one response.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    from: Stamp,
    /// How far the body reaches.
    pub(crate) to: Stamp,
    pub(crate) body: Body,
}

impl Arena {
    pub(crate) fn new(type_url: TypeUrl, config: TypeConfig, seed: u64) -> Self {
        Self {
            type_url,
            config,
            version: TypeVersion::default(),
            wildcards: Slab::default(),
            sessions: 0,
            sequence: 0,
            resources: Slab::default(),
            names: NameIndex::new(seed),
            existing: 0,
            framed_bytes: 0,
            stamp: Stamp::START,
            full: None,
            tails: VecDeque::new(),
            printed: None,
        }
    }

    /// Stores a resource; `None` if it is stored like that already (M104, M68).
    pub(crate) fn set(&mut self, name: &ResourceName, value: &Bytes) -> Option<Slot> {
        let slot = self.slot_of(name.clone())?;
        let resource = self.resources.at_mut(slot)?;
        if resource.payload.as_ref().is_some_and(|payload| payload.value == value) {
            return None;
        }
        let payload = Payload::new(&self.type_url, value);
        let (hash, framed) = (payload.hash, payload.framed.len());
        let replaced = resource.payload.replace(payload);
        self.stamp.0 += 1;
        resource.stamp = self.stamp;
        self.forget(name, replaced.as_ref());
        self.version.add(name.as_str(), hash);
        self.existing += 1;
        self.framed_bytes += framed;
        self.resources.move_to_back(slot);
        Some(slot)
    }

    /// Deletes a resource. Its slot stays while somebody subscribes to the name.
    pub(crate) fn remove(&mut self, name: &ResourceName) -> Option<Slot> {
        let slot = self.find(name.as_str())?;
        let removed = self.resources.at_mut(slot)?.payload.take()?;
        self.stamp.0 += 1;
        self.forget(name, Some(&removed));
        self.resources.move_to_front(slot);
        self.release(slot);
        Some(slot)
    }

    /// The slot of a name that somebody subscribes to, whether or not the resource exists. `None`
    /// only if no slot is left.
    pub(crate) fn slot_of(&mut self, name: impl Into<ResourceName> + AsRef<str>) -> Option<Slot> {
        if let Some(slot) = self.find(name.as_ref()) {
            return Some(slot);
        }
        let name = name.into();
        let resource = Resource {
            name: name.clone(),
            payload: None,
            stamp: Stamp::START,
            subscribers: List::default(),
        };
        let slot = self.resources.push_back(resource)?.slot();
        self.resources.move_to_front(slot);
        let resources = &self.resources;
        self.names.insert(name.as_str(), slot, |slot| name_in(resources, slot));
        Some(slot)
    }

    /// Frees the slot of a name that neither exists nor interests anybody (M243).
    pub(crate) fn release(&mut self, slot: Slot) {
        let idle =
            |resource: &Resource| resource.payload.is_none() && resource.subscribers.is_empty();
        if self.resources.at(slot).is_some_and(idle)
            && let Some(resource) = self.resources.remove(slot)
        {
            self.names.remove(resource.name.as_str(), slot);
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<Slot> {
        self.names.find(name, |slot| name_in(&self.resources, slot))
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&Resource> {
        self.resources.at(slot)
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> Option<&mut Resource> {
        self.resources.at_mut(slot)
    }

    pub(crate) fn payload(&self, slot: Slot) -> Option<&Payload> {
        self.resources.at(slot)?.payload.as_ref()
    }

    /// How many resources exist.
    pub(crate) fn existing(&self) -> usize {
        self.existing
    }

    /// How many names are held, whether or not there is a resource.
    pub(crate) fn names(&self) -> usize {
        self.resources.len()
    }

    /// Whether there is nothing to keep the arena for.
    pub(crate) fn is_idle(&self) -> bool {
        self.existing == 0 && self.sessions == 0
    }

    /// The position of the last change, whatever became of the resource.
    pub(crate) fn clock(&self) -> Stamp {
        self.stamp
    }

    /// When the most recently changed resource that exists changed.
    pub(crate) fn newest(&self) -> Stamp {
        self.at(self.resources.last())
            .filter(|resource| resource.payload.is_some())
            .map_or(Stamp::START, |resource| resource.stamp)
    }

    /// All resources, in the order of their creation (M84). Built once per change (M222).
    pub(crate) fn full_body(&mut self) -> Body {
        if let Some(body) = &self.full {
            return body.clone();
        }
        let mut bytes = Vec::with_capacity(self.framed_bytes);
        self.resources
            .in_slot_order()
            .filter_map(|(_, resource)| resource.payload.as_ref())
            .for_each(|payload| bytes.extend_from_slice(&payload.framed));
        let body = Body { bytes: bytes.into(), resources: self.existing };
        self.full = Some(body.clone());
        body
    }

    /// What changed after `from`, oldest first, at least one resource and no more than `limit`
    /// bytes. Clients that are behind by the same share the same bytes.
    pub(crate) fn tail_body(&mut self, from: Stamp, limit: usize) -> Tail {
        if let Some(tail) = self.tails.iter().rev().find(|tail| tail.from == from) {
            return tail.clone();
        }
        let mut parts = Parts::new(limit);
        let to = self.gather(from, &mut parts, |_| true);
        let tail = Tail { from, to, body: parts.into_body() };
        self.tails.push_back(tail.clone());
        let bytes =
            |tails: &VecDeque<Tail>| tails.iter().map(|t| t.body.bytes.len()).sum::<usize>();
        while self.tails.len() > TAILS || bytes(&self.tails) > self.framed_bytes {
            self.tails.pop_front();
        }
        tail
    }

    /// The text of a version, which for the current one is made once.
    pub(crate) fn print(&mut self, version: StatedVersion) -> Version {
        match &self.printed {
            Some((of, text)) if *of == version => text.clone(),
            _ => {
                let text = version.to_version();
                if version == self.version.stated() {
                    self.printed = Some((version, text.clone()));
                }
                text
            }
        }
    }

    /// Adds what changed after `from` and passes `wanted` to `parts`; says how far it got.
    pub(crate) fn gather(
        &self,
        from: Stamp,
        parts: &mut Parts,
        wanted: impl Fn(Slot) -> bool,
    ) -> Stamp {
        let mut to = from;
        let mut slot = self.first_after(from);
        while let Some(resource) = self.at(slot) {
            if let Some(payload) = resource.payload.as_ref().filter(|_| wanted(slot))
                && !parts.push(payload)
            {
                return to;
            }
            to = resource.stamp;
            slot = self.resources.next(slot);
        }
        to
    }

    /// The oldest change after `from`: found from the tail, so that it costs what changed.
    fn first_after(&self, from: Stamp) -> Slot {
        let mut first = Slot::NONE;
        let mut slot = self.resources.last();
        while let Some(resource) = self.at(slot)
            && resource.payload.is_some()
            && resource.stamp > from
        {
            first = slot;
            slot = self.resources.previous(slot);
        }
        first
    }

    fn forget(&mut self, name: &ResourceName, payload: Option<&Payload>) {
        self.full = None;
        self.tails.clear();
        if let Some(payload) = payload {
            self.version.subtract(name.as_str(), payload.hash);
            self.existing -= 1;
            self.framed_bytes -= payload.framed.len();
        }
    }
}

impl Payload {
    fn new(type_url: &TypeUrl, value: &Bytes) -> Self {
        const RESOURCES: u32 = 2;
        const ANY_TYPE_URL: u32 = 1;
        const ANY_VALUE: u32 = 2;

        let type_url = type_url.as_str();
        let any_len = encode::block_len(ANY_TYPE_URL, type_url.len())
            + encode::block_len(ANY_VALUE, value.len());
        let mut framed = Vec::with_capacity(encode::block_len(RESOURCES, any_len));
        encode::block_head(&mut framed, RESOURCES, any_len);
        encode::block(&mut framed, ANY_TYPE_URL, type_url.as_bytes());
        encode::block(&mut framed, ANY_VALUE, value);
        let framed = Bytes::from(framed);
        let value = framed.slice(framed.len() - value.len()..);
        Self { hash: ContentHash::of(&value), framed, value }
    }
}

/// Resources on their way into one response.
#[derive(Debug)]
pub(crate) struct Parts {
    chunks: Vec<Bytes>,
    bytes: usize,
    limit: usize,
}

impl Parts {
    /// At most `limit` bytes, but always one resource: a longer one goes alone.
    pub(crate) fn new(limit: usize) -> Self {
        Self { chunks: Vec::new(), bytes: 0, limit }
    }

    /// Whether the resource still went in.
    pub(crate) fn push(&mut self, payload: &Payload) -> bool {
        let bytes = self.bytes.saturating_add(payload.framed.len());
        if bytes > self.limit && !self.chunks.is_empty() {
            return false;
        }
        self.bytes = bytes;
        self.chunks.push(payload.framed.clone());
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// A single resource is not copied: its bytes are shared with the store.
    pub(crate) fn into_body(mut self) -> Body {
        let resources = self.chunks.len();
        if resources == 1
            && let Some(bytes) = self.chunks.pop()
        {
            return Body { bytes, resources };
        }
        let mut bytes = Vec::with_capacity(self.bytes);
        self.chunks.iter().for_each(|chunk| bytes.extend_from_slice(chunk));
        Body { bytes: bytes.into(), resources }
    }
}

fn name_in(resources: &Slab<Resource>, slot: Slot) -> Option<&str> {
    resources.at(slot).map(|resource| resource.name.as_str())
}
