//! Versions stated in responses, and what they mean when a client states them again.
//!
//! Versions are stored as numbers. Versions of the application are digests of their text and of
//! the content, because one text may be used for several contents. A session keeps the texts that
//! it may need again: those of the newest, the unanswered and the accepted response.
// B06, M69, M72

use alloc::format;

use crate::{
    server::{
        session::{ResponseMode, Session, context::SessionContext},
        store::{
            arena::Arena,
            version::content::{StatedVersion, TypeVersion},
        },
    },
    text::Version,
};

/// Part of the client's subscription that a response covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseScope {
    /// Exactly the existing resources, unless removals are deferred.
    Complete,
    /// Something else.
    Partial,
}

impl Session {
    /// Returns the text of a version that was stated.
    pub(crate) fn version_text(&self, version: StatedVersion, arena: &Arena) -> Version {
        self.text(version).cloned().unwrap_or_else(|| arena.version_text(version))
    }

    fn text(&self, version: StatedVersion) -> Option<&Version> {
        let texts = &self.extras.as_deref()?.texts;
        texts.iter().find(|(of, _)| *of == version).map(|(_, text)| text)
    }

    /// Stores the text of a version and drops those that are no longer needed.
    fn keep_text(&mut self, version: StatedVersion, text: Version) {
        if self.text(version).is_some() {
            return;
        }
        let (accepted, newest) = (self.accepted, self.newest.map(|sent| sent.version));
        let extras = self.extras_mut();
        let earlier = &extras.earlier;
        extras.texts.retain(|(of, _)| {
            let is_stated = Some(*of) == accepted || Some(*of) == newest;
            is_stated || earlier.iter().any(|sent| sent.version == *of)
        });
        extras.texts.push((version, text));
    }
}

impl SessionContext<'_> {
    /// Returns the version of a response with this content. The application's version denotes the
    /// whole subscription. A response with anything else gets a marked version, so that a
    /// returning client is not mistaken for one with the whole.
    pub(crate) fn stated_version(
        &mut self,
        content: TypeVersion,
        coverage: ResponseScope,
    ) -> StatedVersion {
        let Some(own) = self.arena.own_version().cloned() else {
            return self.arena.stated(content);
        };
        let is_whole = match (self.session.response_mode(self.arena), self.session.wildcard) {
            (ResponseMode::Changes | ResponseMode::ChangesAndRemovals, _) => true,
            (ResponseMode::FullState, _) if !self.arena.marks_parts() => true,
            (ResponseMode::FullState, Some(_)) => content == self.arena.version,
            (ResponseMode::FullState, None) => {
                coverage == ResponseScope::Complete && self.session.due.withheld().is_empty()
            }
        };
        let text = match is_whole {
            true => own,
            false => Version::new(format!("{own}~{}", content.stated().to_version(None))),
        };
        let version = StatedVersion::of_text(text.as_str(), content);
        self.session.keep_text(version, text);
        version
    }

    pub(crate) fn version_text(&mut self, version: StatedVersion) -> Version {
        let text = self.session.text(version).cloned();
        text.unwrap_or_else(|| self.arena.cached_version_text(version))
    }

    /// Whether a client that states `text` refers to this version.
    pub(crate) fn is_stated_as(&self, version: StatedVersion, text: &str) -> bool {
        match self.session.text(version) {
            Some(own) => own.as_str() == text,
            None => self.arena.has_text(version, text),
        }
    }
}
