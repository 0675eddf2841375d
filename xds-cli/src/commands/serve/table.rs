//! Output format `table`: text for people.

use std::path::PathBuf;

use super::events::{ServeEvent, ServePrinter};
use crate::{
    directory::{Rejected, Removal},
    failure::Failure,
    output::{self, Layout},
    server_table::table,
    style::Style,
    text::{count, escaped},
};

#[derive(Debug)]
pub(crate) struct Table {
    out: Style,
    err: Style,
    layout: Layout,
}

impl Table {
    pub(crate) fn new(out: Style, err: Style, layout: Layout) -> Self {
        Self { out, err, layout }
    }
}

impl ServePrinter for Table {
    fn print(&mut self, event: ServeEvent<'_>) -> Result<(), Failure> {
        match event {
            ServeEvent::Serving { directory, listen, rest, csds, export, resources, is_ready } => {
                let directory = escaped(&directory.display().to_string());
                let rest = rest.map(|at| format!(", REST-JSON on {at}")).unwrap_or_default();
                let csds = csds.map(|at| format!(", CSDS on {at}")).unwrap_or_default();
                let export = export.map(|to| {
                    let to = escaped(&to.display().to_string());
                    format!(", exporting to {to} (files with secrets have mode 0600)")
                });
                let export = export.unwrap_or_default();
                let line = format!("serving {directory} on {listen}{rest}{csds}{export}");
                output::offer(&self.layout.fold(&line))?;
                if is_ready {
                    self.print_line(&count(resources as u64, "resource"))
                } else {
                    Ok(())
                }
            }
            ServeEvent::NotReady { files } => {
                let word = self.err.notable("not ready");
                let files = named(files);
                output::print_to_stderr(&format!(
                    "{word}: nothing is served until each of these files has been valid once: {files}"
                ));
                Ok(())
            }
            ServeEvent::Ready { resources } => {
                self.print_line(&format!("ready: {}", count(resources as u64, "resource")))
            }
            ServeEvent::FileError(error) => {
                let kept = match error.kept {
                    0 => "no resource of the file is served".to_owned(),
                    kept => {
                        format!(
                            "the last valid state of the file stays in use: {}",
                            count(kept as u64, "resource")
                        )
                    }
                };
                let (error, reason) = (self.err.bad("error"), escaped(&error.error));
                output::print_to_stderr(&format!(
                    "{error}: {reason}
       {kept}"
                ));
                Ok(())
            }
            ServeEvent::Dangling(finding) => {
                output::print_to_stderr(
                    &finding.line("warning", |it| self.err.notable(it).to_string()),
                );
                Ok(())
            }
            ServeEvent::Rejected { rejected, resources } => {
                let (error, why) = (self.err.bad("error"), reason(rejected));
                let stays = match resources {
                    0 => "nothing is served".to_owned(),
                    _ => format!(
                        "the served state is unchanged: {}",
                        count(resources as u64, "resource")
                    ),
                };
                output::print_to_stderr(&format!("{error}: {why}\n       {stays}"));
                Ok(())
            }
            ServeEvent::Reloaded { resources, applied } => self.print_line(&format!(
                "reloaded: {} changed, {} removed, {}",
                applied.changed,
                applied.removed,
                count(resources as u64, "resource")
            )),
            ServeEvent::Status(changes) if changes.rows.is_empty() => {
                output::print(&self.line("no clients"))
            }
            ServeEvent::Status(changes) => {
                let streams = changes.rows.chunk_by(|a, b| a.stream == b.stream).count();
                let line = self.line(&count(streams as u64, "stream"));
                output::print(&format!("{line}\n{}", table(&changes.changed, self.out)))
            }
        }
    }
}

/// Number of files that a line names.
const MOST_FILES: usize = 5;

fn named(files: &[PathBuf]) -> String {
    let shown = files.iter().take(MOST_FILES).map(|file| escaped(&file.display().to_string()));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(more) = files.len().checked_sub(MOST_FILES).filter(|&more| more > 0) {
        text += &format!(" and {more} more");
    }
    text
}

fn reason(rejected: &Rejected) -> String {
    match rejected {
        Rejected::Dangling(dangling) => {
            format!("{} would be dangling", count(*dangling as u64, "reference"))
        }
        Rejected::Removal(Removal { removed, served, allowed, first }) => {
            let mut names = escaped(&first.join(", "));
            if let Some(more) = removed.checked_sub(first.len()).filter(|&more| more > 0) {
                names += &format!(" and {more} more");
            }
            format!(
                "the files would remove {removed} of {served} resources, more than the {allowed} % of \
                 --max-removal: {names}\n       to remove them, restart xds serve, or remove them in \
                 smaller steps"
            )
        }
    }
}

impl Table {
    fn print_line(&self, text: &str) -> Result<(), Failure> {
        output::offer(&self.line(text))
    }

    fn line(&self, text: &str) -> String {
        let line = format!("{} {text}", self.out.quiet(self.layout.time()));
        self.layout.fold(&line).into_owned()
    }
}
