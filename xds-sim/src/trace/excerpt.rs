//! Excerpts of long traces.

use core::ops::Range;
use std::collections::BTreeSet;

use super::event::{EventKind, MessageId, Trace, TraceEvent, TraceKind};

/// Number of events at the beginning of a trace that an excerpt shows.
const HEAD: usize = 20;

/// Maximum number of faults and notes that an excerpt shows.
const MARKS: usize = 100;

/// Frames that keep a connection open and limit its flow.
const HOUSEKEEPING: [&str; 3] = ["PING", "SETTINGS", "WINDOW_UPDATE"];

/// Events that a text shows.
pub(super) struct Shown {
    /// Whether each event is shown.
    events: Vec<bool>,
    /// Frames that are omitted wherever they are.
    housekeeping: BTreeSet<MessageId>,
}

impl Shown {
    /// Shows the events from an index on.
    pub(super) fn from_index(trace: &Trace, first: usize) -> Self {
        let events = (0..trace.events.len()).map(|index| index >= first).collect();
        Self { events, housekeeping: BTreeSet::new() }
    }

    /// Shows the first events, the last ones, and all faults, notes and phases, without frames that
    /// keep connections open.
    fn excerpt(trace: &Trace, last: usize) -> Self {
        let housekeeping: BTreeSet<_> = trace.events.iter().filter_map(housekeeping_of).collect();
        let own: Vec<usize> = (0..trace.events.len())
            .filter(|index| !is_about(&trace.events[*index], &housekeeping))
            .collect();
        let marks: Vec<usize> =
            own.iter().copied().filter(|index| is_mark(&trace.events[*index])).collect();
        let mut events = vec![false; trace.events.len()];
        let ends = own.iter().take(HEAD).chain(own.iter().rev().take(last));
        for index in ends.chain(marks.iter().rev().take(MARKS)) {
            events[*index] = true;
        }
        Self { events, housekeeping }
    }

    pub(super) fn contains(&self, index: usize) -> bool {
        self.events.get(index).copied().unwrap_or_default()
    }

    /// Describes omitted events.
    pub(super) fn gap(&self, trace: &Trace, range: Range<usize>) -> Option<String> {
        let omitted = trace.events.get(range.clone()).unwrap_or_default();
        if range.start == 0 && self.housekeeping.is_empty() {
            // Older events may have been dropped.
            let shown = trace.events.get(range.end).map(|event| event.number);
            let before = shown.or_else(|| trace.events.last().map(|event| event.number + 1));
            return before.filter(|before| *before > 0).map(|it| format!("{it} events before"));
        }
        let dropped = match range.start {
            0 => trace.events.first().map_or(0, |event| event.number),
            _ => 0,
        };
        let count = dropped + omitted.len() as u64;
        let frames = omitted.iter().filter(|it| is_about(it, &self.housekeeping)).count() as u64;
        let names = HOUSEKEEPING.join(", ");
        match (count, frames) {
            (0, _) => None,
            (_, 0) => Some(format!("{count} events")),
            _ if count == frames => Some(format!("{count} events of {names}")),
            _ => Some(format!("{count} events, {frames} of them of {names}")),
        }
    }
}

impl Trace {
    /// Formats the first events, at most `last` of the newest ones, and all faults, notes and phases
    /// as a sequence diagram, followed by the violation. PING, SETTINGS and WINDOW_UPDATE frames are
    /// omitted.
    #[must_use]
    pub fn to_excerpt(&self, last: usize) -> String {
        self.to_text_of(&Shown::excerpt(self, last), usize::MAX)
    }
}

/// Returns the message of an event that sends a frame which keeps a connection open.
fn housekeeping_of(event: &TraceEvent) -> Option<MessageId> {
    let TraceKind::Send { message, what, .. } = &event.kind else { return None };
    let is_frame = |name: &&str| what.text.starts_with(*name);
    let is_it = what.kind == EventKind::Transport && HOUSEKEEPING.iter().any(is_frame);
    is_it.then_some(*message)
}

fn is_about(event: &TraceEvent, messages: &BTreeSet<MessageId>) -> bool {
    match &event.kind {
        TraceKind::Send { message, .. }
        | TraceKind::Deliver { message }
        | TraceKind::Lost { message, .. } => messages.contains(message),
        TraceKind::Local { .. } | TraceKind::Fault { .. } | TraceKind::Phase(_) => false,
    }
}

fn is_mark(event: &TraceEvent) -> bool {
    match &event.kind {
        TraceKind::Fault { .. } | TraceKind::Phase(_) => true,
        TraceKind::Local { what, .. } => what.kind == EventKind::Note,
        TraceKind::Send { .. } | TraceKind::Deliver { .. } | TraceKind::Lost { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use xds_core::Time;

    use crate::trace::{
        Description, EventKind, Extent, Header, Keep, ParticipantKind, Recorder, Trace,
    };

    /// A trace with a fault, a note, and many requests and pings around them.
    fn trace() -> Trace {
        let mut recorder = Recorder::new(Keep::All);
        let client = recorder.lane(ParticipantKind::Client, "client", None);
        let server = recorder.lane(ParticipantKind::Server, "server", None);
        let send = |recorder: &mut Recorder, kind, text: String| {
            let what = || Description::new(kind, text);
            let message = recorder.send(Time::ZERO, client, server, b"", what);
            recorder.deliver(Time::ZERO, message);
        };
        for number in 0..300 {
            send(&mut recorder, EventKind::Transport, "PING".into());
            send(&mut recorder, EventKind::Request, format!("number {number}"));
            if number == 150 {
                recorder.fault(Time::ZERO, &[client], Extent::Instant, "a fault");
                let note = || Description::new(EventKind::Note, "a note");
                recorder.local(Time::ZERO, client, b"", note);
            }
        }
        recorder.finish(Header::new(None, Vec::new()), None)
    }

    #[test]
    fn excerpt_has_both_ends_and_all_faults_and_notes_without_pings() {
        let text = trace().to_excerpt(10);
        for shown in
            ["number 0\n", "number 9\n", "a fault", "a note", "number 295\n", "number 299\n"]
        {
            assert!(text.contains(shown), "{shown} in {text}");
        }
        for omitted in ["PING\n", "number 10\n", "number 150\n", "number 294\n"] {
            assert!(!text.contains(omitted), "{omitted} in {text}");
        }
        assert!(
            text.contains(".. 564 events, 282 of them of PING, SETTINGS, WINDOW_UPDATE .."),
            "{text}"
        );
        assert!(text.contains(".. 2 events of PING, SETTINGS, WINDOW_UPDATE .."), "{text}");
    }
}
