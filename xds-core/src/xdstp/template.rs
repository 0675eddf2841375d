//! Templates for the listener name of a data plane target.
// A47, FE-20

use alloc::{string::String, sync::Arc};

use super::{
    PREFIX, XdstpName,
    escape::{self, Part},
    is_xdstp,
};
use crate::{text::ResourceName, types};

const PLACEHOLDER: &str = "%s";

/// Template of a listener name, for example
/// `xdstp://authority/envoy.config.listener.v3.Listener/%s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTemplate(Arc<str>);

impl ListenerTemplate {
    /// Creates a template from its text. Without `%s` it gives the same name for every target.
    #[must_use]
    pub fn new(template: impl Into<Arc<str>>) -> Self {
        Self(template.into())
    }

    /// Returns the template whose name is the target itself, the default outside of authorities.
    // BS-19
    #[must_use]
    pub fn target() -> Self {
        Self::new(PLACEHOLDER)
    }

    /// Returns the default template of an authority.
    // BS-19
    #[must_use]
    pub fn of_authority(authority: &str) -> Self {
        let mut template = String::from(PREFIX);
        Part::Authority.encode(authority.as_bytes(), &mut template);
        template.push('/');
        template.push_str(types::LISTENER.rsplit('/').next().unwrap_or_default());
        template.push('/');
        template.push_str(PLACEHOLDER);
        Self::new(template)
    }

    /// Returns the text of the template.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether all names from the template are of this authority: it starts with
    /// `xdstp://authority/`, including the slash. Escaping of the authority makes no difference.
    // BS-18
    #[must_use]
    pub fn is_within(&self, authority: &str) -> bool {
        self.as_str()
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('/'))
            .map(|(written, _)| written)
            // These characters, unescaped, would end the authority and the name.
            .filter(|written| !written.contains(['?', '#']))
            .and_then(|written| escape::decode(written, PREFIX.len()).ok())
            .is_some_and(|written| *written == *authority.as_bytes())
    }

    /// Returns the name for a target: each `%s` is replaced by it.
    ///
    /// In an `xdstp:` template the target is escaped except for its slashes, so that it cannot
    /// change the structure of the name: an IPv6 address in brackets cannot end the path, an `&`
    /// adds no context parameter, and a segment `*` makes no glob. The name is in canonical form
    /// unless the template results in a malformed name.
    #[must_use]
    pub fn expand(&self, target: &str) -> ResourceName {
        if !is_xdstp(self.as_str()) {
            return self.0.replace(PLACEHOLDER, target).into();
        }
        let mut escaped = String::with_capacity(target.len());
        for (position, segment) in target.split('/').enumerate() {
            if position > 0 {
                escaped.push('/');
            }
            match segment {
                "*" => escaped.push_str("%2A"),
                _ => Part::Anywhere.encode(segment.as_bytes(), &mut escaped),
            }
        }
        let name = self.0.replace(PLACEHOLDER, &escaped);
        XdstpName::parse(&name).map_or_else(|_| name.into(), XdstpName::into_name)
    }
}
