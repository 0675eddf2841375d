//! Ids assigned by the cores. An id is never reused.
// Contract rule 7.

use core::fmt;

use crate::slab::Key;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) Key);

        impl $name {
            /// Returns the id as a number, for logs and foreign interfaces.
            #[must_use]
            pub const fn as_u64(self) -> u64 {
                self.0.as_u64()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id! {
    /// Id of one discovery stream of a client, from the attempt to open it until its end. It does
    /// not identify a gRPC channel, which may outlive many streams.
    ///
    /// Each [`Output::Open`](crate::client::Output::Open) has a new id, so late events of an
    /// earlier transport are ignored.
    ChannelId, "c"
}

id! {
    /// Id of one watch of the application.
    WatchId, "w"
}

id! {
    /// Id of one stream that a client opened to a management server.
    StreamId, "s"
}

/// Id of one response that waits for a verdict of the application.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateId {
    pub(crate) channel: ChannelId,
    /// Number of the response on its channel.
    pub(crate) number: u64,
}

impl UpdateId {
    /// Returns the channel on which the response arrived.
    #[must_use]
    pub fn channel(self) -> ChannelId {
        self.channel
    }
}

impl fmt::Display for UpdateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}u{}", self.channel, self.number)
    }
}

impl fmt::Debug for UpdateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
