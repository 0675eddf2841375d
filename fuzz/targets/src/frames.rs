//! Bytes that break off: the walk over a frame, from both sides and in both variants.

use crate::{delta_request, delta_response, discovery_request, discovery_response};

/// A message is taken by every reader of frames, whole and broken off in some places.
pub fn frames(bytes: &[u8]) {
    let len = bytes.len();
    for end in [len, len.saturating_sub(1), len / 2, len / 4] {
        let beginning = &bytes[..end];
        discovery_response(beginning);
        delta_response(beginning);
        discovery_request(beginning);
        delta_request(beginning);
    }
}
