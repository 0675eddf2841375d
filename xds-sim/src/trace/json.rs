//! Trace as NDJSON: one object per event.

use serde::Serialize;

use super::event::{Extent, Header, ParticipantId, Trace, TraceEvent, TraceKind, Violation};

/// One line of output. Times are in nanoseconds of virtual time.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line<'t> {
    Run {
        /// Text, like the hash, because many JSON readers lose precision of large integers.
        seed: Option<String>,
        tape: Option<&'t str>,
        options: &'t [String],
        sim: &'t str,
        core: &'t str,
        hash: String,
    },
    Lane {
        name: &'t str,
        kind: &'t str,
        owner: Option<&'t str>,
    },
    Send {
        number: u64,
        at: u64,
        message: u64,
        from: &'t str,
        to: &'t str,
        sort: &'t str,
        text: &'t str,
        names: &'t [String],
    },
    Deliver {
        number: u64,
        at: u64,
        message: u64,
    },
    Lost {
        number: u64,
        at: u64,
        message: u64,
        why: &'t str,
    },
    Local {
        number: u64,
        at: u64,
        lane: &'t str,
        sort: &'t str,
        text: &'t str,
        names: &'t [String],
    },
    Fault {
        number: u64,
        at: u64,
        lanes: Vec<&'t str>,
        extent: &'t str,
        text: &'t str,
    },
    Phase {
        number: u64,
        at: u64,
        phase: &'t str,
    },
    Violation {
        number: u64,
        at: u64,
        invariant: &'t str,
        rule: &'t str,
        text: &'t str,
    },
}

impl Trace {
    /// Formats the run as NDJSON: its header, its participants, its events, and the violation if
    /// there was one.
    #[must_use]
    pub fn to_ndjson(&self) -> String {
        let mut out = String::new();
        for line in self.lines() {
            // Serialization of these types cannot fail.
            out.push_str(&serde_json::to_string(&line).unwrap_or_default());
            out.push('\n');
        }
        out
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let lanes = self.lanes.iter().map(|lane| Line::Lane {
            name: &lane.name,
            kind: lane.kind.as_str(),
            owner: lane.owner.map(|owner| self.name(owner)),
        });
        std::iter::once(header(&self.header))
            .chain(lanes)
            .chain(self.events.iter().map(|event| self.line(event)))
            .chain(self.violation.iter().map(violation))
    }

    fn line<'t>(&'t self, event: &'t TraceEvent) -> Line<'t> {
        let (number, at) = (event.number, event.at.as_nanos());
        match &event.kind {
            TraceKind::Send { message, from, to, what } => Line::Send {
                number,
                at,
                message: message.0,
                from: self.name(*from),
                to: self.name(*to),
                sort: what.kind.as_str(),
                text: &what.text,
                names: &what.names,
            },
            TraceKind::Deliver { message } => Line::Deliver { number, at, message: message.0 },
            TraceKind::Lost { message, why } => Line::Lost { number, at, message: message.0, why },
            TraceKind::Local { lane, what } => Line::Local {
                number,
                at,
                lane: self.name(*lane),
                sort: what.kind.as_str(),
                text: &what.text,
                names: &what.names,
            },
            TraceKind::Fault { lanes, what, extent } => Line::Fault {
                number,
                at,
                lanes: lanes.iter().map(|lane| self.name(*lane)).collect(),
                extent: match extent {
                    Extent::Begins => "begins",
                    Extent::Ends => "ends",
                    Extent::Instant => "instant",
                },
                text: what,
            },
            TraceKind::Phase(phase) => Line::Phase { number, at, phase: phase.as_str() },
        }
    }

    /// Returns the name of a participant.
    pub(super) fn name(&self, lane: ParticipantId) -> &str {
        self.lanes.get(lane.0 as usize).map_or("?", |lane| &lane.name)
    }
}

fn header(header: &Header) -> Line<'_> {
    Line::Run {
        seed: header.seed.map(|seed| seed.to_string()),
        tape: header.tape.as_deref(),
        options: &header.options,
        sim: header.sim,
        core: header.core,
        hash: format!("{:016x}", header.hash),
    }
}

fn violation(violation: &Violation) -> Line<'_> {
    Line::Violation {
        number: violation.number,
        at: violation.at.as_nanos(),
        invariant: violation.invariant,
        rule: violation.rule,
        text: &violation.what,
    }
}
