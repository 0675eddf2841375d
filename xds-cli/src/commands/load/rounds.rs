//! Measurement: rounds, each from a change until all clients are at rest.

use core::time::Duration;
use std::{collections::BTreeMap, time::Instant};

use serde_json::{Value as Json, json};

use super::{
    connection::{EndedStream, Observation, StreamState},
    process::Usage,
};
use crate::{
    numbers::{grouped, grouped_count},
    text::escaped,
};

/// Streams that are open or wait for the server, over all rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Streams {
    /// Streams that the server has accepted.
    pub(super) open: u32,
    /// Requested streams that the server has not accepted yet.
    pub(super) waiting: u32,
}

impl Streams {
    pub(super) const fn note(&mut self, observation: &Observation) {
        match observation {
            Observation::Requested => self.waiting += 1,
            Observation::Opened => {
                self.waiting = self.waiting.saturating_sub(1);
                self.open += 1;
            }
            Observation::Ended(stream) => match stream.state {
                StreamState::Connecting => {}
                StreamState::Waiting => self.waiting = self.waiting.saturating_sub(1),
                StreamState::Open => self.open = self.open.saturating_sub(1),
            },
            Observation::Response(_) | Observation::Ack | Observation::Nack => {}
        }
    }

    /// Describes the waiting streams, with the most frequent cause.
    pub(super) fn waiting_text(self) -> String {
        let streams = grouped_count(u64::from(self.waiting), "stream");
        format!("{streams} not accepted yet: too many on one connection? (--connections)")
    }
}

/// Number of events by reason.
#[derive(Clone, Debug, Default)]
struct Reasons(BTreeMap<String, u64>);

impl Reasons {
    /// Counts an event. Reasons contain what the server sent, so their length and number are
    /// limited.
    fn note(&mut self, why: &str) {
        let mut why: String = escaped(why).chars().take(REASON).collect();
        if self.0.len() >= REASONS && !self.0.contains_key(&why) {
            OTHERS.clone_into(&mut why);
        }
        *self.0.entry(why).or_default() += 1;
    }

    fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns one line for each reason, with `noun` for one event.
    fn text(&self, noun: &str) -> String {
        let line = |(why, number): (&String, &u64)| {
            format!("    {}: {why}\n", grouped_count(*number, noun))
        };
        self.0.iter().map(line).collect()
    }
}

/// Measurement from one change until all clients are at rest.
#[derive(Debug)]
pub(super) struct Round {
    name: String,
    begun: Instant,
    /// Time of the last observation.
    last: Instant,
    /// Times of the ACKs since the beginning.
    acks: Vec<Duration>,
    nacks: u64,
    responses: u64,
    bytes: u64,
    /// Streams that the server ended before its first response.
    refused: Reasons,
    /// Other ended streams and failed attempts.
    errors: Reasons,
}

/// Maximum number of reasons that are kept.
const REASONS: usize = 20;
/// Maximum number of characters of a reason.
const REASON: usize = 200;
/// Reason of the errors that exceed the maximum.
const OTHERS: &str = "other reasons";

/// Time of the last ACK and of shares of them, from the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quantiles {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) last: Duration,
}

impl Round {
    pub(super) fn new(name: String, begun: Instant) -> Self {
        Self {
            name,
            begun,
            last: begun,
            acks: Vec::new(),
            nacks: 0,
            responses: 0,
            bytes: 0,
            refused: Reasons::default(),
            errors: Reasons::default(),
        }
    }

    pub(super) fn note(&mut self, at: Instant, observation: Observation) {
        self.last = self.last.max(at);
        match observation {
            Observation::Requested | Observation::Opened => {}
            Observation::Ended(EndedStream { is_refused, why, .. }) => match is_refused {
                true => self.refused.note(&why),
                false => self.errors.note(&why),
            },
            Observation::Response(bytes) => {
                self.responses += 1;
                self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
            }
            Observation::Ack => self.acks.push(at.saturating_duration_since(self.begun)),
            Observation::Nack => self.nacks += 1,
        }
    }

    /// Delays the end of the round: something has happened at this time.
    pub(super) fn touch(&mut self, at: Instant) {
        self.last = self.last.max(at);
    }

    /// Whether nothing has happened for this time.
    pub(super) fn is_quiet(&self, now: Instant, settle: Duration) -> bool {
        now.saturating_duration_since(self.last) >= settle
    }

