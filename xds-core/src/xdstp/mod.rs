//! Structured resource names: `xdstp://authority/type/id?context` ([gRFC A47][A47]).
//!
//! A name that starts with `xdstp:` is parsed here; any other name is opaque, including URIs of
//! other schemes. A parsed name has one canonical form, so two names refer to the same resource
//! exactly when their canonical texts are equal:
//!
//! | part | canonical form |
//! |---|---|
//! | authority | unescaped where the character is allowed; case is significant |
//! | type, id | as the authority, by path segment; an escaped `/` stays escaped |
//! | context parameters | sorted by key, last value of a repeated key; `&` and `=` stay escaped |
//! | processing directives | removed: they are not part of the name |
//!
//! A name whose last segment is `*` is a glob, which matches all resources below it. An escaped `*`
//! is an ordinary name.
//!
//! [A47]: https://github.com/grpc/proposal/blob/master/A47-xds-federation.md
//!
//! ```
//! use xds_core::xdstp::{Authority, XdstpName};
//!
//! let name = XdstpName::parse("xdstp://eu/envoy.config.listener.v3.Listener/a?y=2&x=%31")?;
//! assert_eq!(name.as_str(), "xdstp://eu/envoy.config.listener.v3.Listener/a?x=1&y=2");
//! assert_eq!(name.authority(), "eu");
//! assert_eq!(name.type_name(), "envoy.config.listener.v3.Listener");
//!
//! assert_eq!(Authority::of("old-style")?, Authority::TopLevel);
//! # Ok::<(), xds_core::xdstp::InvalidXdstp>(())
//! ```
// TP1, FE-11, FE-12, FE-13, D24; case of the authority: envoy #42803

mod escape;
mod template;

use alloc::{borrow::Cow, collections::BTreeMap, string::String, sync::Arc};
use core::{cmp, fmt, hash, str};

use thiserror::Error;

use self::escape::Part;
pub use self::template::ListenerTemplate;
use crate::text::{ResourceName, TypeUrl};

const SCHEME: &str = "xdstp:";
const PREFIX: &str = "xdstp://";
const GLOB: &str = "*";

/// Error of parsing a name that starts with `xdstp:`. Positions are byte offsets in the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidXdstp {
    /// The name does not start with `xdstp:`.
    #[error("the scheme is not xdstp")]
    Scheme,
    /// `xdstp:` is not followed by `//`.
    #[error("\"xdstp:\" must be followed by \"//\" and an authority, which may be empty")]
    MissingSlashes,
    /// The name has no type after the authority.
    #[error("the resource type is missing after the authority")]
    MissingType,
    /// The name has no id after the type.
    #[error("the id is missing after the resource type")]
    MissingId,
    /// A `%` is not followed by two hexadecimal digits.
    #[error("the \"%\" at byte {at} is not followed by two hexadecimal digits")]
    Escape {
        /// Position of the `%`.
        at: usize,
    },
    /// The unescaped authority is not valid UTF-8, so a bootstrap cannot contain it.
    #[error("the authority is not valid UTF-8")]
    AuthorityEncoding,
    /// A context parameter has a value but no key.
    #[error("the context parameter at byte {at} has no key")]
    MissingKey {
        /// Position of the parameter.
        at: usize,
    },
}

/// Whether the name starts with `xdstp:`, so that it must be parsed.
#[must_use]
pub fn is_xdstp(name: &str) -> bool {
    name.starts_with(SCHEME)
}

/// Returns the form in which a name is compared, stored and sent: the canonical form of an `xdstp:`
/// name without its directives, and any other name unchanged.
///
/// # Errors
///
/// Returns an error if the name starts with `xdstp:` and is malformed.
// FE-08, FE-09, IC30
pub fn canonical(name: &ResourceName) -> Result<ResourceName, InvalidXdstp> {
    if !is_xdstp(name.as_str()) {
        return Ok(name.clone());
    }
    let canonical = XdstpName::parse(name.as_str())?;
    Ok(if canonical.as_str() == name.as_str() { name.clone() } else { canonical.text })
}

