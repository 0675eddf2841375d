//! Bytes that break off: the walk over a frame, from both sides and in both variants.

use crate::{delta_request, delta_response, discovery_request, discovery_response};

/// Each message, and each beginning of it, is taken by every reader of frames.
pub fn frames(bytes: &[u8]) {
    // All beginnings of a long message take long, and break off at no other kind of place.
    let longest = bytes.len().min(48);
    for end in (0..longest).chain([bytes.len()]) {
        let beginning = &bytes[..end];
        discovery_response(beginning);
        delta_response(beginning);
        discovery_request(beginning);
        delta_request(beginning);
    }
}
