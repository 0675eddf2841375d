//! Deliberate bugs of the driver of a replica, each of which the simulation has to find.

/// Deliberate bug of the driver of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaBug {
    /// A list that is read again is applied like a change: what it lacks is not removed.
    ListAsDiff,
    /// Streams are accepted and answered before the first whole list.
    ReadyTooEarly,
    /// Transactions do not carry the revision of the source.
    RevisionNotCarried,
    /// The state is dropped when the source cannot be reached.
    LastStateLost,
    /// The revision is confirmed by a member of the source that may lag behind.
    StaleConfirmation,
}
