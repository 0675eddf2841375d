//! Oracles for messages that were observed on connections.
//!
//! A message is observed when its last byte is written or read. Its sender made it at that time or
//! before, and its receiver handles it at that time or later. So only a part of the rules can be
//! judged: those that the messages alone show to be broken, and those about participants at rest.

use super::{Oracle, Rule, client_requests, server_responses};

/// Oracles of messages.
pub(crate) fn oracles() -> Vec<Box<dyn Oracle>> {
    vec![
        Box::new(client_requests::ClientRequests::default()),
        Box::new(server_responses::ServerResponses::default()),
    ]
}

/// Rules that messages alone show to be broken.
pub(crate) fn rules_of_messages() -> Vec<Rule> {
    [&client_requests::OF_MESSAGES[..], &server_responses::rules::OF_MESSAGES].concat()
}

/// Rules about participants at rest.
pub(crate) fn rules_at_rest() -> Vec<Rule> {
    [&client_requests::AT_REST[..], &server_responses::rules::AT_REST].concat()
}
