//! Source of all randomness of a run: a tape of choices.
//!
//! A run asks [`Choices`] for every decision, and each answer is recorded. The answers come from a
//! seed, from a replayed [`Tape`], or from the bytes of a fuzzer. Zero is always the least
//! disruptive answer, and the answer after the end of a tape. So a shorter tape with smaller values
//! is a simpler run, which is all that shrinking relies on.

mod text;

use std::fmt;

use rand_pcg::{Pcg32, rand_core::Rng as _};

pub use text::TapeError;

/// One recorded choice of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Label of the question.
    pub label: &'static str,
    /// Number of possible answers; the answer is less than this.
    pub bound: u32,
    /// Answer.
    pub value: u32,
}

/// Recorded answers of a run, which can be replayed.
///
/// The text form is short enough for a command line:
///
/// ```
/// use xds_sim::tape::Tape;
///
/// let tape = Tape::from_values([3, 0, 500]);
/// let text = tape.to_string();
/// assert_eq!(text.parse::<Tape>().unwrap(), tape);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tape {
    values: Vec<u32>,
}

impl Tape {
    /// Creates a tape from answers. Trailing zeros are removed, because they have no effect.
    #[must_use]
    pub fn from_values(values: impl IntoIterator<Item = u32>) -> Self {
        let mut values: Vec<u32> = values.into_iter().collect();
        while values.last() == Some(&0) {
            values.pop();
        }
        Self { values }
    }

    /// Creates a tape from any bytes of a fuzzer. Each pair of bytes is an answer in little-endian
    /// order.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let pairs = bytes.chunks(2);
        let value = |pair: &[u8]| {
            let high = pair.get(1).copied().unwrap_or_default();
            u32::from(pair.first().copied().unwrap_or_default()) | u32::from(high) << 8
        };
        Self::from_values(pairs.map(value))
    }

    /// Answers on the tape.
    #[must_use]
    pub fn values(&self) -> &[u32] {
        &self.values
    }
}

/// Evidence that a tape was recorded from a run with different questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drift {
    /// An answer is out of range for its question.
    NoAnswer {
        /// Index of the answer on the tape.
        at: usize,
        /// Label of the question.
        label: &'static str,
    },
    /// The run ended before all answers were used.
    TooLong {
        /// Number of answers on the tape.
        answers: usize,
        /// Number of questions that the run asked.
        asked: usize,
    },
}

/// Describes where the tape and the run differ.
impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tape does not fit the run: ")?;
        match self {
            Self::NoAnswer { at, label } => {
                write!(f, "answer {} is out of range for the choice {label:?}", at + 1)
            }
            Self::TooLong { answers, asked } => {
                write!(f, "it has {answers} answers, but this run needs {asked}")
            }
        }
    }
}

/// Answers the questions of a run and records the answers.
#[derive(Debug)]
pub struct Choices {
    source: Source,
    seed: Option<u64>,
    no_answer: Option<Drift>,
    taken: Vec<Choice>,
    spans: Vec<Span>,
}

/// Range of answers that belong together, such as those of one operation. Shrinking drops them
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index of the first answer.
    pub start: usize,
    /// Index after the last answer.
    pub end: usize,
}

#[derive(Debug)]
enum Source {
    Seed(Pcg32),
    Tape { values: Vec<u32>, next: usize },
}

/// Stream number of the generator, so that other users of a seed draw different values.
const STREAM: u64 = 0x7864_735f_7369_6d31;

