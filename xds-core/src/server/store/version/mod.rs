//! Versions of resource types: derived from content, counted, or set by the application.
// M69, M72

pub(crate) mod application;
pub(crate) mod content;
pub(crate) mod digits;

use alloc::format;
use core::num::NonZeroU64;

use self::content::{StatedVersion, TypeVersion};
use super::{arena::Arena, encode::body::entry_len, revision::Revision};
use crate::{
    server::config::{ReconnectTrust, VersionMode},
    slab::Slot,
    source_version,
    text::{Version, VersionPrefix},
};

/// Settings and state for the versions of one type in a view.
#[derive(Debug)]
pub(crate) struct VersionState {
    mode: VersionMode,
    prefix: VersionPrefix,
    /// Version set by the application, if any.
    pub(crate) own: Option<Version>,
    /// Revision of the source at which a resource was changed or removed last.
    pub(crate) source_revision: Option<NonZeroU64>,
    /// Text of the current version, built once.
    current_text: Option<(StatedVersion, Version)>,
}

/// Bit that is set in counted versions of a part of the resources, which are digests.
const PART: u64 = 1 << 63;

impl VersionState {
    pub(crate) fn new(mode: VersionMode, prefix: VersionPrefix) -> Self {
        Self { mode, prefix, own: None, source_revision: None, current_text: None }
    }

    /// Whether a version stated by a returning client proves that the client has exactly the
    /// current resources, whatever has happened since.
    // M41, B06
    pub(crate) fn is_proof(&self) -> bool {
        match self.mode {
            VersionMode::Content => true,
            VersionMode::Counter => !self.prefix.is_empty(),
            VersionMode::Caller | VersionMode::Label => self.own.is_none(),
        }
    }

    /// Whether different sets of resources in this view always have different versions.
    pub(crate) fn differ(&self) -> bool {
        self.mode != VersionMode::Label || self.own.is_none()
    }
}

impl Arena {
    /// Notes the revision of the source at which a resource was changed or removed.
    pub(crate) fn note_source_revision(&mut self, revision: Option<NonZeroU64>) {
        if revision > self.versions.source_revision {
            self.versions.source_revision = revision;
            self.versions.current_text = None;
        }
    }

    /// Notes that the source has written a resource anew with equal content.
    pub(crate) fn rewrite(&mut self, slot: Slot, revision: Option<NonZeroU64>) {
        let Some(resource) = self.resources.at_mut(slot) else { return };
        let (name, Some(payload)) = (&resource.name, &mut resource.payload) else { return };
        if revision.is_none() || payload.source_revision == revision {
            return;
        }
        self.entry_bytes -= entry_len(name, payload);
        payload.source_revision = revision;
        self.entry_bytes += entry_len(name, payload);
        self.forget_bodies();
        self.note_source_revision(revision);
    }

    /// Returns the version that the application has set.
    pub(crate) fn own_version(&self) -> Option<&Version> {
        self.versions.own.as_ref()
    }

    /// Returns the version of a response with this content, ignoring application-defined
    /// versions.
    pub(crate) fn stated(&self, content: TypeVersion) -> StatedVersion {
        match self.versions.mode {
            VersionMode::Content | VersionMode::Caller | VersionMode::Label => content.stated(),
            VersionMode::Counter if content == self.version => {
                StatedVersion::new(self.clock().number())
            }
            VersionMode::Counter => StatedVersion::new(content.stated().number() | PART),
        }
    }

    /// Returns the text of a version that is not application-defined, as it is stated in a response
    /// now.
    fn text_now(&self, version: StatedVersion) -> Version {
        match self.versions.mode {
            VersionMode::Content => version.to_version(self.versions.source_revision),
            _ => self.version_text(version),
        }
    }

    /// Returns the text of a version that is not application-defined. Unless it is the current one,
    /// its source revision is not known and left out.
    pub(crate) fn version_text(&self, version: StatedVersion) -> Version {
        if self.versions.source_revision.is_some()
            && self.versions.mode == VersionMode::Content
            && version == self.stated(self.version)
        {
            return version.to_version(self.versions.source_revision);
        }
        let (prefix, number) = (&self.versions.prefix, version.number());
        match self.versions.mode {
            VersionMode::Content | VersionMode::Caller | VersionMode::Label => {
                version.to_version(None)
            }
            VersionMode::Counter if number & PART == 0 => Version::new(format!("{prefix}{number}")),
            VersionMode::Counter => Version::new(format!("{prefix}~{:016x}", number & !PART)),
        }
    }

    /// Returns the text of a version that is not application-defined. The text of the current
    /// version is built only once.
    pub(crate) fn cached_version_text(&mut self, version: StatedVersion) -> Version {
        match &self.versions.current_text {
            Some((of, text)) if *of == version => text.clone(),
            _ => {
                let text = self.text_now(version);
                if version == self.stated(self.version) {
                    self.versions.current_text = Some((version, text.clone()));
                }
                text
            }
        }
    }

    /// Whether `text` is the text of a version that is not application-defined.
    pub(crate) fn has_text(&self, version: StatedVersion, text: &str) -> bool {
        match self.versions.mode {
            VersionMode::Counter => self.version_text(version) == text,
            // Only the hash decides, whatever the revision.
            VersionMode::Content => version.has_text(source_version::split(text).1),
            VersionMode::Caller | VersionMode::Label => version.has_text(text),
        }
    }

    /// Returns the version of all resources, as stated in responses.
    pub(crate) fn current_version(&self) -> Version {
        let own = self.own_version().cloned();
        own.unwrap_or_else(|| self.version_text(self.stated(self.version)))
    }

    /// Whether versions of partial responses are marked with a suffix to the application's
    /// version.
    pub(crate) fn marks_parts(&self) -> bool {
        self.versions.mode != VersionMode::Label
    }

    /// Returns the configured trust in the version stated by a returning client, reduced if
    /// versions do not identify their content.
    pub(crate) fn reconnect_trust(&self) -> ReconnectTrust {
        match self.config.reconnect_trust {
            _ if !self.versions.differ() => ReconnectTrust::Never,
            ReconnectTrust::WildcardOnly if !self.versions.is_proof() => ReconnectTrust::Never,
            trust => trust,
        }
    }
}

impl Revision {
    fn number(self) -> u64 {
        self.as_u64() & !PART
    }
}
