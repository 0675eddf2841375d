//! What a client is told instead of a resource that it names (TP3, M171-M179).

use alloc::vec::Vec;

use super::Turn;
use crate::{
    server::{
        event::StatusCode,
        store::{body::Room, transaction::ResourceError},
        wants::Want,
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

impl Turn<'_> {
    /// The error that stands for a resource, if this client is to be told it: who has subscribed to
    /// everything is sent what exists (M178), and that there is nothing is a removal where there are such
    /// (M179). Where the type is served like that, what does not exist has an error (M39).
    pub(super) fn error_of(&self, resource: Slot) -> Option<&ResourceError> {
        let resource = self.arena.at(resource)?;
        let exists = resource.payload.is_some();
        let is_covered = self.session.wildcard.is_some() && exists;
        let is_removal = self.session.variant == Variant::Incremental && !exists;
        // The application may be making it.
        let is_missing = !exists && !is_removal && resource.want != Want::Asked;
        resource
            .error
            .as_deref()
            .filter(|error| !(is_covered || is_removal && error.code == StatusCode::NotFound))
            .or_else(|| self.arena.missing_error().filter(|_| is_missing))
    }

    /// Adds the error that stands for a resource, if there is one, unless there is no room for so many bytes.
    pub(super) fn push_error(
        &mut self,
        slot: Slot,
        make_room: impl FnOnce(usize) -> Room,
    ) -> Option<Room> {
        let error = self.error_of(slot)?;
        let bytes = encode_error(self.session.variant, &self.arena.at(slot)?.name, error);
        let room = make_room(bytes.len());
        if room == Room::Taken {
            self.errors.bytes.extend_from_slice(&bytes);
            self.errors.count += 1;
        }
        Some(room)
    }
}
