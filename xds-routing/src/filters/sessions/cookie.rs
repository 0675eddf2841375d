//! Cookies of sessions.

use alloc::{string::String, sync::Arc};
use core::time::Duration;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Base64 with padding. Cookies without padding are read too.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Configuration of the stateful session filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatefulSession {
    /// Cookie of the sessions. `None` means that calls have no sessions.
    pub cookie: Option<Arc<SessionCookie>>,
}

/// Cookie that contains the endpoint of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCookie {
    /// Name of the cookie. Not empty.
    pub name: String,
    /// Path of the cookie, which the paths of calls must match ([RFC 6265, section 5.1.4]). All
    /// paths match if it is empty.
    ///
    /// [RFC 6265, section 5.1.4]: https://www.rfc-editor.org/rfc/rfc6265#section-5.1.4
    pub path: String,
    /// Lifetime of the cookie, which its recipient applies. If it is zero, the cookie has no
    /// `Max-Age`.
    pub ttl: Duration,
}

impl SessionCookie {
    /// Whether the cookie applies to calls with this path.
    #[must_use]
    pub fn applies_to(&self, path: &str) -> bool {
        match path.strip_prefix(&*self.path) {
            Some(rest) => self.path.ends_with('/') || rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }

    /// Returns the decoded value of the first cookie with this name. `None` if there is no such
    /// cookie, or its value is not text in base64.
    pub(super) fn read(&self, cookies: &str) -> Option<String> {
        // A comma joins several `cookie` headers, and does not occur in the values of cookies.
        let mut pairs = cookies.split([';', ',']).filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(name, _)| *name == self.name)?;
        String::from_utf8(BASE64.decode(value).ok()?).ok()
    }
}
