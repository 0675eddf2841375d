//! What a channel is made for.

use http::uri::Authority;
use thiserror::Error;

/// A target that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidTarget {
    /// It is of another form.
    #[error("{target:?} is not of the form xds:///name or xds://authority/name")]
    Form {
        /// What it was.
        target: String,
    },
    /// It has an authority, and nobody knows which listener to ask it for: the bootstrap does not have it, or there
    /// is none ([`XdsChannels`](crate::XdsChannels)) and no [listener](crate::ChannelOptions::listener) is named.
    #[error("the authority {authority:?} of {target:?} is not in the bootstrap")]
    Authority {
        /// What it was.
        target: String,
        /// Its authority.
        authority: String,
    },
}

/// A target by its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Who answers for the listener; `None` is whom the client asks anyway.
    pub(crate) authority: Option<&'a str>,
    /// Whom the channel is for: by this the virtual host is chosen (S2.068).
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// Reads `xds://authority/name`, in which the authority may be empty, and `xds:name` (FE-20).
    pub(crate) fn read(target: &'a str) -> Result<Self, InvalidTarget> {
        let invalid = || InvalidTarget::Form { target: target.into() };
        let rest = target.strip_prefix("xds:").ok_or_else(invalid)?;
        let (authority, name) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_once('/').ok_or_else(invalid)?,
            None => ("", rest.strip_prefix('/').unwrap_or(rest)),
        };
        if name.is_empty() {
            return Err(invalid());
        }
        Ok(Self { authority: Some(authority).filter(|authority| !authority.is_empty()), name })
    }

    /// Whom requests are for. A target may have what no authority can, such as a slash, which stands as a dash
    /// there; `None` is what cannot be part of a URI either.
    pub(crate) fn host(self) -> Option<Authority> {
        let Self { name, .. } = self;
        let is_of_uris = |it: char| it.is_ascii_graphic() && !"\"<>\\^`{|}".contains(it);
        if !name.chars().all(is_of_uris) {
            return None;
        }
        name.parse().ok().or_else(|| {
            let fits = |it: char| it.is_ascii_alphanumeric() || "-._~".contains(it);
            let fitting: String = name.chars().map(|it| if fits(it) { it } else { '-' }).collect();
            fitting.parse().ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_name_perhaps_of_an_authority() {
        let read = |target| Target::read(target).map(|it| (it.authority, it.name));
        assert_eq!(read("xds:///shop"), Ok((None, "shop")));
        assert_eq!(read("xds:shop"), Ok((None, "shop")));
        assert_eq!(read("xds:///a/b"), Ok((None, "a/b")));
        assert_eq!(read("xds://east.example.com/shop"), Ok((Some("east.example.com"), "shop")));
        for bad in ["shop", "dns:///shop", "xds:", "xds://", "xds://shop", "xds:///", "xds://a/"] {
            assert_eq!(read(bad), Err(InvalidTarget::Form { target: bad.into() }));
        }
        println!("covers: FE-20");
    }
}
