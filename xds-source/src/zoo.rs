//! Deliberate bugs of the follower, used to verify that the simulation of replicas finds them.
//!
//! They exist only with the feature `zoo`, which only tests of the simulation enable; otherwise
//! [`is`] is the constant `false`.

xds_core::bugs! {
    /// An interrupted watch goes on behind the first change that was not received.
    GapOnResume,
    /// A list is used although it is older than what is known.
    OlderListUsed,
}
