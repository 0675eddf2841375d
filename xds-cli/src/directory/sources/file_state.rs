//! State of one file.

use core::fmt;
use std::path::{Path, PathBuf};

use xds_core::ViewName;
use xds_source::Object;

use crate::{
    directory::parse::{Problems, Resources, parse_object},
    resource_types::Validation,
};

/// State of one file.
#[derive(Debug, Default)]
pub(super) struct FileState {
    /// Newest state.
    pub(super) seen: Option<Object>,
    /// View of the resources in use.
    pub(super) view: ViewName,
    /// Last valid state, which is in use; `None` if the file has never been valid.
    pub(super) good: Option<Resources>,
    /// Newer state that is valid alone but conflicts with another file.
    pub(super) pending: Option<Resources>,
    /// Current errors, and whether they have been reported.
    pub(super) error: Option<StateError>,
    /// Whether errors were reported, and the file has not been valid since.
    pub(super) is_known_as_broken: bool,
}

#[derive(Debug)]
pub(super) struct StateError {
    problems: Problems,
    is_reported: bool,
}

/// Errors of a file. The last valid state of the file stays in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileError {
    pub(crate) file: PathBuf,
    pub(crate) problems: Problems,
    /// Number of resources of the file that stay in use.
    pub(crate) kept: usize,
}

/// Writes one line for each error.
impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problems { first, more } = &self.problems;
        let lines: Vec<_> = first.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))?;
        match more {
            0 => Ok(()),
            more => write!(f, "\n{}: and {more} more errors", self.file.display()),
        }
    }
}

impl FileState {
    /// Returns the resources of the last valid state.
    pub(super) fn in_force(&self) -> &Resources {
        static NONE: Resources = Resources::new();
        self.good.as_ref().unwrap_or(&NONE)
    }

    pub(super) fn examine(&mut self, object: Object, validation: Validation) {
        let is_known = |seen: &Object| seen.content == object.content && seen.view == object.view;
        if let Some(seen) = self.seen.as_mut().filter(|seen| is_known(seen)) {
            seen.forced = object.forced;
            return;
        }
        // Earlier errors were about another content.
        self.error = None;
        self.pending = None;
        // The id of an object states its view, so the view of a file never changes.
        self.view = object.view.clone();
        match parse_object(&object, validation) {
            Ok(resources) => self.pending = Some(resources),
            Err(problems) => self.set_error(problems),
        }
        self.seen = Some(object);
    }

    pub(super) fn set_error(&mut self, problems: Problems) {
        if self.error.as_ref().is_none_or(|error| error.problems != problems) {
            self.error = Some(StateError { problems, is_reported: false });
        }
    }

    pub(super) fn current_error(&self, path: &Path) -> Option<FileError> {
        let problems = self.error.as_ref()?.problems.clone();
        Some(FileError { file: path.to_owned(), problems, kept: self.in_force().len() })
    }

    pub(super) fn take_error(&mut self, path: &Path) -> Option<FileError> {
        let error = self.error.as_mut().filter(|error| !error.is_reported)?;
        error.is_reported = true;
        self.is_known_as_broken = true;
        self.current_error(path)
    }
}
