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
pub(crate) struct Log(Arc<Inner>);

struct Inner {
    recorder: Mutex<Recorder>,
    start: Instant,
    visible: AtomicU64,
    faults: AtomicU64,
}

impl Log {
    pub(crate) fn new(keep: Keep) -> Self {
        Self(Arc::new(Inner {
            recorder: Mutex::new(Recorder::new(keep)),
            start: Instant::now(),
            visible: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        }))
    }

    /// Virtual time since the start of the run.
    pub(crate) fn now(&self) -> Time {
        Time::ZERO.after(self.0.start.elapsed())
    }

    /// Counts a visible action: one that a task must not do without a cause.
    pub(crate) fn count_action(&self) {
        self.0.visible.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of visible actions so far.
    pub(crate) fn actions(&self) -> u64 {
        self.0.visible.load(Ordering::Relaxed)
    }

    pub(crate) fn lane(&self, kind: ParticipantKind, name: &str) -> ParticipantId {
        self.recorder().lane(kind, name, None)
    }

    pub(crate) fn send(
        &self,
        from: ParticipantId,
        to: ParticipantId,
        bytes: &[u8],
        what: impl FnOnce() -> Description,
    ) -> MessageId {
        self.recorder().send(self.now(), from, to, bytes, what)
    }

    pub(crate) fn deliver(&self, message: MessageId) {
        self.recorder().deliver(self.now(), message);
    }

    pub(crate) fn lost(&self, message: MessageId, why: &'static str) {
        self.recorder().lost(self.now(), message, why);
    }

    pub(crate) fn local(&self, lane: ParticipantId, kind: EventKind, text: impl Into<String>) {
        let text = text.into();
        let bytes = text.clone();
        self.recorder().local(self.now(), lane, bytes.as_bytes(), || Description::new(kind, text));
    }

    pub(crate) fn fault(&self, lanes: &[ParticipantId], extent: Extent, what: &str) {
        if extent != Extent::Ends {
            self.0.faults.fetch_add(1, Ordering::Relaxed);
        }
        self.recorder().fault(self.now(), lanes, extent, what);
    }

    pub(crate) fn phase(&self, phase: Phase) {
        self.recorder().phase(self.now(), phase);
    }

    /// Ends the recording. Later events are lost.
    pub(crate) fn finish(&self, header: Header, violation: Option<Violation>) -> Trace {
        let mut recorder = self.recorder();
        core::mem::replace(&mut *recorder, Recorder::new(Keep::Nothing)).finish(header, violation)
    }

    /// Number of faults so far.
    pub(crate) fn faults(&self) -> u64 {
        self.0.faults.load(Ordering::Relaxed)
    }

    /// Number of events so far.
    pub(crate) fn events(&self) -> u64 {
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
