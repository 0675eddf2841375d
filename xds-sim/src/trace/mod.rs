//! Traces: recorded runs, in several output formats.
//!
//! A [`Recorder`] records and hashes each event; the result is a [`Trace`]. Two runs are equal if
//! and only if their hashes are, even if no events were kept.

mod event;
mod excerpt;
mod html;
mod json;
mod mermaid;
mod messages;
pub(crate) mod printable;
mod recorder;
mod text;

pub use event::{
    Description, EventKind, Extent, Header, MessageId, Participant, ParticipantId, ParticipantKind,
    Phase, Trace, TraceEvent, TraceKind, Violation,
};
pub use recorder::{Keep, Recorder};