impl Choices {
    /// Creates choices drawn from a generator with this seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::new(Source::Seed(Pcg32::new(seed, STREAM))) }
    }

    /// Creates choices that replay a tape.
    #[must_use]
    pub fn from_tape(tape: &Tape) -> Self {
        Self::new(Source::Tape { values: tape.values.clone(), next: 0 })
    }

    fn new(source: Source) -> Self {
        Self { source, seed: None, no_answer: None, taken: Vec::new(), spans: Vec::new() }
    }

    /// Returns the seed from which the choices are drawn, if they are.
    #[must_use]
    pub const fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Draws a number below `bound`, or zero if `bound` is zero.
    ///
    /// If an answer on a tape is out of range, its remainder modulo `bound` is used, so any tape
    /// can answer any question.
    pub fn below(&mut self, label: &'static str, bound: u32) -> u32 {
        let value = match &mut self.source {
            Source::Seed(generator) => {
                let drawn = u64::from(generator.next_u32());
                // The upper bits of the product are distributed more evenly than a remainder.
                u32::try_from((drawn * u64::from(bound)) >> 32).unwrap_or_default()
            }
            Source::Tape { values, next } => {
                let value = values.get(*next).copied().unwrap_or_default();
                if value > 0 && value >= bound {
                    self.no_answer.get_or_insert(Drift::NoAnswer { at: *next, label });
                }
                *next += 1;
                value.checked_rem(bound).unwrap_or_default()
            }
        };
        self.taken.push(Choice { label, bound, value });
        value
    }

    /// Draws a number from `low` to `high`, both inclusive.
    pub fn between(&mut self, label: &'static str, low: u32, high: u32) -> u32 {
        low.saturating_add(self.below(label, high.saturating_sub(low).saturating_add(1)))
    }

    /// Returns true with a probability of `per_mille` in a thousand. The least disruptive answer is
    /// false.
    pub fn chance(&mut self, label: &'static str, per_mille: u32) -> bool {
        self.below(label, 1_000) >= 1_000_u32.saturating_sub(per_mille)
    }

    /// Draws one of several values, of which the first is the least disruptive.
    ///
    /// # Panics
    ///
    /// Panics if `of` is empty.
    pub fn pick<T: Copy>(&mut self, label: &'static str, of: &[T]) -> T {
        let bound = u32::try_from(of.len()).unwrap_or(u32::MAX);
        of[self.below(label, bound) as usize]
    }

    /// Begins a span: the answers up to [`end_span`](Self::end_span) belong together. Spans do not
    /// overlap.
    pub fn begin_span(&mut self) {
        self.spans.push(Span { start: self.taken.len(), end: self.taken.len() });
    }

    /// Ends the span that [`begin_span`](Self::begin_span) began.
    pub fn end_span(&mut self) {
        if let Some(span) = self.spans.last_mut() {
            span.end = self.taken.len();
        }
    }

    /// Returns evidence that the replayed tape belongs to another run. Call this after the run.
    ///
    /// Only single answers are checked, so a tape may have drifted without evidence.
    #[must_use]
    pub fn drift(&self) -> Option<Drift> {
        let Source::Tape { values, next } = &self.source else { return None };
        let (answers, asked) = (values.len(), *next);
        let too_long = (answers > asked).then_some(Drift::TooLong { answers, asked });
        self.no_answer.or(too_long)
    }

    /// All recorded choices, in order.
    #[must_use]
    pub fn taken(&self) -> &[Choice] {
        &self.taken
    }

    /// Returns all recorded choices, in order.
    pub(crate) fn into_taken(self) -> Vec<Choice> {
        self.taken
    }

    /// Spans of choices that belong together.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns the recorded answers as a tape.
    #[must_use]
    pub fn to_tape(&self) -> Tape {
        Tape::from_values(self.taken.iter().map(|choice| choice.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(choices: &mut Choices) -> Vec<u32> {
        (1..200).map(|bound| choices.below("test", bound)).collect()
    }

    #[test]
    fn tape_replays_the_choices_of_its_seed() {
        let mut seeded = Choices::from_seed(42);
        let answers = ask(&mut seeded);
        assert_eq!(ask(&mut Choices::from_tape(&seeded.to_tape())), answers);
        assert_eq!(ask(&mut Choices::from_seed(42)), answers);
        assert_ne!(ask(&mut Choices::from_seed(43)), answers);
    }

    /// The answers of a seed must never change, so that seeds that found a bug stay valid.
    #[test]
    fn choices_of_a_seed_are_fixed() {
        let mut choices = Choices::from_seed(42);
        let drawn: Vec<u32> = (0..5).map(|_| choices.below("test", 1_000)).collect();
        assert_eq!(drawn, [818, 412, 260, 868, 388]);
    }

    #[test]
    fn choices_after_the_end_of_a_tape_are_minimal() {
        let mut choices = Choices::from_tape(&Tape::from_values([7]));
        assert_eq!(choices.below("one of five", 5), 2);
        assert_eq!(choices.below("one of five", 5), 0);
        assert!(!choices.chance("nearly always", 999));
        assert_eq!(choices.between("from three", 3, 9), 3);
        assert_eq!(choices.below("nothing to choose", 0), 0);
    }

    #[test]
    fn tape_of_another_run_is_reported_as_drift() {
        let mut choices = Choices::from_tape(&Tape::from_values([7, 4, 1]));
        let too_long = choices.drift().unwrap();
        assert_eq!(too_long, Drift::TooLong { answers: 3, asked: 0 });
        assert_eq!(
            too_long.to_string(),
            "the tape does not fit the run: it has 3 answers, but this run needs 0"
        );
        choices.below("one of eight", 8);
        choices.below("one of four", 4);
        choices.below("one of four", 4);
        let no_answer = choices.drift().unwrap();
        assert_eq!(no_answer, Drift::NoAnswer { at: 1, label: "one of four" });
        assert_eq!(
            no_answer.to_string(),
            "the tape does not fit the run: answer 2 is out of range for the choice \"one of four\""
        );
        let mut choices = Choices::from_tape(&Tape::from_values([7]));
        choices.below("one of eight", 8);
        choices.below("nothing to choose", 0);
        assert_eq!(choices.drift(), None, "what a tape has no answer to is answered tamely");
    }

    #[test]
    fn any_bytes_are_a_valid_tape() {
        assert_eq!(Tape::from_bytes(&[1, 1, 2]).values(), [257, 2]);
        assert_eq!(Tape::from_bytes(&[0, 0]), Tape::default());
    }
}
