//! Response bodies shared by clients at the same revision.

use alloc::collections::VecDeque;

use super::{Arena, Resource, changes_since::Stopped, partial_state::State, tombstones::Knows};
use crate::{
    server::store::{
        encode::body::{Body, Form, Parts, Room, Ttls},
        revision::Stamp,
    },
    service::Variant,
    slab::Slot,
    wire::request::Spelling,
};

/// Maximum number of tails kept for other clients. Their total size is limited to that of all
/// resources in both variants, which is enough for clients of both to catch up from the start one
/// after the other.
const TAILS: usize = 64;

/// Encoded changes after a revision, as many as fit one response.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub(crate) form: Form,
    from: Stamp,
    /// Removals of which the clients were informed, if they are sent removals.
    knows: Option<Knows>,
    /// Size limit in bytes.
    limit: usize,
    /// Revision that the body reaches.
    pub(crate) to: Stamp,
    /// Revision that the removals reach, if they do not all fit. The body then has nothing else.
    pub(crate) partly: Option<Stamp>,
    pub(crate) body: Body,
}

impl Arena {
    /// Returns all resources in the order of their creation. Built once per change.
    // M84, M222
    pub(crate) fn full_body(&mut self, ttls: Ttls) -> Body {
        let kept = usize::from(ttls == Ttls::Told);
        if let Some(body) = self.full.get(kept).and_then(Option::as_ref) {
            return body.clone();
        }
        let form = Form { variant: Variant::StateOfTheWorld, ttls };
        let mut parts = Parts::with_capacity(form, self.framed_bytes);
        for (_, resource) in self.resources.in_slot_order() {
            if let Some(payload) = &resource.payload {
                parts.push(&resource.name, payload);
            }
        }
        let body = parts.into_body();
        if let Some(full) = self.full.get_mut(kept) {
            *full = Some(body.clone());
        }
        body
    }

    /// Returns all resources in the order of their creation, as kept for clients that may reject
    /// them.
    pub(crate) fn state(&mut self) -> State {
        if let Some(state) = &self.state {
            return state.clone();
        }
        let resources = self.resources.in_slot_order().map(|(_, resource)| resource);
        let piece = |it: &Resource| Some((it.name.clone(), it.payload.clone()?));
        let state: State = resources.filter_map(piece).collect();
        self.state = Some(state.clone());
        state
    }

    /// Returns the removals after `knows`, if any, and the resources changed after `from`, oldest
    /// first. The body has at most `limit` bytes, but at least one name or resource. Clients that
    /// lack the same changes share the bytes.
    pub(crate) fn tail_body(
        &mut self,
        form: Form,
        from: Stamp,
        knows: Option<Knows>,
        limit: usize,
    ) -> Tail {
        let key = (form, from, knows, limit);
        let known = |it: &&Tail| (it.form, it.from, it.knows, it.limit) == key;
        if let Some(tail) = self.tails.iter().rev().find(known) {
            return tail.clone();
        }
        let mut parts = Parts::new(form, limit);
        let partly = knows.and_then(|knows| {
            self.gather_graves(knows, from, &mut parts, Spelling::Names, |_| true)
        });
        let to = match partly {
            Some(_) => from,
            None => self.gather(from, &mut parts, |_, _| true),
        };
        let tail = Tail { form, from, knows, limit, to, partly, body: parts.into_body() };
        self.tails.push_back(tail.clone());
        let bytes =
            |tails: &VecDeque<Tail>| tails.iter().map(|t| t.body.bytes.len()).sum::<usize>();
        let enough = (self.framed_bytes + self.entry_bytes).max(1 << 10);
        while self.tails.len() > TAILS || bytes(&self.tails) > enough {
            self.tails.pop_front();
        }
        tail
    }

    /// Adds the resources changed after `from` that pass `wanted`, as many as fit. Returns the
    /// revision reached.
    pub(crate) fn gather(
        &mut self,
        from: Stamp,
        parts: &mut Parts,
        wanted: impl Fn(Slot, &Resource) -> bool,
    ) -> Stamp {
        let mut to = from;
        let mut slot = self.first_after(from);
        while let Some(resource) = self.at(slot) {
            if let Some(payload) = resource.payload.as_ref().filter(|_| wanted(slot, resource))
                && parts.push(&resource.name, payload) == Room::Full
            {
                self.stopped = Stopped { at: to, next: slot };
                return to;
            }
            to = resource.stamp;
            slot = self.resources.next(slot);
        }
        self.stamp
    }
}
