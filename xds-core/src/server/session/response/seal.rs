//! Envelope of a response: the client's own bytes around the body shared with other clients.

use core::num::NonZeroU64;

use crate::{
    frame::Frame,
    server::{
        event::{ServerTransmit, StreamKind, StreamLifetime},
        session::{RenderedResponse, request::ack::nonce_of},
    },
    text::{Nonce, TypeUrl},
    wire::encode,
    zoo::{self, Bug},
};

/// Writes a rendered response into `frame` and describes it.
pub(crate) fn seal(
    frame: &mut Frame,
    via: &StreamKind,
    type_url: TypeUrl,
    nonce: NonZeroU64,
    rendered: RenderedResponse,
) -> ServerTransmit {
    // Both response messages use these field numbers.
    const VERSION_INFO: u32 = 1;
    const TYPE_URL: u32 = 4;
    const NONCE: u32 = 5;

    let RenderedResponse { body, errors, version, cause, .. } = rendered;
    let nonce = match via.lifetime() {
        StreamLifetime::LongLived if !zoo::is(Bug::VersionAsNonce) => nonce_of(nonce),
        // The stream of a fetch ends with the response, so a number would be forgotten. With the
        // version as its nonce, the next request states which response it answers.
        StreamLifetime::LongLived | StreamLifetime::SingleResponse => Nonce::from(version.as_str()),
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