/// Returns the processing directives of a name: the text after its first `#`, as written.
#[must_use]
pub fn directives(name: &str) -> Option<&str> {
    name.split_once('#').map(|(_, directives)| directives)
}

/// Returns the part of an `xdstp:` name before its context parameters and directives.
pub(crate) fn without_context(name: &str) -> &str {
    name.split(['?', '#']).next().unwrap_or(name)
}

/// Authority of a resource, which determines the management servers that are asked for it.
// A47, B35: the first key of every cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Authority {
    /// The top-level servers of the configuration, for names without structure.
    TopLevel,
    /// An entry of the configured authorities. The empty authority is such an entry too, different
    /// from the top level.
    // FE-04
    Named(Arc<str>),
}

impl Authority {
    /// Returns the authority of a resource name.
    ///
    /// # Errors
    ///
    /// Returns an error if the name starts with `xdstp:` and is malformed.
    pub fn of(name: &str) -> Result<Self, InvalidXdstp> {
        if is_xdstp(name) {
            XdstpName::parse(name).map(|name| Self::Named(name.authority))
        } else {
            Ok(Self::TopLevel)
        }
    }

    /// Returns the value of the metric label `grpc.xds.authority` ([gRFC A78][A78]): the authority,
    /// or `#old` for names without structure.
    ///
    /// [A78]: https://github.com/grpc/proposal/blob/master/A78-grpc-metrics-wrr-pf-xds.md
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::TopLevel => "#old",
            Self::Named(name) => name,
        }
    }
}

/// Parsed name of the form `xdstp://authority/type/id?context`, in its canonical form.
#[derive(Clone)]
pub struct XdstpName {
    text: ResourceName,
    authority: Arc<str>,
    /// Offset of the type in the text.
    type_at: usize,
    /// Offset of the id.
    id_at: usize,
    /// End of the id; context parameters may follow.
    id_end: usize,
}

impl XdstpName {
    /// Parses a name and converts it to its canonical form, without its directives.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is not a valid `xdstp:` name.
    pub fn parse(name: &str) -> Result<Self, InvalidXdstp> {
        if !is_xdstp(name) {
            return Err(InvalidXdstp::Scheme);
        }
        let rest = name.strip_prefix(PREFIX).ok_or(InvalidXdstp::MissingSlashes)?;
        let urn = rest.split_once('#').map_or(rest, |(urn, _)| urn);
        let (place, context) =
            urn.split_once('?').map_or((urn, None), |(place, context)| (place, Some(context)));
        let (authority, path) = place.split_once('/').ok_or(InvalidXdstp::MissingType)?;
        let (type_name, id) = path.split_once('/').unwrap_or((path, ""));
        if type_name.is_empty() {
            return Err(InvalidXdstp::MissingType);
        }
        if id.is_empty() {
            return Err(InvalidXdstp::MissingId);
        }

        let mut text = String::with_capacity(name.len());
        let mut at = PREFIX.len();
        text.push_str(PREFIX);
        let decoded = escape::decode(authority, at)?;
        Part::Authority.encode(&decoded, &mut text);
        let authority =
            str::from_utf8(&decoded).map_err(|_| InvalidXdstp::AuthorityEncoding)?.into();
        at += place.len() - path.len();

        text.push('/');
        let type_at = text.len();
        Part::Segment.encode(&escape::decode(type_name, at)?, &mut text);
        at += type_name.len() + 1;
        text.push('/');
        let id_at = text.len();
        encode_id(id, at, &mut text)?;
        let id_end = text.len();
        if let Some(context) = context {
            encode_context(context, at + id.len() + 1, &mut text)?;
        }
        Ok(Self { text: text.into(), authority, type_at, id_at, id_end })
    }

    /// Returns the canonical text, which is compared, stored and sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// Returns the canonical text as a resource name.
    #[must_use]
    pub const fn as_name(&self) -> &ResourceName {
        &self.text
    }

    /// Converts the canonical text into a resource name.
    #[must_use]
    pub fn into_name(self) -> ResourceName {
        self.text
    }

    /// Returns the unescaped authority, as in the authorities of a bootstrap; it may be empty.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the type, for example `envoy.config.listener.v3.Listener`.
    #[must_use]
    pub fn type_name(&self) -> &str {
        self.part(self.type_at, self.id_at.saturating_sub(1))
    }

