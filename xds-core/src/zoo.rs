//! Bugs on purpose, which show that the simulation would find them. No build has any without the feature
//! `zoo`, which only tests of the simulation enable: then [`is`] is `false` for the compiler already.
//!
//! Each is a bug that an implementation of xDS shipped, or one close to it. They are few places of the
//! cores and read as "or if this bug is let loose".

#![cfg_attr(
    not(feature = "zoo"),
    expect(unreachable_pub, reason = "only the open zoo has visitors")
)]

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Bug {
    /// The nonce of a type outlives its stream.
    NonceOverReconnect = 1,
    /// A NACK states the version that it rejects, and so do all requests after it.
    VersionOfRejected,
    /// The server is not told when the last watch of a type ends.
    NoUnsubscribeForLastWatch,
    /// A resource stays in the cache after its subscription has ended.
    CacheNotEvicted,
    /// Does-not-exist timers go on while there is no stream.
    TimerRunsInBackoff,
    /// An error that the server reports for a resource does not end its does-not-exist timer.
    TimerOutlivesReportedError,
    /// One bad resource makes the client refuse all others of the response.
    WholeResponseRejected,
    /// A response with a bad resource deletes nothing.
    RemovalsLostOnNack,
    /// `initial_resource_versions` states the version of an update that was rejected.
    RejectedVersionOnReconnect,
    /// What is held is not subscribed to on a new stream.
    InterestNotSentAgain,
    /// After names were sent, an empty list is still meant as the wildcard.
    EmptyListAfterNames,
    /// What a response leaves out is deleted, also of types whose responses are not complete.
    AbsenceDeletesEndpoints,
    /// What was only asked for is taken to be deleted by a response that does not have it yet.
    AbsenceDeletesWhatNeverCame,
    /// A name that comes twice in a response is no reason to reject it.
    DuplicatesAccepted,
    /// A server sends what was rejected again, at once.
    RejectedSentAgain,
    /// A server does not answer new names if the version is still the same.
    SilentOnNewNames,
    /// A server forgets names that do not exist when they are asked for.
    MissingNotRemembered,
    /// A server tells of a deletion with every change from then on.
    DeletionToldTwice,
    /// A server's nonces are its versions.
    VersionAsNonce,
    /// A server that waits for a type to be accepted before it sends another one waits for ever.
    HoldNeverReleased,
    /// The client turns to the next server although all that is watched is known.
    FallbackThoughCached,
    /// A response of the preferred server does not bring the client back to it.
    NoWayBack,
    /// A complete response of one authority's server deletes what another one's sent.
    AuthoritiesShareAbsence,
    /// A heartbeat is told to watchers.
    HeartbeatIsAnUpdate,
    /// A connection resets the backoff of streams, though no response has come.
    BackoffEndsOnConnect,
    /// Watchers are told of a stream that ended after it had delivered something.
    PlannedEndIsAnError,
    /// Every change queues a notice of its own for a watcher that has not taken the last one.
    QueuePerWatcher,
    /// Names are subscribed in another order in every run.
    HashOrder,
    /// A deadline that has passed is handed out again.
    DeadlineInThePast,
    /// A response of a type that nobody registered ends the process.
    PanicOnUnknownType,
}

#[cfg(feature = "zoo")]
impl Bug {
    /// Every bug, in the order of their numbers, which begin with 1.
    pub const ALL: [Self; 30] = [
        Self::NonceOverReconnect,
        Self::VersionOfRejected,
        Self::NoUnsubscribeForLastWatch,
        Self::CacheNotEvicted,
        Self::TimerRunsInBackoff,
        Self::TimerOutlivesReportedError,
        Self::WholeResponseRejected,
        Self::RemovalsLostOnNack,
        Self::RejectedVersionOnReconnect,
        Self::InterestNotSentAgain,
        Self::EmptyListAfterNames,
        Self::AbsenceDeletesEndpoints,
        Self::AbsenceDeletesWhatNeverCame,
        Self::DuplicatesAccepted,
        Self::RejectedSentAgain,
        Self::SilentOnNewNames,
        Self::MissingNotRemembered,
        Self::DeletionToldTwice,
        Self::VersionAsNonce,
        Self::HoldNeverReleased,
        Self::FallbackThoughCached,
        Self::NoWayBack,
        Self::AuthoritiesShareAbsence,
        Self::HeartbeatIsAnUpdate,
        Self::BackoffEndsOnConnect,
        Self::PlannedEndIsAnError,
        Self::QueuePerWatcher,
        Self::HashOrder,
        Self::DeadlineInThePast,
        Self::PanicOnUnknownType,
    ];
}

#[cfg(feature = "zoo")]
mod open {
    use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

    use super::Bug;

    /// The number of the bug that is let loose; 0 is none. One for the whole process: it would have to be
    /// carried through every part of the cores otherwise.
    static LOOSE: AtomicU8 = AtomicU8::new(0);

    /// Lets a bug loose in every client and server of the process, or locks all of them up again.
    pub fn let_loose(bug: Option<Bug>) {
        LOOSE.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        LOOSE.load(Ordering::Relaxed) == bug as u8
    }

    /// Puts things into an order that is another one every time, as that of a hash map is.
    pub(crate) fn shuffle<T>(bug: Bug, things: &mut [T]) {
        static TIMES: AtomicUsize = AtomicUsize::new(0);
        if is(bug) && !things.is_empty() {
            let by = TIMES.fetch_add(1, Ordering::Relaxed) % things.len();
            things.rotate_left(by);
        }
    }

    /// Something that only a bug remembers.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Keepsake<T>(Option<T>);

    impl<T: Clone> Keepsake<T> {
        pub(crate) fn keep(&mut self, value: &T) {
            self.0 = Some(value.clone());
        }

        pub(crate) fn kept_for(&self, bug: Bug) -> Option<&T> {
            self.0.as_ref().filter(|_| is(bug))
        }
    }
}

#[cfg(not(feature = "zoo"))]
mod locked {
    use core::marker::PhantomData;

    use super::Bug;

    pub(crate) const fn is(_: Bug) -> bool {
        false
    }

    pub(crate) const fn shuffle<T>(_: Bug, _: &mut [T]) {}

    #[derive(Clone, Debug, Default)]
    pub(crate) struct Keepsake<T>(PhantomData<T>);

    impl<T> Keepsake<T> {
        #[expect(clippy::needless_pass_by_ref_mut, reason = "the open zoo keeps it")]
        pub(crate) const fn keep(&mut self, _: &T) {}

        pub(crate) const fn kept_for(&self, _: Bug) -> Option<&T> {
            None
        }
    }
}

#[cfg(not(feature = "zoo"))]
pub(crate) use locked::{Keepsake, is, shuffle};
#[cfg(feature = "zoo")]
pub use open::let_loose;
#[cfg(feature = "zoo")]
pub(crate) use open::{Keepsake, is, shuffle};
