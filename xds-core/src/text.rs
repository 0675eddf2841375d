//! The protocol's strings as types of their own, so that a version is never passed for a nonce.

use alloc::{string::String, sync::Arc};
use core::{borrow::Borrow, fmt};

use smol_str::SmolStr;

macro_rules! text {
    ($(#[$doc:meta])* $name:ident($text:ty)) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($text);

        impl $name {
            /// Takes the text as it is.
            #[must_use]
            pub fn new(text: impl Into<Self>) -> Self {
                text.into()
            }

            /// The text, exactly as on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether there is no text at all.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self(<$text>::default())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text.into())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }
    };
}

/// How long names may be, unless somebody wants otherwise. The same for clients and servers: a client tells each server
/// what others have sent, and one whose limit is lower would end its streams for it, again and again.
pub(crate) const NAME_BYTES: usize = 2_048;

text! {
    /// The type of a resource, as in `type.googleapis.com/envoy.config.cluster.v3.Cluster` (S0.008).
    TypeUrl(Arc<str>)
}

text! {
    /// The name of a resource within its type.
    ResourceName(Arc<str>)
}

text! {
    /// The name of a view: the set of resources that a client, or a group of clients, sees. The empty name
    /// is that of the default view.
    ViewName(Arc<str>)
}

text! {
    /// A version as a management server states it: opaque, never compared for order (NV-03).
    Version(Arc<str>)
}

text! {
    /// What the counted versions of one run of a server begin with, to tell them from those of other runs.
    VersionPrefix(Arc<str>)
}

text! {
    /// What pairs a response with its ACK or NACK; it means nothing beyond its stream (B05). Short ones, as
    /// there is one for each response, are not allocated.
    Nonce(SmolStr)
}

impl Nonce {
    /// A number in decimal digits.
    pub(crate) fn of_number(number: u64) -> Self {
        // The longest has as many.
        let mut digits = [b'0'; 20];
        let (mut rest, mut first) = (number, digits.len());
        for digit in digits.iter_mut().rev() {
            *digit += (rest % 10) as u8;
            (rest, first) = (rest / 10, first - 1);
            if rest == 0 {
                break;
            }
        }
        let digits = digits.get(first..).and_then(|digits| core::str::from_utf8(digits).ok());
        Self(SmolStr::new(digits.unwrap_or_default()))
    }
}

impl TypeUrl {
    /// The message name behind the last slash, as in `envoy.config.cluster.v3.Cluster`.
    #[must_use]
    pub fn message_name(&self) -> &str {
        self.as_str().rsplit('/').next().unwrap_or_default()
    }
}
