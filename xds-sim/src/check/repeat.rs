//! Comparison of two runs of one seed.

use crate::{trace::Violation, world::actor};

/// Result of a run as far as another run of the same seed must have the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunFingerprint<'a> {
    pub(crate) hash: u64,
    pub(crate) violation: Option<&'a Violation>,
}

/// Common reasons for different runs of one seed.
const CAUSES: &str = "\
Usual causes: the iteration order of a `HashMap`, random numbers, `tokio::select!` without `biased`,
`std::time`, threads, and state that outlives a run, such as statics and files.
";

impl RunFingerprint<'_> {
    fn is_same(&self, other: &Self) -> bool {
        self.hash == other.hash
            && match (self.violation, other.violation) {
                (Some(own), Some(other)) => is_same_bug(own, other),
                (own, other) => own.is_none() && other.is_none(),
            }
    }

    fn result(&self) -> String {
        match self.violation {
            Some(violation) => format!("{}: {}", violation.invariant, violation.what),
            None => "breaks no rule".into(),
        }
    }
}

/// Returns the report of two runs of a seed that differ.
pub(crate) fn difference(
    seed: u64,
    first: RunFingerprint<'_>,
    second: RunFingerprint<'_>,
) -> Option<String> {
    if first.is_same(&second) {
        return None;
    }
    let (a, b) = (first.hash, second.hash);
    let hashes = match a == b {
        true => format!("with the same hash {a:016x} have different results"),
        false => format!("have hashes {a:016x} and {b:016x}"),
    };
    Some(format!(
        "seed {seed} is not repeatable: two runs {hashes}.\n first run: {}\nsecond run: {}\n{CAUSES}",
        first.result(),
        second.result(),
    ))
}

/// Whether two violations are the same bug: they break the same rule, and panics have the same
/// location.
pub(crate) fn is_same_bug(one: &Violation, other: &Violation) -> bool {
    one.invariant == other.invariant
        && actor::location_of(&one.what) == actor::location_of(&other.what)
}
