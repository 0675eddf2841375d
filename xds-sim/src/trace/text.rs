//! Trace as a character diagram.
//!
//! Each participant is a column, and each event a line with its place and its description.
//!
//! ```text
//!    time  event   client-0      server-0
//!  0.000s      0   ◆             │          watches cds a
//!  0.000s      1   ├────────────▶│          m0 request: cds a
//!  0.005s      3   │             ●          looks it up
//!  0.005s      4   │    ✗────────┤          m1 response: cds a v1 -- lost: the stream was reset
//! ```
//!
//! Where the columns leave no room for the descriptions, the participants are written in words.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{
    event::{EventKind, Extent, ParticipantId, ParticipantKind, Trace, TraceEvent, TraceKind},
    excerpt::Shown,
    messages::{MessageOutcome, Messages, Sent},
    printable::printable,
};

/// Minimum distance between two columns, which leaves space for an arrow.
const NARROWEST: usize = 9;
/// Maximum width that a participant's name gives to its column.
const WIDEST: usize = 16;
/// Characters of a line before its columns: time, number and mark of the event.
const PREFIX: usize = 21;
/// Minimum width of the descriptions beside a diagram.
const DESCRIPTION: usize = 36;

impl Trace {
    /// Formats the newest events, at most `last`, as a sequence diagram, followed by the violation.
    ///
    /// Only participants of the shown events have a column. Control characters in peers' text are
    /// escaped.
    #[must_use]
    pub fn to_text(&self, last: usize) -> String {
        self.to_text_within(last, usize::MAX)
    }

    /// Formats the newest events, at most `last`, for a terminal of `width` columns: as a sequence diagram
    /// if it leaves 36 columns for the descriptions, otherwise with the names of the participants. Long
    /// descriptions exceed the width.
    #[must_use]
    pub fn to_text_within(&self, last: usize, width: usize) -> String {
        let skipped = self.events.len().saturating_sub(last);
        self.to_text_of(&Shown::from_index(self, skipped), width)
    }

    /// Formats the shown events for a terminal of `width` columns.
    pub(super) fn to_text_of(&self, shown: &Shown, width: usize) -> String {
        let mut diagram = Diagram::of(self, shown);
        if diagram.width.saturating_add(PREFIX + DESCRIPTION) > width {
            diagram = diagram.in_words();
        }
        let mut out = diagram.heading();
        let mut next = 0;
        for (index, event) in self.events.iter().enumerate() {
            if !shown.contains(index) {
                continue;
            }
            if let Some(gap) = shown.gap(self, next..index) {
                let _ = writeln!(out, "{:>18}   .. {gap} ..", "");
            }
            next = index + 1;
            diagram.line(&mut out, index, event);
        }
        if let Some(gap) = shown.gap(self, next..self.events.len()) {
            let _ = writeln!(out, "{:>18}   .. {gap} ..", "");
        }
        if let Some(violation) = &self.violation {
            let _ = writeln!(
                out,
                "{:>10}{:>8} ✗ {} {}",
                violation.at.to_string(),
                violation.number,
                violation.invariant,
                printable(&violation.what)
            );
        }
        out
    }
}

struct Diagram<'t> {
    trace: &'t Trace,
    messages: Messages,
    /// Position of each participant's column, in characters. Empty if participants are written in words.
    columns: BTreeMap<ParticipantId, usize>,
    width: usize,
}

/// Cells of a line, which are overwritten in turn.
struct Cells(Vec<char>);

impl<'t> Diagram<'t> {
    fn of(trace: &'t Trace, shown: &Shown) -> Self {
        let messages = Messages::of(trace);
        let mut present = BTreeSet::new();
        let events = trace.events.iter().enumerate().filter(|(index, _)| shown.contains(*index));
        for (_, event) in events {
            present.extend(messages.lanes_of(event));
        }
        let mut columns = BTreeMap::new();
        let mut width = 0;
        for lane in present {
            columns.insert(lane, width);
            let name = printable(trace.name(lane));
            width += name.chars().count().clamp(NARROWEST, WIDEST) + 2;
        }
        Self { trace, messages, columns, width }
    }

