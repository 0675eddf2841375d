//! How the version of a type is stated: by content, by a count, or as the application says (M69, M72).

pub(crate) mod application;
pub(crate) mod content;

use alloc::format;

use self::content::{StatedVersion, TypeVersion};
use super::{arena::Arena, revision::Stamp};
use crate::{
    server::config::{ReconnectTrust, VersionMode},
    text::{Version, VersionPrefix},
};

/// What versions of a type in a view are made of.
#[derive(Debug)]
pub(crate) struct Versions {
    mode: VersionMode,
    prefix: VersionPrefix,
    /// The application's, once it has given one.
    pub(crate) own: Option<Version>,
    /// The current one, which is made once.
    printed: Option<(StatedVersion, Version)>,
}

/// Counted versions have this bit if they are of a part of the resources: then they are digests.
const PART: u64 = 1 << 63;

impl Versions {
    pub(crate) fn new(mode: VersionMode, prefix: VersionPrefix) -> Self {
        Self { mode, prefix, own: None, printed: None }
    }

    /// Whether a version that is stated without more is that of all resources of the type, as they are: by
    /// a client that comes back, whatever has been since (M41, B06).
    fn is_proof(&self) -> bool {
        match self.mode {
            VersionMode::Content => true,
            VersionMode::Counter => !self.prefix.is_empty(),
            VersionMode::Caller | VersionMode::Label => self.own.is_none(),
        }
    }

    /// Whether two sets of resources of this view never have the same version.
    fn differ(&self) -> bool {
        self.mode != VersionMode::Label || self.own.is_none()
    }
}

impl Arena {
    /// The version that the application has given, if it is to.
    pub(crate) fn own_version(&self) -> Option<&Version> {
        self.versions.own.as_ref()
    }

    /// How a response with this content is versioned, but for the application's versions.
    pub(crate) fn stated(&self, content: TypeVersion) -> StatedVersion {
        match self.versions.mode {
            VersionMode::Content | VersionMode::Caller | VersionMode::Label => content.stated(),
            VersionMode::Counter if content == self.version => {
                StatedVersion::new(self.clock().number())
            }
            VersionMode::Counter => StatedVersion::new(content.stated().number() | PART),
        }
    }

    /// The text of a version that is not the application's.
    pub(crate) fn text_of(&self, version: StatedVersion) -> Version {
        let (prefix, number) = (&self.versions.prefix, version.number());
        match self.versions.mode {
            VersionMode::Content | VersionMode::Caller | VersionMode::Label => version.to_version(),
            VersionMode::Counter if number & PART == 0 => Version::new(format!("{prefix}{number}")),
            VersionMode::Counter => Version::new(format!("{prefix}~{:016x}", number & !PART)),
        }
    }

    /// The same; for the current version it is made once.
    pub(crate) fn print(&mut self, version: StatedVersion) -> Version {
        match &self.versions.printed {
            Some((of, text)) if *of == version => text.clone(),
            _ => {
                let text = self.text_of(version);
                if version == self.stated(self.version) {
                    self.versions.printed = Some((version, text.clone()));
                }
                text
            }
        }
    }

    /// Whether `text` is what is printed of a version that is not the application's.
    pub(crate) fn is_printed_as(&self, version: StatedVersion, text: &str) -> bool {
        match self.versions.mode {
            VersionMode::Counter => self.text_of(version) == text,
            VersionMode::Content | VersionMode::Caller | VersionMode::Label => {
                version.is_printed_as(text)
            }
        }
    }

    /// The version of all resources, as responses state it.
    pub(crate) fn current_version(&self) -> Version {
        let own = self.own_version().cloned();
        own.unwrap_or_else(|| self.text_of(self.stated(self.version)))
    }

    /// Whether a version tells exactly what it is of.
    pub(crate) fn has_proof_in_versions(&self) -> bool {
        self.versions.is_proof()
    }

    /// Whether a client that states the version of what there is cannot have had anything else from this
    /// view.
    pub(crate) fn has_versions_that_differ(&self) -> bool {
        self.versions.differ()
    }

    /// Whether what the application says may be followed by what tells a part from all.
    pub(crate) fn marks_parts(&self) -> bool {
        self.versions.mode != VersionMode::Label
    }

    /// Whether a client that comes back is to be taken at its word, and by what it may subscribe.
    pub(crate) fn reconnect_trust(&self) -> ReconnectTrust {
        match self.config.reconnect_trust {
            _ if !self.versions.differ() => ReconnectTrust::Never,
            ReconnectTrust::WildcardOnly if !self.versions.is_proof() => ReconnectTrust::Never,
            trust => trust,
        }
    }
}

impl Stamp {
    fn number(self) -> u64 {
        self.as_u64() & !PART
    }
}
