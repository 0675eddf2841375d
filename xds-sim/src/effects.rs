//! Counts of the actions, faults and lies that changed something in a run. Being selected is not
//! enough.
//!
//! An action takes effect if it changes some state. A fault takes effect if it impairs something,
//! such as a refused connection or a delayed message. A lie takes effect when a participant reads
//! it.

use std::{collections::BTreeMap, fmt};

use crate::options::{Action, Fault, Lie};

/// An action, a fault or a lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// An action.
    Action(Action),
    /// A fault.
    Fault(Fault),
    /// A lie.
    Lie(Lie),
}

impl Effect {
    /// Iterates over all actions, faults and lies.
    pub fn all() -> impl Iterator<Item = Self> {
        let actions = Action::ALL.iter().copied().map(Self::Action);
        let faults = Fault::ALL.iter().copied().map(Self::Fault);
        let lies = Lie::ALL.iter().copied().map(Self::Lie);
        actions.chain(faults).chain(lies)
    }

    /// Name of the category.
    const fn category(self) -> &'static str {
        match self {
            Self::Action(_) => "action",
            Self::Fault(_) => "fault",
            Self::Lie(_) => "lie",
        }
    }

    /// Name in one word.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Action(action) => action.as_str(),
            Self::Fault(fault) => fault.as_str(),
            Self::Lie(lie) => lie.as_str(),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.category(), self.as_str())
    }
}

impl From<Action> for Effect {
    fn from(action: Action) -> Self {
        Self::Action(action)
    }
}

impl From<Fault> for Effect {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Lie> for Effect {
    fn from(lie: Lie) -> Self {
        Self::Lie(lie)
    }
}

/// Number of times that each action, fault and lie took effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects(BTreeMap<Effect, u64>);

impl Effects {
    /// Counts one effect.
    pub fn note(&mut self, kind: Effect) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// Number of times that `kind` took effect.
    #[must_use]
    pub fn hits(&self, kind: impl Into<Effect>) -> u64 {
        self.0.get(&kind.into()).copied().unwrap_or_default()
    }

    /// Iterates over all actions, faults and lies with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Effect, u64)> {
        Effect::all().map(|kind| (kind, self.hits(kind)))
    }

    /// Iterates over the actions, faults and lies that never took effect.
    pub fn missing(&self) -> impl Iterator<Item = Effect> {
        self.iter().filter(|(_, hits)| *hits == 0).map(|(kind, _)| kind)
    }

    /// Adds the counts of another run.
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
    fn effects_are_counted_and_added() {
        let (mut one, mut other) = (Effects::default(), Effects::default());
        assert_eq!(one.missing().count(), Effect::all().count());
        one.note(Fault::Reset.into());
        other.note(Fault::Reset.into());
        other.note(Lie::Flip.into());
        one.add(&other);
        assert_eq!((one.hits(Fault::Reset), one.hits(Lie::Flip)), (2, 1));
        assert_eq!(one.missing().count(), Effect::all().count() - 2);
        assert_eq!(Effect::from(Action::Storm).to_string(), "action storm");
    }
}
