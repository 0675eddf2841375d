//! Canonical form of resource names.
//!
//! Different spellings of an `xdstp` name, by the application or by the server, are one
//! subscription and one resource. Other names are kept unchanged.
// A47, TP1, FE-08, FE-09

use alloc::borrow::Cow;

use thiserror::Error;

use crate::{
    client::config::Federation,
    text::TypeUrl,
    xdstp::{self, InvalidXdstp, XdstpName},
};

/// Error of an `xdstp` name that is not valid for a resource of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidStructuredName {
    /// The name cannot be parsed.
    #[error(transparent)]
    Malformed(#[from] InvalidXdstp),
    /// The name is that of a resource of another type.
    // FE-07
    #[error("the name contains another resource type")]
    OtherType,
    /// The name is a glob, which denotes a collection, not a resource.
    #[error("the name is a glob, not a single resource")]
    Glob,
    /// The name denotes a single resource, not a glob.
    #[error("the name is not a glob")]
    NotAGlob,
}

/// Canonical name with its authority.
#[derive(Debug)]
pub(crate) struct CanonicalName<'n> {
    pub(crate) name: Cow<'n, str>,
    pub(crate) authority: Option<Cow<'n, str>>,
    pub(crate) is_glob: bool,
}

/// Parses the name of a resource of the type.
pub(crate) fn parse<'n>(
    name: &'n str,
    type_url: &TypeUrl,
    federation: Federation,
) -> Result<CanonicalName<'n>, InvalidStructuredName> {
    match parse_any(name, type_url, federation)? {
        CanonicalName { is_glob: true, .. } => Err(InvalidStructuredName::Glob),
        resource => Ok(resource),
    }
}

/// Parses the name of a glob of the type.
pub(crate) fn parse_glob<'n>(
    name: &'n str,
    type_url: &TypeUrl,
    federation: Federation,
) -> Result<CanonicalName<'n>, InvalidStructuredName> {
    match parse_any(name, type_url, federation)? {
        CanonicalName { is_glob: false, .. } => Err(InvalidStructuredName::NotAGlob),
        glob => Ok(glob),
    }
}

/// Parses the name of a resource or glob of the type.
pub(crate) fn parse_any<'n>(
    name: &'n str,
    type_url: &TypeUrl,
    federation: Federation,
) -> Result<CanonicalName<'n>, InvalidStructuredName> {
    if federation == Federation::Off || !xdstp::is_xdstp(name) {
        return Ok(CanonicalName { name: Cow::Borrowed(name), authority: None, is_glob: false });
    }
    let parsed = XdstpName::parse(name)?;
    if !parsed.is_of(type_url) {
        return Err(InvalidStructuredName::OtherType);
    }
    let authority = Some(Cow::Owned(parsed.authority().into()));
    let is_glob = parsed.is_glob();
    Ok(CanonicalName { name: Cow::Owned(parsed.as_str().into()), authority, is_glob })
}
