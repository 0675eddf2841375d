//! What a resource is sent with beside its bytes.

use core::time::Duration;

/// What a resource is sent with beside its bytes, for
/// [`Transaction::set_with`](super::transaction::Transaction::set_with).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ResourceOptions {
    /// How long a client may use the resource unless it is sent again; for ever by default. Only
    /// clients that announce the feature are told, and sent heartbeats in time (B09, M159-M170). At
    /// least [`SHORTEST_TTL`](Self::SHORTEST_TTL), at most [`LONGEST_TTL`](Self::LONGEST_TTL).
    pub ttl: Option<Duration>,
}

impl ResourceOptions {
    /// The shortest TTL: a millisecond.
    pub const SHORTEST_TTL: Duration = Duration::from_millis(1);
    /// The longest TTL: what `google.protobuf.Duration` can say, some 10,000 years.
    pub const LONGEST_TTL: Duration = Duration::from_secs(315_576_000_000);

    /// Sets the time to live.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Whether a TTL can be told and kept to.
    pub(crate) fn is_ttl_in_range(ttl: Duration) -> bool {
        (Self::SHORTEST_TTL..=Self::LONGEST_TTL).contains(&ttl)
    }

    /// Whether there is nothing beside the bytes.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}
