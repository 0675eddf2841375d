//! Shrinking: search for the smallest run that breaks the same rule.
//!
//! Shrinking edits the tape only. It first drops operations, in large groups and then in small
//! ones; spans tell which choices belong to an operation. Then it drops arbitrary chunks of the
//! tape, sets values to zero, and lowers the others. An edit is kept if the run still breaks the
//! same rule.

use super::{Config, Failure, breaks, replay};
use crate::tape::{Span, Tape};

/// Limit on the work spent on shrinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Maximum number of runs. Default: 2,000.
    pub tries: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self { tries: 2_000 }
    }
}

/// Progress of shrinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Number of runs made.
    pub tries: usize,
    /// Maximum number of runs.
    pub limit: usize,
    /// Number of choices in the smallest failing run.
    pub choices: usize,
    /// Number of operations in the smallest failing run.
    pub operations: usize,
}

/// Searches for the smallest run that breaks the same rule, within the configured effort. If the
/// failure is a panic, the smallest run panics at the same location. Calls `progress` after each
/// attempt.
#[must_use]
pub fn shrink(failure: &Failure, config: &Config, progress: &mut dyn FnMut(Progress)) -> Failure {
    let breaks = |tape: &Tape| breaks(tape, &failure.violation, config);
    let smallest = smallest(&failure.tape, &failure.spans, config.effort, &breaks, progress);
    replay(&smallest, config).violation.unwrap_or_else(|| failure.clone())
}

/// Function that makes the run of a tape, and returns its choices and spans if it breaks the rule.
type Breaks<'a> = dyn Fn(&Tape) -> Option<(Tape, Vec<Span>)> + 'a;

/// Returns the smallest tape found that `breaks` accepts.
pub(crate) fn smallest(
    tape: &Tape,
    spans: &[Span],
    effort: Effort,
    breaks: &Breaks<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Tape {
    let (values, spans) = (tape.values().to_vec(), spans.to_vec());
    let mut search = Search { breaks, effort, values, spans, tries: 0, progress };
    search.run();
    Tape::from_values(search.values)
}

struct Search<'a> {
    breaks: &'a Breaks<'a>,
    effort: Effort,
    /// Smallest tape found.
    values: Vec<u32>,
    spans: Vec<Span>,
    tries: usize,
    progress: &'a mut dyn FnMut(Progress),
}

impl Search<'_> {
    fn run(&mut self) {
        loop {
            let before = (self.values.len(), self.weight());
            self.drop_operations();
            self.drop_chunks();
            self.lower_values();
            let is_smaller = (self.values.len(), self.weight()) < before;
            if !is_smaller || self.is_exhausted() {
                return;
            }
        }
    }

    fn weight(&self) -> u64 {
        self.values.iter().map(|&value| u64::from(value)).sum()
    }

    fn is_exhausted(&self) -> bool {
        self.tries >= self.effort.tries
    }

    /// Keeps a tape if it still breaks the rule and is smaller than the smallest one found.
    fn try_out(&mut self, values: Vec<u32>) -> bool {
        if self.is_exhausted() {
            return false;
        }
        self.tries += 1;
        let broken = (self.breaks)(&Tape::from_values(values));
        let is_broken = match broken {
            Some((tape, spans)) => {
                let weight: u64 = tape.values().iter().map(|&value| u64::from(value)).sum();
                let is_less = (tape.values().len(), weight) < (self.values.len(), self.weight());
                if is_less {
                    (self.values, self.spans) = (tape.values().to_vec(), spans);
                }
                is_less
            }
            None => false,
        };
        (self.progress)(Progress {
            tries: self.tries,
            limit: self.effort.tries,
            choices: self.values.len(),
            operations: self.spans.len(),
        });
        is_broken
    }

    /// Drops operations: first half of them at a time, at last single ones.
    fn drop_operations(&mut self) {
        let mut size = self.spans.len().div_ceil(2);
        while size > 0 && !self.is_exhausted() {
            let mut first = 0;
            while first < self.spans.len() && !self.is_exhausted() {
                let last = (first + size).min(self.spans.len()) - 1;
                let (start, end) = (self.spans[first].start, self.spans[last].end);
                if !self.try_out(without(&self.values, start, end)) {
                    first += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    /// Drops chunks of the tape, from its end.
    fn drop_chunks(&mut self) {
        let mut size = self.values.len().div_ceil(2);
        while size > 0 && !self.is_exhausted() {
            let mut end = self.values.len();
            while end > 0 && !self.is_exhausted() {
                let start = end.saturating_sub(size);
                let _ = self.try_out(without(&self.values, start, end));
                end = start.min(self.values.len());
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    /// Sets each value to zero, or to the lowest value that still fails.
    fn lower_values(&mut self) {
        let mut at = 0;
        while at < self.values.len() && !self.is_exhausted() {
            let (mut low, mut high) = (0, self.values[at]);
            while low < high && !self.is_exhausted() {
                // Zero is tried first, because it often suffices.
                let middle =
                    if low == 0 && high == self.values[at] { 0 } else { low.midpoint(high) };
                let mut values = self.values.clone();
                values[at] = middle;
                let is_taken = self.try_out(values);
                if at >= self.values.len() {
                    break;
                }
                if is_taken { high = middle } else { low = middle + 1 }
            }
            at += 1;
        }
    }
}

fn without(values: &[u32], start: usize, end: usize) -> Vec<u32> {
    let before = values.iter().take(start);
    before.chain(values.iter().skip(end)).copied().collect()
}
