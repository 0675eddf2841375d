//! Rejections by clients, written to the objects whose resources are rejected.
//!
//! | file | content |
//! |---|---|
//! | `plan.rs` | which write is due, without I/O |
//! | `writer.rs` | Events and the annotation |

mod plan;
mod writer;

pub use self::{plan::Rejection, writer::Feedback};
