//! Fuzz target for truncated messages, on both sides and in both variants.

use crate::{delta_request, delta_response, discovery_request, discovery_response};

/// Passes a message, whole and truncated at some positions, to every reader of messages.
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
