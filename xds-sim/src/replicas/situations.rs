//! Situations that the runs are expected to reach.

use std::fmt::Write as _;

macro_rules! situations {
    ($($situation:ident => $text:literal,)+) => {
        /// Situation that a run may reach.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum ReplicaSituation {
            $(#[doc = $text] $situation,)+
        }

        impl ReplicaSituation {
            /// All situations.
            pub const ALL: [Self; [$(Self::$situation),+].len()] = [$(Self::$situation),+];

            /// Describes the situation.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$situation => $text,)+
                }
            }
        }
    };
}

situations! {
    Moved => "client moved to another replica",
    ClientRestarted => "client restarted without versions",
    ReplicaRestarted => "replica restarted",
    Partitioned => "replica partitioned from the source",
    Compacted => "watch ended by a compaction",
    Relisted => "source read as a whole again",
    RelistRemoved => "resource removed by a list",
    OlderListRefused => "older list of a lagging member refused",
    WaitedForStated => "stream waited for the revision that it stated",
    WaitedForConfirmed => "stream waited for the confirmed revision",
    SharedConfirmation => "several streams waited for one confirmation",
    ClosedBehind => "stream closed because the replica lagged behind",
    ServedUnconfirmed => "stream answered from the last state without the source",
    ObservedOlder => "new client observed an older state without the source",
    EqualRewrite => "equal content written again",
    SilentRevision => "revision without a change for the replicas",
    RefusedNotReady => "stream refused by a replica that was not ready",
    ObservedRemoval => "client observed a removal",
}

/// Numbers of times that each situation was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSituations {
    hits: [u64; ReplicaSituation::ALL.len()],
}

impl ReplicaSituations {
    pub(super) fn note(&mut self, situation: ReplicaSituation) {
        if let Some(hits) = self.hits.get_mut(situation as usize) {
            *hits += 1;
        }
    }

    /// Adds the situations of another run.
    pub fn add(&mut self, other: &Self) {
        self.hits.iter_mut().zip(other.hits).for_each(|(sum, hits)| *sum += hits);
    }

    /// Returns how often a situation was reached.
    #[must_use]
    pub fn hits_of(&self, situation: ReplicaSituation) -> u64 {
        self.hits.get(situation as usize).copied().unwrap_or_default()
    }

    /// Returns the situations that were never reached.
    pub fn missing(&self) -> impl Iterator<Item = ReplicaSituation> {
        ReplicaSituation::ALL.into_iter().filter(|&it| self.hits_of(it) == 0)
    }

    /// Formats the counts, one situation a line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for situation in ReplicaSituation::ALL {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {:>12}  {}", self.hits_of(situation), situation.as_str());
        }
        text
    }
}
