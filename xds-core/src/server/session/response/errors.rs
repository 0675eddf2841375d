//! What a client is told instead of a resource that it names (TP3, M171-M179).

use alloc::vec::Vec;

use crate::{
    server::{
        event::StatusCode,
        session::{Session, context::Turn, subscription::Standing},
        store::{
            encode::body::{Parts, Room},
            on_demand::Want,
            transaction::ResourceError,
        },
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
    wire::encode,
};

/// The errors of one response, encoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

/// The error of a resource, as the field of a response.
fn encode_error(variant: Variant, name: &ResourceName, error: &ResourceError) -> Vec<u8> {
    const NAME: u32 = 1;
    const RESOURCE_NAME: u32 = 1;
    const ERROR_DETAIL: u32 = 2;

    let field = match variant {
        Variant::StateOfTheWorld => 7,
        Variant::Incremental => 9,
    };
    let name = name.as_str().as_bytes();
    let status = encode::status(error.code.as_i32(), &error.message);
    let name_len = encode::block_len(NAME, name.len());
    let len =
        encode::block_len(RESOURCE_NAME, name_len) + encode::block_len(ERROR_DETAIL, status.len());
    let mut bytes = Vec::with_capacity(encode::block_len(field, len));
    encode::block_head(&mut bytes, field, len);
    encode::block_head(&mut bytes, RESOURCE_NAME, name_len);
    encode::block(&mut bytes, NAME, name);
    encode::block(&mut bytes, ERROR_DETAIL, &status);
    bytes
}

impl Session {
    /// Whether the client, which names the resource, was told that it is too long for it.
    pub(crate) fn is_told_too_long(&self, resource: Slot) -> bool {
        self.rare.as_deref().is_some_and(|rare| rare.too_long.contains(&resource))
    }
}

impl Turn<'_> {
    /// The error that stands for a resource, if this client is to be told it: who has subscribed to
    /// everything is sent what exists (M178), and that there is nothing is a removal where there are such
    /// (M179). Where the type is served like that, what does not exist has an error (M39).
    pub(crate) fn error_of(&self, slot: Slot) -> Option<&ResourceError> {
        let resource = self.arena.at(slot)?;
        let exists = resource.payload.is_some();
        let is_covered = self.session.wildcard.is_some() && exists;
        let is_removal = self.session.variant == Variant::Incremental && !exists;
        // The application may be making it.
        let is_missing = !exists && !is_removal && resource.want != Want::Asked;
        let is_too_long = exists && !is_covered && self.session.is_told_too_long(slot);
        resource
            .error
            .as_deref()
            .filter(|error| !(is_covered || is_removal && error.code == StatusCode::NotFound))
            .or_else(|| self.arena.missing_error().filter(|_| is_missing))
            .or_else(|| self.arena.length_error().filter(|_| is_too_long))
    }

    /// Adds what is told of a resource instead of it, if anything is, unless there is no room: the error that stands
    /// for it, or that it is longer than any response to this client may be (IS26). To leave it out without a word
    /// would leave the client waiting, and to send it would end the stream of one that takes no more.
    pub(crate) fn push_error_into(&mut self, slot: Slot, parts: &mut Parts) -> Option<Room> {
        let resource = self.arena.at(slot)?;
        let length = resource.payload.as_ref().map_or(0, |payload| payload.value.len());
        let is_too_long =
            resource.error.is_none() && self.session.wildcard.is_none() && length > parts.limit();
        if is_too_long {
            let name = resource.name.clone();
            self.arena.note_too_long();
            self.session.rare_mut().too_long.insert(slot);
            let room = self.push_error(slot, |bytes| parts.set_aside(bytes));
            if room == Some(Room::Taken) {
                self.too_long.push((name, length));
            }
            return room;
        }
        self.session.with_rare(|rare| {
            rare.too_long.remove(&slot);
        });
        self.push_error(slot, |bytes| parts.set_aside(bytes))
    }

    /// Adds the error that stands for a resource, if there is one, unless there is no room for so many bytes.
    pub(crate) fn push_error(
        &mut self,
        slot: Slot,
        make_room: impl FnOnce(usize) -> Room,
    ) -> Option<Room> {
        let error = self.error_of(slot)?;
        let names = self.names_asked_for(slot);
        let encode = |name| encode_error(self.session.variant, name, error);
        let bytes: Vec<u8> = names.iter().flat_map(encode).collect();
        let room = make_room(bytes.len());
        if room == Room::Taken {
            self.errors.count += names.len();
            self.errors.bytes.extend_from_slice(&bytes);
        }
        Some(room)
    }

    /// The names by which the client asks for a resource: an error has no others beside it, so that who asks by an
    /// alias would not know that it is meant (S0.191). Who was sent the resource knows its own name as well.
    fn names_asked_for(&self, resource: Slot) -> Vec<ResourceName> {
        let name_of = |slot| self.arena.at(slot).map(|it| it.name.clone());
        let own = name_of(resource);
        let mut names: Vec<ResourceName> =
            self.aliases_asked_for(resource).filter_map(name_of).collect();
        let is_known = own.as_ref().is_some_and(|own| {
            let edge = self.edges.find(self.slot, resource).and_then(|edge| self.edges.at(edge));
            let is_named = edge.is_some_and(|it| it.standing == Standing::Named || it.sent != 0);
            names.is_empty() || is_named || self.is_in_glob(own.as_str())
        });
        names.extend(own.filter(|_| is_known));
        names
    }
}
