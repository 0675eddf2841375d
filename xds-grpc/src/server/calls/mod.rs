//! Requests of gRPC calls, within limits of time and memory, and the health service.
//!
//! | file | content |
//! |---|---|
//! | `message_reader.rs` | messages of a request body |
//! | `timed_requests.rs` | time and memory of the requests of client status and health |
//! | `health.rs` | health service |

pub(crate) mod health;
pub(crate) mod message_reader;
pub(crate) mod timed_requests;