    pub(super) fn is_longer_than(&self, now: Instant, limit: Duration) -> bool {
        now.saturating_duration_since(self.begun) >= limit
    }

    /// Returns the number of ACKs and NACKs so far.
    pub(super) fn answers(&self) -> u64 {
        u64::try_from(self.acks.len()).unwrap_or(u64::MAX) + self.nacks
    }

    /// Returns the quantiles of the ACKs; `None` if there are none.
    pub(super) fn quantiles(&mut self) -> Option<Quantiles> {
        self.acks.sort_unstable();
        let at = |percent: usize| {
            let rank = (self.acks.len() * percent).div_ceil(100).saturating_sub(1);
            self.acks.get(rank).copied()
        };
        Some(Quantiles { p50: at(50)?, p99: at(99)?, last: at(100)? })
    }

    pub(super) fn json(&mut self, streams: Streams, usage: Option<Usage>) -> Json {
        let quantiles = self.quantiles();
        let ms = |of: fn(&Quantiles) -> Duration| {
            quantiles.as_ref().map(|it| of(it).as_secs_f64() * 1e3)
        };
        let mut json = json!({
            "round": self.name,
            "acks": self.acks.len(),
            "nacks": self.nacks,
            "p50_ms": ms(|it| it.p50),
            "p99_ms": ms(|it| it.p99),
            "last_ms": ms(|it| it.last),
            "responses": self.responses,
            "response_bytes": self.bytes,
            "open_streams": streams.open,
            "waiting_streams": streams.waiting,
            "refused": self.refused.0,
            "errors": self.errors.0,
        });
        if let (Some(usage), Some(object)) = (usage, json.as_object_mut()) {
            object.insert("server_cpu_ms".into(), json!(usage.cpu.as_secs_f64() * 1e3));
            object.insert("server_memory_bytes".into(), json!(usage.memory));
            object.insert("server_peak_memory_bytes".into(), json!(usage.peak_memory));
        }
        json
    }

    /// Returns the line of the table, and indented lines below it: the usage of the server, waiting
    /// streams, and the reasons of refusals and errors.
    pub(super) fn text(&mut self, streams: Streams, usage: Option<Usage>) -> String {
        let quantiles = self.quantiles();
        let time = |of: fn(&Quantiles) -> Duration| {
            quantiles.as_ref().map_or_else(|| "-".into(), |it| time_text(of(it)))
        };
        let mut text = row([
            self.name.clone(),
            grouped(u64::try_from(self.acks.len()).unwrap_or(u64::MAX)),
            grouped(self.nacks),
            time(|it| it.p50),
            time(|it| it.p99),
            time(|it| it.last),
            size(self.bytes),
            grouped(u64::from(streams.open)),
            grouped(self.refused.total()),
            grouped(self.errors.total()),
        ]);
        if let Some(usage) = usage {
            let [cpu, memory, peak] =
                [time_text(usage.cpu), size(usage.memory), size(usage.peak_memory)];
            text += &format!("    server: CPU {cpu}, memory {memory}, peak {peak}\n");
        }
        if streams.waiting > 0 {
            text += &format!("    {}\n", streams.waiting_text());
        }
        text + &self.refused.text("refused stream") + &self.errors.text("error")
    }
}

/// Returns the header of the table.
pub(super) fn header() -> String {
    let cells = [
        "ROUND", "ACKS", "NACKS", "P50", "P99", "LAST", "RECEIVED", "STREAMS", "REFUSED", "ERRORS",
    ];
    row(cells.map(str::to_owned))
}

/// Widths of the columns. Rounds are printed as they end, so the widths are fixed; with the spaces
/// between them they take 80 columns.
const WIDTHS: [usize; 10] = [5, 8, 6, 8, 8, 8, 8, 7, 7, 6];

fn row(cells: [String; 10]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in cells.iter().zip(WIDTHS).enumerate() {
        match at {
            0 => line += &format!("{cell:<width$}"),
            _ => line += &format!(" {cell:>width$}"),
        }
    }
    line + "\n"
}

/// Prints a time with at most eight characters, up to a day.
fn time_text(time: Duration) -> String {
    match time.as_millis() {
        0..10_000 => format!("{:.1}ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1}s", time.as_secs_f64()),
    }
}

