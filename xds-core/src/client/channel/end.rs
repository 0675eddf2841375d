//! Ways in which a stream can end, for the backoff.

/// Way in which a channel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelEnd {
    /// Before it was connected.
    Unconnected,
    /// Without a response, or shortly after the first one.
    Early,
    /// After a sufficiently long time since the first response.
    Served,
}