    fn in_words(self) -> Self {
        Self { columns: BTreeMap::new(), width: 0, ..self }
    }

    fn heading(&self) -> String {
        let mut names = String::new();
        for (&lane, &column) in &self.columns {
            let missing = column.saturating_sub(names.chars().count());
            names.extend(std::iter::repeat_n(' ', missing));
            names.extend(printable(self.trace.name(lane)).chars().take(WIDEST));
        }
        format!("{:>10}{:>8}   {names}\n", "time", "event")
    }

    fn line(&self, out: &mut String, index: usize, event: &TraceEvent) {
        let mut cells = Cells::new(self);
        let text = match &event.kind {
            TraceKind::Send { message, from, to, what } => {
                let sent = self.messages.get(*message);
                let end = sent.map_or(MessageOutcome::None, |sent| sent.end);
                cells.arrow(
                    self.column(*from),
                    self.column(*to),
                    matches!(end, MessageOutcome::Lost(_)),
                );
                let outcome_text = self.outcome_text(event, end);
                let text = printable(&what.text);
                format!("{message} {}: {text}{outcome_text}", what.kind.as_str())
            }
            TraceKind::Deliver { message } => {
                // The arrow in the previous line shows the arrival.
                if self.arrives_at_once(index, event) {
                    return;
                }
                let Some(sent) = self.messages.get(*message) else {
                    return self.write(out, event, &cells, &format!("{message} arrives"));
                };
                cells.head(self.column(sent.from), self.column(sent.to));
                format!("{message} arrives, {} after it was sent", Self::since(event, sent))
            }
            TraceKind::Lost { message, why } => {
                if let Some(sent) = self.messages.get(*message) {
                    cells.put(self.column(sent.to), '✗');
                }
                format!("{message} is lost: {why}")
            }
            TraceKind::Local { lane, what } => {
                let kind = self.trace.lanes.get(lane.0 as usize).map(|lane| lane.kind);
                cells.put(self.column(*lane), mark(kind, what.kind));
                format!("{}: {}", what.kind.as_str(), printable(&what.text))
            }
            TraceKind::Fault { lanes, what, extent } => {
                let (sign, word) = match extent {
                    Extent::Begins => ('╥', "fault begins"),
                    Extent::Ends => ('╨', "fault ends"),
                    Extent::Instant => ('╫', "fault"),
                };
                lanes.iter().for_each(|lane| cells.put(self.column(*lane), sign));
                format!("{word}: {}", printable(what))
            }
            TraceKind::Phase(phase) => {
                cells.rule();
                format!("phase: {}", phase.as_str())
            }
        };
        self.write(out, event, &cells, &text);
    }

    fn write(&self, out: &mut String, event: &TraceEvent, cells: &Cells, text: &str) {
        let drawing = match self.columns.is_empty() {
            true => self.in_words_of(event),
            false => cells.0.iter().collect(),
        };
        let at = event.at.to_string();
        let is_culprit = self.trace.violation.as_ref().is_some_and(|it| it.number == event.number);
        let sign = if is_culprit { '✗' } else { ' ' };
        let _ = writeln!(out, "{at:>10}{:>8} {sign} {drawing} {text}", event.number);
    }