/// Prints a size with at most eight characters, up to a terabyte.
#[expect(clippy::cast_precision_loss, reason = "printed with one decimal")]
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1}kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}MB", bytes as f64 / 1e6),
        _ => format!("{:.1}GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begun: Instant, millis: u64) -> Instant {
        begun + Duration::from_millis(millis)
    }

    #[test]
    fn quantiles_are_times_of_acks_since_the_beginning() {
        let begun = Instant::now();
        let mut round = Round::new("start".into(), begun);
        assert_eq!(round.quantiles(), None);
        for millis in (1..=200).rev() {
            round.note(after(begun, millis), Observation::Ack);
        }
        let ms = Duration::from_millis;
        let expected = Quantiles { p50: ms(100), p99: ms(198), last: ms(200) };
        assert_eq!(round.quantiles(), Some(expected));
        assert_eq!(round.answers(), 200);
    }

    #[test]
    fn round_is_quiet_after_the_last_observation() {
        let begun = Instant::now();
        let mut round = Round::new("start".into(), begun);
        let settle = Duration::from_millis(100);
        assert!(round.is_quiet(after(begun, 100), settle));
        round.note(after(begun, 50), Observation::Response(7));
        assert!(!round.is_quiet(after(begun, 149), settle));
        assert!(round.is_quiet(after(begun, 150), settle));
        round.touch(after(begun, 300));
        assert!(!round.is_quiet(after(begun, 399), settle));
        assert!(round.is_longer_than(after(begun, 100), settle));
    }

    fn ended(state: StreamState, is_refused: bool, why: &str) -> Observation {
        Observation::Ended(EndedStream { state, is_refused, why: why.to_owned() })
    }

    #[test]
    fn errors_are_counted_by_reason_up_to_a_maximum() {
        let begun = Instant::now();
        let mut round = Round::new("start".into(), begun);
        let failed = |why: &str| ended(StreamState::Connecting, false, why);
        for number in 0..100 {
            round.note(begun, failed(&format!("reason {number}\n")));
        }
        round.note(begun, failed("reason 0\n"));
        let json = round.json(Streams::default(), None);
        let errors = json["errors"].as_object().unwrap();
        assert_eq!(errors.len(), REASONS + 1);
        assert_eq!(errors["reason 0\\n"], 2);
        assert_eq!(errors[OTHERS], 80);
        let text = round.text(Streams::default(), None);
        assert!(text.contains("2 errors: reason 0\\n"), "{text}");
    }

    #[test]
    fn refused_streams_are_counted_apart_from_errors() {
        let begun = Instant::now();
        let mut round = Round::new("start".into(), begun);
        round.note(begun, ended(StreamState::Waiting, true, "too many streams"));
        round.note(begun, ended(StreamState::Open, false, "reset"));
        let streams = Streams { open: 3, waiting: 2 };
        let json = round.json(streams, None);
        assert_eq!(json["refused"], json!({ "too many streams": 1 }));
        assert_eq!(json["errors"], json!({ "reset": 1 }));
        assert_eq!((&json["open_streams"], &json["waiting_streams"]), (&json!(3), &json!(2)));
        let text = round.text(streams, None);
        let (first, below) = text.split_once('\n').unwrap();
        assert!(first.ends_with("       3       1      1"), "{text}");
        assert_eq!(
            below,
            "    2 streams not accepted yet: too many on one connection? (--connections)\n    \
             1 refused stream: too many streams\n    \
             1 error: reset\n"
        );
    }

    #[test]
    fn table_fits_80_columns() {
        let begun = Instant::now();
        let mut round = Round::new("12345".into(), begun);
        round.bytes = 999_900_000;
        round.note(after(begun, 9_999), Observation::Ack);
        let usage = Usage { cpu: Duration::from_secs(3), memory: 1 << 30, peak_memory: 1 << 31 };
        let text = header() + &round.text(Streams { open: 100_000, waiting: 99_999 }, Some(usage));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("    server: CPU 3000.0ms, memory 1.1GB, peak 2.1GB\n"), "{text}");
    }

    #[test]
    fn streams_are_open_once_the_server_has_accepted_them() {
        let mut streams = Streams::default();
        let events = [
            ended(StreamState::Connecting, false, "cannot connect"),
            Observation::Requested,
            Observation::Requested,
            Observation::Requested,
            Observation::Requested,
            Observation::Opened,
            Observation::Opened,
            ended(StreamState::Open, false, "reset"),
            ended(StreamState::Waiting, true, "too many"),
        ];
        events.iter().for_each(|it| streams.note(it));
        assert_eq!(streams, Streams { open: 1, waiting: 1 });
    }
}
