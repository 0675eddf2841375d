//! The envelope of a response: a client's own few bytes around those it shares with others.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use bytes::Bytes;

use super::{
    event::{ServerTransmit, Via, Visit},
    session::{Rendered, answer::nonce_of},
};
use crate::{
    frame::Frame,
    text::{Nonce, TypeUrl},
    wire::encode,
    zoo::{self, Bug},
};

/// Puts a rendered response into `frame` and says what it is.
pub(crate) fn seal(
    frame: &mut Frame,
    via: &Via,
    type_url: TypeUrl,
    nonce: NonZeroU64,
    rendered: &Rendered,
) -> ServerTransmit {
    // Both responses have these three under the same numbers.
    const VERSION_INFO: u32 = 1;
    const TYPE_URL: u32 = 4;
    const NONCE: u32 = 5;

    let version = rendered.version.clone();
    let nonce = match via.visit() {
        Visit::Stays if !zoo::is(Bug::VersionAsNonce) => nonce_of(nonce),
        // With the stream of a fetch the number would be forgotten; the next request says of what it is the
        // answer.
        Visit::Stays | Visit::Fetches => Nonce::from(version.as_str()),
    };
    let mut envelope = Vec::with_capacity(type_url.as_str().len() + 64);
    encode::string(&mut envelope, VERSION_INFO, version.as_str());
    let head = envelope.len();
    encode::string(&mut envelope, TYPE_URL, type_url.as_str());
    encode::string(&mut envelope, NONCE, nonce.as_str());
    envelope.extend_from_slice(&rendered.errors.bytes);
    let mut tail = Bytes::from(envelope);
    frame.head = tail.split_to(head);
    frame.tail = tail;
    frame.body = rendered.body.bytes.clone();
    ServerTransmit {
        type_url,
        version,
        nonce,
        variant: via.variant(),
        resources: rendered.body.resources,
        removed: rendered.body.removed,
        errors: rendered.errors.count,
        cause: rendered.cause,
    }
}
