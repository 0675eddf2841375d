//! Deliberate bugs, used to verify that the simulation finds them.
//!
//! They exist only with the feature `zoo`, which only tests of the simulation enable; otherwise
//! [`is`] is the constant `false`. Each is, or resembles, a bug of a published xDS implementation.
//! The cores check for them in a few places ("or if this bug is active").

/// Defines the deliberate bugs of a crate: the type `Bug`, the function `activate`, and the function
/// `is`, which is the constant `false` without the crate's feature `zoo`.
#[doc(hidden)]
#[macro_export]
macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident,)+) => {
        /// Deliberate bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[cfg_attr(
            not(feature = "zoo"),
            allow(unreachable_pub, reason = "used by other crates only with the feature `zoo`")
        )]
        pub enum Bug {
            $($(#[$doc])* $bug,)+
        }

        #[cfg(feature = "zoo")]
        impl Bug {
            /// All bugs. Their numbers are their positions, beginning with 1.
            pub const ALL: [Self; [$(Self::$bug),+].len()] = [$(Self::$bug),+];

            /// Number of the bug.
            #[must_use]
            pub const fn number(self) -> u8 {
                self as u8 + 1
            }
        }

        #[cfg(feature = "zoo")]
        mod switch {
            use core::sync::atomic::{AtomicU8, Ordering};

            use super::Bug;

            /// Number of the active bug; 0 for none. It is global to the process because it would
            /// otherwise have to be passed through all parts of the crate.
            static ACTIVE: AtomicU8 = AtomicU8::new(0);

            /// Activates a bug of this crate in the whole process, or none.
            pub fn activate(bug: Option<Bug>) {
                ACTIVE.store(bug.map_or(0, Bug::number), Ordering::Relaxed);
            }

            pub(crate) fn is(bug: Bug) -> bool {
                ACTIVE.load(Ordering::Relaxed) == bug.number()
            }
        }

        #[cfg(not(feature = "zoo"))]
        mod switch {
            pub(crate) const fn is(_: super::Bug) -> bool {
                false
            }
        }

        #[cfg(feature = "zoo")]
        pub use switch::activate;
        pub(crate) use switch::is;
    };
}

bugs! {
    /// Client: the nonce of a type is kept after its stream ends.
    NonceKeptOverReconnect,
    /// Client: a NACK, and all later requests, state the rejected version.
    VersionOfRejected,
    /// Client: does not unsubscribe when the last watch of a type ends.
    NoUnsubscribeForLastWatch,
    /// Client: a resource stays in the cache after its subscription has ended.
    CacheNotEvicted,
    /// Client: does-not-exist timers run while there is no stream.
    TimerRunsInBackoff,
    /// Client: a resource error does not stop the does-not-exist timer.
    TimerOutlivesReportedError,
    /// Client: one invalid resource rejects all resources of the response.
    WholeResponseRejected,
    /// Client: a response with an invalid resource deletes nothing.
    RemovalsLostOnNack,
    /// Client: `initial_resource_versions` states the version of a rejected update.
    RejectedVersionOnReconnect,
    /// Client: cached resources are not subscribed on a new stream.
    SubscriptionsNotResent,
    /// Client: an empty list still means the wildcard after names were sent.
    EmptyListAfterNames,
    /// Client: absence from a response deletes resources of types without full-state responses.
    AbsenceDeletesEndpoints,
    /// Client: absence from a response deletes a requested resource that never existed.
    AbsenceDeletesNeverReceived,
    /// Client: a response with a duplicate name is accepted.
    DuplicatesAccepted,
    /// Server: rejected resources are sent again at once.
    RejectedSentAgain,
    /// Server: new names are not answered if the version is unchanged.
    SilentOnNewNames,
    /// Server: requested names that do not exist are not remembered.
    MissingNotRemembered,
    /// Server: a deletion is sent again with every later change.
    DeletionSentTwice,
    /// Server: nonces equal versions.
    VersionAsNonce,
    /// Server: make before break never releases a change that it holds back.
    BlockNeverReleased,
    /// Client: falls back to the next server although all watched resources are cached.
    FallbackDespiteCache,
    /// Client: a response of the preferred server does not end the fallback.
    FallbackNeverEnds,
    /// Client: a full-state response of one authority's server deletes resources of another
    /// authority.
    AuthoritiesShareAbsence,
    /// Client: watchers are notified of heartbeats.
    HeartbeatIsAnUpdate,
    /// Client: connecting resets the backoff of streams before a response has arrived.
    BackoffEndsOnConnect,
    /// Client: watchers are notified of the end of a stream that had delivered responses.
    PlannedEndIsAnError,
    /// Client: each change queues another notice for a watcher that has not handled the last one.
    QueuePerWatcher,
    /// Client: names are subscribed in a different order in every run.
    HashOrder,
    /// Client: an expired deadline is returned again.
    DeadlineInThePast,
    /// Client: a response of an unregistered type causes a panic.
    PanicOnUnknownType,
    /// Rollout: clients that connect see the stable views although the cohort has them.
    NewClientsStable,
    /// Rollout: a halt moves the cohort of the next step.
    HaltMovesOn,
    /// Rollout: candidate views stay after the end.
    CandidateKept,
    /// Rollout: a rollback is forgotten if another replica was first to store a state.
    RollbackNotRepeated,
    /// Rollout: clients that are behind after the soak are awaited without a limit.
    NoTimeoutAfterSoak,
    /// Rollout: a newer rollout of another replica is not noticed.
    NewerRolloutIgnored,
    /// Rollout: a completed change has, of what was applied for all meanwhile, the earlier state.
    CompletedChangeIsOlder,
}

#[cfg(feature = "zoo")]
mod enabled {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::{Bug, is};

    /// Reorders a list differently on each call, like the iteration order of a hash map.
    pub(crate) fn shuffle<T>(bug: Bug, things: &mut [T]) {
        static TIMES: AtomicUsize = AtomicUsize::new(0);
        if is(bug) && !things.is_empty() {
            let by = TIMES.fetch_add(1, Ordering::Relaxed) % things.len();
            #[expect(clippy::disallowed_methods, reason = "`by` is less than the length")]
            things.rotate_left(by);
        }
    }

    /// State that only a bug uses.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct BugState<T>(Option<T>);

    impl<T: Clone> BugState<T> {
        pub(crate) fn keep(&mut self, value: &T) {
            self.0 = Some(value.clone());
        }

        pub(crate) fn kept_for(&self, bug: Bug) -> Option<&T> {
            self.0.as_ref().filter(|_| is(bug))
        }
    }
}

#[cfg(not(feature = "zoo"))]
mod disabled {
    use core::marker::PhantomData;

    use super::Bug;

    pub(crate) const fn shuffle<T>(_: Bug, _: &mut [T]) {}

    #[derive(Clone, Debug, Default)]
    pub(crate) struct BugState<T>(PhantomData<T>);

    impl<T> BugState<T> {
        #[expect(clippy::needless_pass_by_ref_mut, reason = "mutates with the feature `zoo`")]
        pub(crate) const fn keep(&mut self, _: &T) {}

        pub(crate) const fn kept_for(&self, _: Bug) -> Option<&T> {
            None
        }
    }
}

#[cfg(not(feature = "zoo"))]
pub(crate) use disabled::{BugState, shuffle};
#[cfg(feature = "zoo")]
pub(crate) use enabled::{BugState, shuffle};
