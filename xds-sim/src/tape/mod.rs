//! Where all randomness of a run comes from: a tape of choices.
//!
//! A run asks [`Choices`] whenever something could go one way or another, and every answer is taken
//! down. The answers come from a seed, from a [`Tape`] that is played again, or from the bytes of a
//! fuzzer. Zero is always the tamest answer and also what comes when a tape is over, so a shorter tape
//! with smaller values is a simpler run: that is all that shrinking needs to know.

mod text;

use std::fmt;

use rand_pcg::{Pcg32, rand_core::Rng as _};

pub use text::TapeError;

/// One choice of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What was chosen, in a word.
    pub label: &'static str,
    /// The answer was one of so many.
    pub bound: u32,
    /// The answer.
    pub value: u32,
}

/// The answers of a run, to be given again.
///
/// As text it is short enough for a command line:
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
    /// A tape of these answers. Zeros at the end say nothing and are left out.
    #[must_use]
    pub fn from_values(values: impl IntoIterator<Item = u32>) -> Self {
        let mut values: Vec<u32> = values.into_iter().collect();
        while values.last() == Some(&0) {
            values.pop();
        }
        Self { values }
    }

    /// A tape from whatever bytes a fuzzer comes up with: each pair of them is an answer, least byte
    /// first.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let pairs = bytes.chunks(2);
        let value = |pair: &[u8]| {
            let high = pair.get(1).copied().unwrap_or_default();
            u32::from(pair.first().copied().unwrap_or_default()) | u32::from(high) << 8
        };
        Self::from_values(pairs.map(value))
    }

    /// The answers.
    #[must_use]
    pub fn values(&self) -> &[u32] {
        &self.values
    }
}

/// What shows that a tape was recorded when runs asked for other things: it is another run by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drift {
    /// An answer is none of those that there are to the question.
    NoAnswer {
        /// The position of the answer on the tape.
        at: usize,
        /// What was to be chosen.
        label: &'static str,
    },
    /// The run was over before all answers were asked for.
    TooLong {
        /// How many answers the tape has.
        answers: usize,
        /// How many the run asked for.
        asked: usize,
    },
}

/// What it says of the tape, and where the tape and the run part.
impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the tape is of another run: ")?;
        match self {
            Self::NoAnswer { at, label } => {
                write!(f, "its answer number {} is none to what is asked there, {label:?}", at + 1)
            }
            Self::TooLong { answers, asked } => {
                write!(f, "it has {answers} answers, and this run is over after {asked}")
            }
        }
    }
}

/// What answers the questions of a run, and takes the answers down.
#[derive(Debug)]
pub struct Choices {
    source: Source,
    no_answer: Option<Drift>,
    taken: Vec<Choice>,
    spans: Vec<Span>,
}

/// Answers that belong together, such as those that make one operation: shrinking drops them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The position of the first one.
    pub start: usize,
    /// The position after the last one.
    pub end: usize,
}

#[derive(Debug)]
enum Source {
    Seed(Pcg32),
    Tape { values: Vec<u32>, next: usize },
}

/// The stream of the generator, so that others with the same seed draw something else.
const STREAM: u64 = 0x7864_735f_7369_6d31;

