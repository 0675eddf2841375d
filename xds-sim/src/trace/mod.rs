//! What happened in a run: recorded once, looked at in several ways.
//!
//! A [`Recorder`] takes down each event as it happens and hashes it; what comes out is a [`Trace`].
//! Two runs are the same run exactly if their hashes are equal, also when nothing else was kept.

mod event;
mod failure;
mod html;
mod json;
mod mermaid;
mod messages;
mod printable;
mod recorder;
mod text;

pub use event::{
    Extent, Header, Lane, LaneId, LaneKind, MessageId, Phase, Sort, Trace, TraceEvent, TraceKind,
    Violation, What,
};
pub use recorder::{Keep, Recorder};
