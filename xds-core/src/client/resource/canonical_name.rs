//! Resource names as they are kept: those with structure in their canonical form (A47, TP1).
//!
//! Two spellings of one name are one subscription and one resource, whoever wrote them, the
//! application (FE-08) or the server (FE-09). Names without structure are kept as they are.

use alloc::borrow::Cow;

use thiserror::Error;

use crate::{
    client::config::Federation,
    text::TypeUrl,
    xdstp::{self, InvalidXdstp, XdstpName},
};

/// Why a structured name cannot name a resource of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidStructuredName {
    /// It cannot be read.
    #[error(transparent)]
    Malformed(#[from] InvalidXdstp),
    /// It names a resource of another type (FE-07).
    #[error("it names a resource of another type")]
    OtherType,
    /// It is a glob, which stands for a collection and names no resource.
    #[error("it is a glob, which stands for a collection")]
    Glob,
    /// It was said to be a glob, and names one resource.
    #[error("it is not a glob")]
    NotAGlob,
}

/// A name in the form in which it is kept, and the authority that it states.
#[derive(Debug)]
pub(crate) struct KeptName<'n> {
    pub(crate) name: Cow<'n, str>,
    pub(crate) authority: Option<Cow<'n, str>>,
    pub(crate) is_glob: bool,
}

/// Reads a name of a resource of the type.
pub(crate) fn read<'n>(
    name: &'n str,
    type_url: &TypeUrl,
    federation: Federation,
) -> Result<KeptName<'n>, InvalidStructuredName> {
    match read_subject(name, type_url, federation)? {
        KeptName { is_glob: true, .. } => Err(InvalidStructuredName::Glob),
        resource => Ok(resource),
    }
}

/// Reads a name of a glob of the type.
pub(crate) fn read_glob<'n>(
    name: &'n str,
    type_url: &TypeUrl,
    federation: Federation,
) -> Result<KeptName<'n>, InvalidStructuredName> {
    match read_subject(name, type_url, federation)? {
        KeptName { is_glob: false, .. } => Err(InvalidStructuredName::NotAGlob),
        glob => Ok(glob),
    }
}

/// Reads a name of a resource or of a glob of the type.
pub(crate) fn read_subject<'n>(
    name: &'n str,
    type_url: &TypeUrl,
    federation: Federation,
) -> Result<KeptName<'n>, InvalidStructuredName> {
    if federation == Federation::Off || !xdstp::is_xdstp(name) {
        return Ok(KeptName { name: Cow::Borrowed(name), authority: None, is_glob: false });
    }
    let parsed = XdstpName::parse(name)?;
    if !parsed.is_of(type_url) {
        return Err(InvalidStructuredName::OtherType);
    }
    let authority = Some(Cow::Owned(parsed.authority().into()));
    let is_glob = parsed.is_glob();
    Ok(KeptName { name: Cow::Owned(parsed.as_str().into()), authority, is_glob })
}
