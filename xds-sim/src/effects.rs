//! What of all that can be done, go wrong or be lied about has taken effect: to be drawn is not enough.
//!
//! What an application or an operator does takes effect if something is then otherwise than before, what goes wrong when
//! somebody is the worse for it (a connection that is refused, a message that waits), and a lie when it is read.

use std::{collections::BTreeMap, fmt};

use crate::options::{Action, Fault, Lie};

/// One thing that is done, goes wrong, or is a lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Something is done.
    Act(Action),
    /// Something goes wrong.
    Break(Fault),
    /// A lie is told.
    Lie(Lie),
}

impl Kind {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let actions = Action::ALL.iter().copied().map(Self::Act);
        let faults = Fault::ALL.iter().copied().map(Self::Break);
        let lies = Lie::ALL.iter().copied().map(Self::Lie);
        actions.chain(faults).chain(lies)
    }

    /// What it is one of.
    const fn sort(self) -> &'static str {
        match self {
            Self::Act(_) => "action",
            Self::Break(_) => "fault",
            Self::Lie(_) => "lie",
        }
    }

    /// It in a word.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Act(action) => action.as_str(),
            Self::Break(fault) => fault.as_str(),
            Self::Lie(lie) => lie.as_str(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.sort(), self.as_str())
    }
}

impl From<Action> for Kind {
    fn from(action: Action) -> Self {
        Self::Act(action)
    }
}

impl From<Fault> for Kind {
    fn from(fault: Fault) -> Self {
        Self::Break(fault)
    }
}

impl From<Lie> for Kind {
    fn from(lie: Lie) -> Self {
        Self::Lie(lie)
    }
}

/// How often each of them has taken effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects(BTreeMap<Kind, u64>);

impl Effects {
    /// Counts one.
    pub fn note(&mut self, kind: Kind) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// How often one has taken effect.
    #[must_use]
    pub fn hits(&self, kind: impl Into<Kind>) -> u64 {
        self.0.get(&kind.into()).copied().unwrap_or_default()
    }

    /// Each of them with how often it has taken effect.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, u64)> {
        Kind::all().map(|kind| (kind, self.hits(kind)))
    }

    /// Those that never have.
    pub fn missing(&self) -> impl Iterator<Item = Kind> {
        self.iter().filter(|(_, hits)| *hits == 0).map(|(kind, _)| kind)
    }

    /// Adds what has taken effect in another run.
    pub fn add(&mut self, other: &Self) {
        for (kind, hits) in &other.0 {
            *self.0.entry(*kind).or_default() += hits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_taken_effect_is_counted() {
        let (mut one, mut other) = (Effects::default(), Effects::default());
        assert_eq!(one.missing().count(), Kind::all().count());
        one.note(Fault::Reset.into());
        other.note(Fault::Reset.into());
        other.note(Lie::Flip.into());
        one.add(&other);
        assert_eq!((one.hits(Fault::Reset), one.hits(Lie::Flip)), (2, 1));
        assert_eq!(one.missing().count(), Kind::all().count() - 2);
        assert_eq!(Kind::from(Action::Storm).to_string(), "action storm");
    }
}
