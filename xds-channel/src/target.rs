//! Targets of channels.

use http::uri::Authority;
use thiserror::Error;

/// Reason why a target is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidTarget {
    /// The target has another form.
    #[error("{target:?} is not of the form xds:///name or xds://authority/name")]
    Form {
        /// The target.
        target: String,
    },
    /// The target has an authority that the bootstrap does not contain, or there is neither a
    /// bootstrap ([`XdsChannels`](crate::XdsChannels)) nor a
    /// [listener](crate::ChannelOptions::listener) name.
    #[error("the authority {authority:?} of {target:?} is not in the bootstrap")]
    Authority {
        /// The target.
        target: String,
        /// Authority of the target.
        authority: String,
    },
}

/// Parsed target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Authority of the listener; `None` selects the client's default servers.
    pub(crate) authority: Option<&'a str>,
    /// Name of the service, which selects the virtual host.
    // S2.068
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// Parses `xds://authority/name`, where the authority may be empty, or `xds:name`.
    // FE-20
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

    /// Returns the `:authority` of requests. Characters that an authority cannot contain, such as a
    /// slash, are replaced by dashes. Returns `None` if the name contains characters that no URI
    /// can contain.
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
    fn target_is_a_name_with_an_optional_authority() {
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
