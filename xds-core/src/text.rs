//! String types of the protocol, which keep, for example, versions and nonces apart.

use alloc::{string::String, sync::Arc};
use core::{borrow::Borrow, fmt};

use smol_str::SmolStr;

macro_rules! text {
    ($(#[$doc:meta])* $name:ident($text:ty)) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($text);

        impl $name {
            /// Creates the value from a text without validation.
            #[must_use]
            pub fn new(text: impl Into<Self>) -> Self {
                text.into()
            }

            /// Returns the text exactly as on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether the text is empty.
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

/// Default maximum length of names, in bytes. Client and server use the same value: a client
/// forwards names that it received to other servers, and a server with a lower limit would close
/// its streams repeatedly.
pub(crate) const NAME_BYTES: usize = 2_048;

/// Bytes of a name that count as one name.
const UNIT: usize = 256;

/// Returns the number of names as which a name of this length counts, so that a limit of names also
/// bounds their bytes.
pub(crate) fn name_units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).max(1)
}

text! {
    /// Type URL of a resource, for example `type.googleapis.com/envoy.config.cluster.v3.Cluster`.
    // S0.008
    TypeUrl(Arc<str>)
}

text! {
    /// Name of a resource within its type.
    ResourceName(Arc<str>)
}

text! {
    /// Name of a view: the set of resources that one or more clients see. The empty name is that of
    /// the default view.
    ViewName(Arc<str>)
}

text! {
    /// Version as a management server states it. Versions are opaque and have no order.
    // NV-03
    Version(Arc<str>)
}

text! {
    /// Prefix of counted versions, which distinguishes the versions of different runs of a server.
    VersionPrefix(Arc<str>)
}

text! {
    /// Nonce that relates an ACK or NACK to its response; unique within a stream. Short nonces are
    /// stored without allocation.
    // B05
    Nonce(SmolStr)
}

impl Nonce {
    /// Returns the nonce with a number in decimal.
    pub(crate) fn from_number(number: u64) -> Self {
        // Length of the longest 64-bit number.
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
    /// Returns the message name after the last slash, for example
    /// `envoy.config.cluster.v3.Cluster`.
    #[must_use]
    pub fn message_name(&self) -> &str {
        self.as_str().rsplit('/').next().unwrap_or_default()
    }
}
