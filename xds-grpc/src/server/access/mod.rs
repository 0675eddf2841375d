//! Identity and admission of clients.
//!
//! | file | content |
//! |---|---|
//! | `peer.rs` | identity of a client as known to the transport |
//! | `authorize.rs` | the authorizer's interface |
//! | `policies.rs` | ready-made authorizers |

pub(crate) mod authorize;
pub(crate) mod peer;
pub(crate) mod policies;
