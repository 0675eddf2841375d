//! Trace as a Mermaid sequence diagram, which code forges and wikis render.

use std::fmt::Write as _;

use super::{
    event::{Extent, ParticipantId, ParticipantKind, Trace, TraceEvent, TraceKind},
    messages::{MessageOutcome, Messages},
    printable::printable,
};

impl Trace {
    /// Formats the newest events, at most `last`, as a Mermaid `sequenceDiagram`.
    ///
    /// Each arrow is at the position where its message was sent. Lost messages have a cross.
    #[must_use]
    pub fn to_mermaid(&self, last: usize) -> String {
        let messages = Messages::of(self);
        let mut out = String::from("sequenceDiagram\n");
        for (index, lane) in self.lanes.iter().enumerate() {
            let word = match lane.kind {
                ParticipantKind::Client | ParticipantKind::Server => "participant",
                ParticipantKind::Watcher | ParticipantKind::Store => "actor",
            };
            let _ = writeln!(out, "    {word} l{index} as {}", quoted(&lane.name));
        }
        let skipped = self.events.len().saturating_sub(last);
        if skipped > 0 {
            let _ =
                writeln!(out, "    {}", self.note_over_all(&format!("{skipped} events before")));
        }
        for event in self.events.iter().skip(skipped) {
            if let Some(line) = self.mermaid_line(&messages, event) {
                let _ = writeln!(out, "    {line}");
            }
        }
        if let Some(violation) = &self.violation {
            let text = format!("✗ {} {}", violation.invariant, violation.what);
            let _ = writeln!(out, "    {}", self.note_over_all(&text));
        }
        out
    }

    fn mermaid_line(&self, messages: &Messages, event: &TraceEvent) -> Option<String> {
        let at = event.at;
        Some(match &event.kind {
            TraceKind::Send { message, from, to, what } => {
                let arrow = match messages.get(*message).map(|sent| sent.end) {
                    Some(MessageOutcome::Lost(_)) => "-x",
                    Some(MessageOutcome::Delivered(_)) => "->>",
                    Some(MessageOutcome::None) | None => "-)",
                };
                let sort = what.kind.as_str();
                let text = quoted(&format!("{at} {message} {sort}: {}", what.text));
                format!("l{}{arrow}l{}: {text}", from.0, to.0)
            }
            // Shown where the message was sent.
            TraceKind::Deliver { .. } | TraceKind::Lost { .. } => return None,
            TraceKind::Local { lane, what } => {
                let text = quoted(&format!("{at} {}: {}", what.kind.as_str(), what.text));
                format!("Note over l{}: {text}", lane.0)
            }
            TraceKind::Fault { lanes, what, extent } => {
                let word = match extent {
                    Extent::Begins => "fault begins",
                    Extent::Ends => "fault ends",
                    Extent::Instant => "fault",
                };
                let text = format!("{at} {word}: {what}");
                match (lanes.iter().min(), lanes.iter().max()) {
                    (Some(first), Some(last)) => note_over(*first, *last, &text),
                    _ => self.note_over_all(&text),
                }
            }
            TraceKind::Phase(phase) => self.note_over_all(&format!("phase: {}", phase.as_str())),
        })
    }

    fn note_over_all(&self, text: &str) -> String {
        let last = u32::try_from(self.lanes.len().saturating_sub(1)).unwrap_or(u32::MAX);
        note_over(ParticipantId(0), ParticipantId(last), text)
    }
}

fn note_over(first: ParticipantId, last: ParticipantId, text: &str) -> String {
    let text = quoted(text);
    match first == last {
        true => format!("Note over l{}: {text}", first.0),
        false => format!("Note over l{},l{}: {text}", first.0, last.0),
    }
}

/// Escapes characters that are special to Mermaid or to HTML.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '#' | ';' | '<' | '>' | '&' | '"' | '%' | '{' | '}' | '\\' => {
                let _ = write!(out, "#{};", u32::from(character));
            }
            other => out.push(other),
        }
    }
    out
}
