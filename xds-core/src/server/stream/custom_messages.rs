//! Queue of messages of types that the application handles itself.

use alloc::collections::VecDeque;

use bytes::Bytes;

use crate::text::TypeUrl;

/// Custom messages that the transport has not taken yet.
pub(crate) type CustomMessages = VecDeque<(TypeUrl, Bytes)>;