    /// Whether the name is one of a resource of this type. In a watch or a response of another type
    /// it is an error.
    // FE-07
    #[must_use]
    pub fn is_of(&self, type_url: &TypeUrl) -> bool {
        self.type_name() == type_url.message_name()
    }

    /// Returns the escaped id, which may have several segments.
    #[must_use]
    pub fn id(&self) -> &str {
        self.part(self.id_at, self.id_end)
    }

    /// Returns the unescaped context parameters, ordered by key.
    pub fn context(&self) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
        pairs(self.query()).map(|(_, key, value)| {
            // The text was escaped by this module, so unescaping cannot fail.
            (
                escape::decode(key, 0).unwrap_or_default(),
                escape::decode(value, 0).unwrap_or_default(),
            )
        })
    }

    /// Whether the name is a glob: its id is `*` or ends in `/*`.
    // TP1
    #[must_use]
    pub fn is_glob(&self) -> bool {
        self.id().rsplit('/').next() == Some(GLOB)
    }

    /// Whether this name is a glob that matches `member`: both have the same authority, type and
    /// context parameters, and the member's id is below the glob's at any depth.
    // FE-22
    #[must_use]
    pub fn covers(&self, member: &Self) -> bool {
        let Some(directory) = self.part(0, self.id_end).strip_suffix(GLOB) else { return false };
        self.is_glob()
            && !member.is_glob()
            && member.part(0, member.id_end).starts_with(directory)
            && member.id_end > directory.len()
            && self.query() == member.query()
    }

    /// Returns the context parameters as in the text.
    fn query(&self) -> &str {
        self.part(self.id_end, self.as_str().len()).strip_prefix('?').unwrap_or_default()
    }

    fn part(&self, from: usize, to: usize) -> &str {
        self.as_str().get(from..to).unwrap_or_default()
    }
}

fn encode_id(id: &str, mut at: usize, out: &mut String) -> Result<(), InvalidXdstp> {
    let last = id.rsplit('/').next().unwrap_or_default();
    let is_escaped_glob =
        last != GLOB && *escape::decode(last, at + id.len() - last.len())? == *b"*";
    for (position, segment) in id.split('/').enumerate() {
        if position > 0 {
            out.push('/');
        }
        Part::Segment.encode(&escape::decode(segment, at)?, out);
        at += segment.len() + 1;
    }
    if is_escaped_glob {
        out.pop();
        out.push_str("%2A");
    }
    Ok(())
}

fn encode_context(context: &str, at: usize, out: &mut String) -> Result<(), InvalidXdstp> {
    let mut sorted: BTreeMap<Cow<'_, [u8]>, Cow<'_, [u8]>> = BTreeMap::new();
    for (offset, key, value) in pairs(context) {
        let at = at + offset;
        if key.is_empty() {
            return Err(InvalidXdstp::MissingKey { at });
        }
        let value = escape::decode(value, at + key.len() + 1)?;
        sorted.insert(escape::decode(key, at)?, value);
    }
    let mut separator = '?';
    for (key, value) in sorted {
        out.push(separator);
        Part::Context.encode(&key, out);
        out.push('=');
        Part::Context.encode(&value, out);
        separator = '&';
    }
    Ok(())
}

/// Returns the parameters of a query with their offsets. A parameter without `=` has an empty
/// value, and empty parameters are skipped.
fn pairs(query: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut next = 0;
    query
        .split('&')
        .map(move |pair| {
            let at = next;
            next += pair.len() + 1;
            (at, pair)
        })
        .filter(|(_, pair)| !pair.is_empty())
        .map(|(at, pair)| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (at, key, value)
        })
}

impl PartialEq for XdstpName {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for XdstpName {}

impl PartialOrd for XdstpName {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for XdstpName {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl hash::Hash for XdstpName {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl str::FromStr for XdstpName {
    type Err = InvalidXdstp;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::parse(name)
    }
}

impl From<XdstpName> for ResourceName {
    fn from(name: XdstpName) -> Self {
        name.into_name()
    }
}

impl fmt::Display for XdstpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for XdstpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
