//! What a connection is to both sides, whether TLS is in it or not.

use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream in both directions.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}
