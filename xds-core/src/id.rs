//! Identities that the cores hand out. None is ever reused (contract rule 7).

use core::fmt;

use crate::slab::Key;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) Key);

        impl $name {
            /// The id as one number, for logs and foreign interfaces.
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
    /// One incarnation of a transport towards a management server.
    ///
    /// Every [`Output::Open`](crate::client::Output::Open) carries a fresh one, so whatever a dead
    /// transport still says is ignored by construction.
    ChannelId, "c"
}

id! {
    /// One watch of the application.
    WatchId, "w"
}

id! {
    /// One stream that a client opened to our management server.
    StreamId, "s"
}

/// One response that waits for a verdict from outside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateId {
    pub(crate) channel: ChannelId,
    /// Counts the updates of the channel.
    pub(crate) number: u64,
}

impl UpdateId {
    /// The channel on which the response came.
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
