//! Diagnostics of a check, and their text and NDJSON forms.

use std::{io, path::Path};

use clap::ColorChoice;
use serde_json::json;

use super::{github, sarif};
use crate::{
    args::CheckOutput,
    diagnostic::{Diagnostic, Level},
    directory::Problems,
    failure::Failure,
    output::{self, Layout},
    style::Style,
    text::count,
};

/// Result of a check.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Description of what was checked, such as `4 resources in 2 files`.
    pub(super) subject: String,
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Number of errors that are counted and not listed.
    more: usize,
}

impl Report {
    /// Adds the errors of a file.
    pub(super) fn add_problems(&mut self, file: &Path, problems: Problems) {
        self.diagnostics.extend(problems.first);
        if problems.more > 0 {
            self.diagnostics.push(Diagnostic::of_more(file, problems.more));
            // The line itself counts as one of them.
            self.more += problems.more - 1;
        }
    }

    /// Number of errors.
    pub(super) fn errors(&self) -> usize {
        self.of(Level::Error) + self.more
    }

    fn of(&self, level: Level) -> usize {
        self.diagnostics.iter().filter(|it| it.level == level).count()
    }

    fn summary(&self) -> String {
        let errors = count(self.errors() as u64, "error");
        let warnings = count(self.of(Level::Warning) as u64, "warning");
        format!("{}: {errors}, {warnings}", self.subject)
    }

    pub(super) fn print(&self, form: CheckOutput, color: ColorChoice) -> Result<(), Failure> {
        let all = &self.diagnostics;
        match form {
            CheckOutput::Text => {
                let style = Style::of(color, &io::stdout());
                let layout = Layout::of_stdout();
                all.iter().try_for_each(|it| output::print(&layout.fold(&it.line(style))))?;
                output::print(&self.summary())
            }
            CheckOutput::Ndjson => {
                all.iter().try_for_each(|it| output::print(&output::event_line(it.to_json())))
            }
            CheckOutput::Github => {
                all.iter().try_for_each(|it| output::print(&github::annotation(it)))?;
                output::print(&self.summary())
            }
            CheckOutput::Sarif => {
                let log = json!(sarif::log(all));
                output::print(&format!("{log:#}"))
            }
        }
    }
}
