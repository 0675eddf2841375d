//! Recording of what happens on a stage.

use core::fmt;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use tokio::time::Instant;
use xds_core::Time;

use crate::trace::{
    Description, EventKind, Extent, Header, Keep, MessageId, ParticipantId, ParticipantKind, Phase,
    Recorder, Trace, Violation,
};

/// Shared recorder of a run, with a counter of the visible actions of all tasks.
#[derive(Clone)]
pub(super) struct Log(Arc<Inner>);

struct Inner {
    recorder: Mutex<Recorder>,
    start: Instant,
    visible: AtomicU64,
}

impl Log {
    pub(super) fn new(keep: Keep) -> Self {
        Self(Arc::new(Inner {
            recorder: Mutex::new(Recorder::new(keep)),
            start: Instant::now(),
            visible: AtomicU64::new(0),
        }))
    }

    /// Virtual time since the start of the run.
    pub(super) fn now(&self) -> Time {
        Time::ZERO.after(self.0.start.elapsed())
    }

    /// Counts a visible action: one that a task must not do without a cause.
    pub(super) fn count_action(&self) {
        self.0.visible.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of visible actions so far.
    pub(super) fn actions(&self) -> u64 {
        self.0.visible.load(Ordering::Relaxed)
    }

    pub(super) fn lane(&self, kind: ParticipantKind, name: &str) -> ParticipantId {
        self.recorder().lane(kind, name, None)
    }

    pub(super) fn send(
        &self,
        from: ParticipantId,
        to: ParticipantId,
        bytes: &[u8],
        what: impl FnOnce() -> Description,
    ) -> MessageId {
        self.recorder().send(self.now(), from, to, bytes, what)
    }

    pub(super) fn deliver(&self, message: MessageId) {
        self.recorder().deliver(self.now(), message);
    }

    pub(super) fn lost(&self, message: MessageId, why: &'static str) {
        self.recorder().lost(self.now(), message, why);
    }

    pub(super) fn local(&self, lane: ParticipantId, kind: EventKind, text: impl Into<String>) {
        let text = text.into();
        let bytes = text.clone();
        self.recorder().local(self.now(), lane, bytes.as_bytes(), || Description::new(kind, text));
    }

    pub(super) fn fault(&self, lanes: &[ParticipantId], extent: Extent, what: &str) {
        self.recorder().fault(self.now(), lanes, extent, what);
    }

    pub(super) fn phase(&self, phase: Phase) {
        self.recorder().phase(self.now(), phase);
    }

    /// Ends the recording. Later events are lost.
    pub(super) fn finish(&self, header: Header, violation: Option<Violation>) -> Trace {
        let mut recorder = self.recorder();
        core::mem::replace(&mut *recorder, Recorder::new(Keep::Nothing)).finish(header, violation)
    }

    /// Number of events so far.
    pub(super) fn events(&self) -> u64 {
        self.recorder().count()
    }

    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.0.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("actions", &self.actions()).finish_non_exhaustive()
    }
}
