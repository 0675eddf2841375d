//! The envelope of a response: a client's own few bytes around those it shares with others.

use core::num::NonZeroU64;

use crate::{
    frame::Frame,
    server::{
        event::{ServerTransmit, Via, Visit},
        session::{Rendered, request::ack::nonce_of},
    },
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
    rendered: Rendered,
) -> ServerTransmit {
    // Both responses have these three under the same numbers.
    const VERSION_INFO: u32 = 1;
    const TYPE_URL: u32 = 4;
    const NONCE: u32 = 5;

    let Rendered { body, errors, version, cause, .. } = rendered;
    let nonce = match via.visit() {
        Visit::Stays if !zoo::is(Bug::VersionAsNonce) => nonce_of(nonce),
        // With the stream of a fetch the number would be forgotten; the next request says of what it is the
        // answer.
        Visit::Stays | Visit::Fetches => Nonce::from(version.as_str()),
    };
    frame.head.clear();
    encode::string(&mut frame.head, VERSION_INFO, version.as_str());
    encode::string(&mut frame.head, TYPE_URL, type_url.as_str());
    encode::string(&mut frame.head, NONCE, nonce.as_str());
    frame.head.extend_from_slice(&errors.bytes);
    frame.body = body.bytes;
    ServerTransmit {
        type_url,
        version,
        nonce,
        variant: via.variant(),
        resources: body.resources,
        removed: body.removed,
        errors: errors.count,
        cause,
    }
}
