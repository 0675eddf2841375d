//! Measurement: rounds, each from a change until all clients are at rest.

use core::time::Duration;
use std::{collections::BTreeMap, time::Instant};

use serde_json::{Value as Json, json};

use super::{connection::Observation, process::Usage};
use crate::{
    numbers::{grouped, grouped_count},
    text::escaped,
};

/// Streams that are open, over all rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streams {
    pub(super) open: u32,
}

impl Streams {
    pub(super) const fn note(&mut self, observation: &Observation) {
        match observation {
            Observation::Opened => self.open += 1,
            Observation::Closed(_) => self.open = self.open.saturating_sub(1),
            _ => {}
        }
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
    /// Numbers of ended streams and failed attempts by reason.
    errors: BTreeMap<String, u64>,
}

/// Maximum number of reasons that are kept. Reasons contain what the server sent.
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
            errors: BTreeMap::new(),
        }
    }

    pub(super) fn note(&mut self, at: Instant, observation: Observation) {
        self.last = self.last.max(at);
        match observation {
            Observation::Opened => {}
            Observation::Failed(why) | Observation::Closed(why) => {
                let mut why: String = escaped(&why).chars().take(REASON).collect();
                if self.errors.len() >= REASONS && !self.errors.contains_key(&why) {
                    OTHERS.clone_into(&mut why);
                }
                *self.errors.entry(why).or_default() += 1;
            }
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

    fn errors(&self) -> u64 {
        self.errors.values().sum()
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
            "errors": self.errors,
        });
        if let (Some(usage), Some(object)) = (usage, json.as_object_mut()) {
            object.insert("server_cpu_ms".into(), json!(usage.cpu.as_secs_f64() * 1e3));
            object.insert("server_memory_bytes".into(), json!(usage.memory));
            object.insert("server_peak_memory_bytes".into(), json!(usage.peak_memory));
        }
        json
    }

    /// Returns the line of the table, and a line for each reason of an error.
    pub(super) fn text(&mut self, streams: Streams, usage: Option<Usage>) -> String {
        let quantiles = self.quantiles();
        let time = |of: fn(&Quantiles) -> Duration| {
            quantiles.as_ref().map_or_else(|| "-".into(), |it| milliseconds(of(it)))
        };
        let mut cells = vec![
            self.name.clone(),
            grouped(u64::try_from(self.acks.len()).unwrap_or(u64::MAX)),
            grouped(self.nacks),
            time(|it| it.p50),
            time(|it| it.p99),
            time(|it| it.last),
            size(self.bytes),
            grouped(u64::from(streams.open)),
            grouped(self.errors()),
        ];
        if let Some(usage) = usage {
            cells.extend([milliseconds(usage.cpu), size(usage.memory), size(usage.peak_memory)]);
        }
        let mut text = row(&cells);
        for (why, errors) in &self.errors {
            text += &format!("    {}: {why}\n", grouped_count(*errors, "error"));
        }
        text
    }
}

/// Returns the header of the table.
pub(super) fn header(has_usage: bool) -> String {
    let mut cells =
        vec!["ROUND", "ACKS", "NACKS", "P50", "P99", "LAST", "RECEIVED", "STREAMS", "ERRORS"];
    if has_usage {
        cells.extend(["SERVER CPU", "MEMORY", "PEAK"]);
    }
    row(&cells.into_iter().map(str::to_owned).collect::<Vec<_>>())
}

/// Width of a column. Rounds are printed as they end, so the widths are fixed.
const WIDTH: usize = 11;

fn row(cells: &[String]) -> String {
    let mut line = String::new();
    for (at, cell) in cells.iter().enumerate() {
        match at {
            0 => line += &format!("{cell:<WIDTH$}"),
            _ => line += &format!(" {cell:>WIDTH$}"),
        }
    }
    line + "\n"
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

#[expect(clippy::cast_precision_loss, reason = "printed with one decimal")]
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
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

    #[test]
    fn errors_are_counted_by_reason_up_to_a_maximum() {
        let begun = Instant::now();
        let mut round = Round::new("start".into(), begun);
        for number in 0..100 {
            round.note(begun, Observation::Failed(format!("reason {number}\n")));
        }
        round.note(begun, Observation::Failed("reason 0\n".into()));
        let json = round.json(Streams { open: 3 }, None);
        let errors = json["errors"].as_object().unwrap();
        assert_eq!(errors.len(), REASONS + 1);
        assert_eq!(errors["reason 0\\n"], 2);
        assert_eq!(errors[OTHERS], 80);
        let text = round.text(Streams { open: 3 }, None);
        assert!(text.contains("2 errors: reason 0\\n"), "{text}");
    }

    #[test]
    fn streams_are_counted_while_they_are_open() {
        let mut streams = Streams::default();
        let events = [
            Observation::Failed("refused".into()),
            Observation::Opened,
            Observation::Opened,
            Observation::Closed("reset".into()),
        ];
        events.iter().for_each(|it| streams.note(it));
        assert_eq!(streams.open, 1);
    }
}