impl Choices {
    /// Answers drawn from a generator with this seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self::new(Source::Seed(Pcg32::new(seed, STREAM)))
    }

    /// Answers given before.
    #[must_use]
    pub fn from_tape(tape: &Tape) -> Self {
        Self::new(Source::Tape { values: tape.values.clone(), next: 0 })
    }

    fn new(source: Source) -> Self {
        Self { source, no_answer: None, taken: Vec::new(), spans: Vec::new() }
    }

    /// A number below `bound`; zero if there is no other. An answer of a tape that is too large is
    /// brought down by taking the rest, so that any tape answers any question.
    pub fn below(&mut self, label: &'static str, bound: u32) -> u32 {
        let value = match &mut self.source {
            Source::Seed(generator) => {
                let drawn = u64::from(generator.next_u32());
                // The upper bits of the product spread over the bound more evenly than a remainder.
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

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, label: &'static str, low: u32, high: u32) -> u32 {
        low.saturating_add(self.below(label, high.saturating_sub(low).saturating_add(1)))
    }

    /// Yes in so many of a thousand cases. The tame answer is no.
    pub fn chance(&mut self, label: &'static str, per_mille: u32) -> bool {
        self.below(label, 1_000) >= 1_000_u32.saturating_sub(per_mille)
    }

    /// One of several, of which the first is the tamest.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn pick<T: Copy>(&mut self, label: &'static str, of: &[T]) -> T {
        let bound = u32::try_from(of.len()).unwrap_or(u32::MAX);
        of[self.below(label, bound) as usize]
    }

    /// Takes down that the answers given from now on to [`end_span`](Self::end_span) belong together.
    /// Spans do not overlap.
    pub fn begin_span(&mut self) {
        self.spans.push(Span { start: self.taken.len(), end: self.taken.len() });
    }

    /// Ends what [`begin_span`](Self::begin_span) began.
    pub fn end_span(&mut self) {
        if let Some(span) = self.spans.last_mut() {
            span.end = self.taken.len();
        }
    }

    /// What shows that the tape is of another run than the one that it makes, now that this is over. It is looked
    /// at answer by answer, so that it may have drifted though nothing shows it.
    #[must_use]
    pub fn drift(&self) -> Option<Drift> {
        let Source::Tape { values, next } = &self.source else { return None };
        let (answers, asked) = (values.len(), *next);
        let too_long = (answers > asked).then_some(Drift::TooLong { answers, asked });
        self.no_answer.or(too_long)
    }

    /// All answers so far, in their order.
    #[must_use]
    pub fn taken(&self) -> &[Choice] {
        &self.taken
    }

    /// All answers, in their order, once the run is over.
    pub(crate) fn into_taken(self) -> Vec<Choice> {
        self.taken
    }

    /// Which of the answers belong together.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The answers so far as a tape.
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
    fn a_tape_gives_the_answers_of_its_seed() {
        let mut seeded = Choices::from_seed(42);
        let answers = ask(&mut seeded);
        assert_eq!(ask(&mut Choices::from_tape(&seeded.to_tape())), answers);
        assert_eq!(ask(&mut Choices::from_seed(42)), answers);
        assert_ne!(ask(&mut Choices::from_seed(43)), answers);
    }

    /// Seeds that found something have to lead to the same run for ever.
    #[test]
    fn the_answers_of_a_seed_are_fixed() {
        let mut choices = Choices::from_seed(42);
        let drawn: Vec<u32> = (0..5).map(|_| choices.below("test", 1_000)).collect();
        assert_eq!(drawn, [818, 412, 260, 868, 388]);
    }

    #[test]
    fn past_its_end_a_tape_is_tame() {
        let mut choices = Choices::from_tape(&Tape::from_values([7]));
        assert_eq!(choices.below("one of five", 5), 2);
        assert_eq!(choices.below("one of five", 5), 0);
        assert!(!choices.chance("nearly always", 999));
        assert_eq!(choices.between("from three", 3, 9), 3);
        assert_eq!(choices.below("nothing to choose", 0), 0);
    }

    #[test]
    fn a_tape_of_another_run_is_told() {
        let mut choices = Choices::from_tape(&Tape::from_values([7, 4, 1]));
        let too_long = choices.drift().unwrap();
        assert_eq!(too_long, Drift::TooLong { answers: 3, asked: 0 });
        assert_eq!(
            too_long.to_string(),
            "the tape is of another run: it has 3 answers, and this run is over after 0"
        );
        choices.below("one of eight", 8);
        choices.below("one of four", 4);
        choices.below("one of four", 4);
        let no_answer = choices.drift().unwrap();
        assert_eq!(no_answer, Drift::NoAnswer { at: 1, label: "one of four" });
        assert_eq!(
            no_answer.to_string(),
            "the tape is of another run: its answer number 2 is none to what is asked there, \"one of four\""
        );
        let mut choices = Choices::from_tape(&Tape::from_values([7]));
        choices.below("one of eight", 8);
        choices.below("nothing to choose", 0);
        assert_eq!(choices.drift(), None, "what a tape has no answer to is answered tamely");
    }

    #[test]
    fn any_bytes_are_a_tape() {
        assert_eq!(Tape::from_bytes(&[1, 1, 2]).values(), [257, 2]);
        assert_eq!(Tape::from_bytes(&[0, 0]), Tape::default());
    }
}
