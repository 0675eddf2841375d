//! Templates that make a listener's name from what a data plane was asked for (A47, FE-20).

use alloc::{string::String, sync::Arc};

use super::{
    PREFIX, XdstpName,
    escape::{self, Part},
    is_xdstp,
};
use crate::{text::ResourceName, types};

const PLACE: &str = "%s";

/// The template of a listener's name, as in `xdstp://authority/envoy.config.listener.v3.Listener/%s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTemplate(Arc<str>);

impl ListenerTemplate {
    /// Takes the template as it is. One without `%s` gives the same name for every target.
    #[must_use]
    pub fn new(template: impl Into<Arc<str>>) -> Self {
        Self(template.into())
    }

    /// The name is the target itself: the default outside any authority (BS-19).
    #[must_use]
    pub fn target() -> Self {
        Self::new(PLACE)
    }

    /// The default template of an authority (BS-19).
    #[must_use]
    pub fn of_authority(authority: &str) -> Self {
        let mut template = String::from(PREFIX);
        Part::Authority.encode(authority.as_bytes(), &mut template);
        template.push('/');
        template.push_str(types::LISTENER.rsplit('/').next().unwrap_or_default());
        template.push('/');
        template.push_str(PLACE);
        Self::new(template)
    }

    /// The template's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether all names it makes are of this authority: it starts with `xdstp://authority/`, the
    /// slash included (BS-18). How the authority is escaped makes no difference.
    #[must_use]
    pub fn is_within(&self, authority: &str) -> bool {
        self.as_str()
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('/'))
            .map(|(written, _)| written)
            // A bare one of these would end the authority, and with it the name.
            .filter(|written| !written.contains(['?', '#']))
            .and_then(|written| escape::decode(written, PREFIX.len()).ok())
            .is_some_and(|written| *written == *authority.as_bytes())
    }

    /// The name for a target: each `%s` is replaced. In an `xdstp:` template the target is escaped
    /// but for its slashes, so that it stays what it is wherever it is put: brackets of an IPv6
    /// address cannot end a path, an `&` adds no context parameter, and a segment `*` makes no glob.
    /// The name is in its canonical form, unless the template makes a malformed one.
    #[must_use]
    pub fn expand(&self, target: &str) -> ResourceName {
        if !is_xdstp(self.as_str()) {
            return self.0.replace(PLACE, target).into();
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
        let name = self.0.replace(PLACE, &escaped);
        XdstpName::parse(&name).map_or_else(|_| name.into(), XdstpName::into_name)
    }
}