    /// Returns the participants of an event, with the direction of a message.
    fn in_words_of(&self, event: &TraceEvent) -> String {
        let name = |lane: ParticipantId| printable(self.trace.name(lane));
        let way = |from, sign, to| format!("{} {sign} {}", name(from), name(to));
        let of_message = |message, sign| {
            self.messages.get(message).map(|it| way(it.from, sign, it.to)).unwrap_or_default()
        };
        match &event.kind {
            TraceKind::Send { message, from, to, .. } => {
                let end = self.messages.get(*message).map_or(MessageOutcome::None, |it| it.end);
                way(*from, if matches!(end, MessageOutcome::Lost(_)) { '✗' } else { '▶' }, *to)
            }
            TraceKind::Deliver { message } => of_message(*message, '▶'),
            TraceKind::Lost { message, .. } => of_message(*message, '✗'),
            TraceKind::Local { lane, .. } => name(*lane),
            TraceKind::Fault { lanes, .. } => {
                lanes.iter().map(|&lane| name(lane)).collect::<Vec<_>>().join(", ")
            }
            TraceKind::Phase(_) => String::new(),
        }
    }

    fn column(&self, lane: ParticipantId) -> usize {
        self.columns.get(&lane).copied().unwrap_or(self.width)
    }

    /// Whether the message was sent in the previous event at the same instant.
    fn arrives_at_once(&self, index: usize, event: &TraceEvent) -> bool {
        let before = index.checked_sub(1).and_then(|before| self.trace.events.get(before));
        let (TraceKind::Deliver { message }, Some(before)) = (&event.kind, before) else {
            return false;
        };
        matches!(&before.kind, TraceKind::Send { message: sent, .. } if sent == message)
            && before.at == event.at
    }

    fn outcome_text(&self, event: &TraceEvent, end: MessageOutcome) -> String {
        match end {
            MessageOutcome::Delivered(number) if number == event.number + 1 => String::new(),
            MessageOutcome::Delivered(number) => format!(" (arrives in {number})"),
            MessageOutcome::Lost(number) => format!(" (lost in {number})"),
            MessageOutcome::None => " (under way at the end)".into(),
        }
    }

    fn since(event: &TraceEvent, sent: &Sent) -> String {
        let millis = event.at.since(sent.at).as_secs_f64() * 1_000.0;
        format!("{millis:.1} ms")
    }
}

/// Returns the symbol of an event at one participant.
fn mark(kind: Option<ParticipantKind>, sort: EventKind) -> char {
    match (sort, kind) {
        (EventKind::Watch, _) => '◆',
        (EventKind::Notice, _) => '◇',
        (EventKind::Transport, _) => '○',
        (EventKind::Timer, _) => '◷',
        (_, Some(ParticipantKind::Store)) => '■',
        _ => '●',
    }
}

impl Cells {
    fn new(diagram: &Diagram<'_>) -> Self {
        let mut cells = Self(vec![' '; diagram.width]);
        diagram.columns.values().for_each(|&column| cells.put(column, '│'));
        cells
    }

    fn put(&mut self, at: usize, character: char) {
        if let Some(cell) = self.0.get_mut(at) {
            *cell = character;
        }
    }

    /// Draws an arrow between two columns; if the message is lost it ends half way.
    fn arrow(&mut self, from: usize, to: usize, is_lost: bool) {
        let (low, high) = (from.min(to), from.max(to));
        (low + 1..high).for_each(|at| {
            if self.0.get(at) == Some(&'│') { self.put(at, '┼') } else { self.put(at, '─') }
        });
        let is_right = from < to;
        self.put(from, if is_right { '├' } else { '┤' });
        if is_lost {
            let half = low + (high - low) / 2;
            let beyond = if is_right { half + 1..high } else { low + 1..half };
            beyond.for_each(|at| {
                if self.0.get(at) == Some(&'┼') { self.put(at, '│') } else { self.put(at, ' ') }
            });
            self.put(half, '✗');
        } else {
            self.head(from, to);
        }
    }

    /// Draws an arrowhead next to the target column.
    fn head(&mut self, from: usize, to: usize) {
        if from < to {
            self.put(to.saturating_sub(1), '▶');
        } else {
            self.put(to + 1, '◀');
        }
    }

    /// Draws a horizontal line across all columns.
    fn rule(&mut self) {
        for cell in &mut self.0 {
            *cell = if *cell == '│' { '╪' } else { '═' };
        }
    }
}
