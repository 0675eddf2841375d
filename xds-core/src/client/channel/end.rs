//! Ways in which a stream can end, as far as backoff is concerned.

/// How a channel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Before there was a connection.
    Unconnected,
    /// Without a response, or soon after the first.
    Early,
    /// After it had served for a while.
    Served,
}
