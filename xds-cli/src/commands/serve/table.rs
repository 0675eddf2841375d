//! Output format `table`: text for people.

use std::path::PathBuf;

use xds_core::{
    guards::{InvalidChangeId, RefusedChange},
    rollout::RolloutPhase,
};

use super::{
    events::{ServeEvent, ServePrinter},
    redraw::{self, Redraw},
};
use crate::{
    args::SourceAddress,
    diagnostic::Level,
    directory::{ChangedResources, FileError, Key, MovedClients, Problems, Refused},
    failure::Failure,
    output::{self, Layout},
    rollouts::progress_lines,
    server_table::{table, table_within},
    style::Style,
    text::{count, escaped, one_line, type_name},
};

#[derive(Debug)]
pub(super) struct Table {
    out: Style,
    err: Style,
    layout: Layout,
    redraw: Redraw,
    source: SourceAddress,
}

impl Table {
    pub(super) fn new(
        out: Style,
        err: Style,
        layout: Layout,
        redraw: Redraw,
        source: SourceAddress,
    ) -> Self {
        Self { out, err, layout, redraw, source }
    }

    /// Describes what stays in use of a file with errors, or of a source that cannot be read.
    fn kept(&self, error: &FileError) -> String {
        let [object, _] = self.source.words();
        let of = if error.file == self.source.place() { "source" } else { object };
        match error.kept {
            0 => format!("no resource of the {of} is served"),
            kept => format!(
                "the last valid state of the {of} stays in use: {}",
                count(kept as u64, "resource")
            ),
        }
    }
}

impl ServePrinter for Table {
    fn print(&mut self, event: ServeEvent<'_>) -> Result<(), Failure> {
        match event {
            ServeEvent::Serving {
                directory,
                listen,
                rest,
                csds,
                metrics,
                export,
                resources,
                is_ready,
            } => {
                let directory = escaped(&directory.display().to_string());
                let rest = rest.map(|at| format!(", REST-JSON on {at}")).unwrap_or_default();
                let csds = csds.map(|at| format!(", CSDS on {at}")).unwrap_or_default();
                let metrics = metrics.map(|at| format!(", metrics on http://{at}/metrics"));
                let metrics = metrics.unwrap_or_default();
                let export = export.map(|to| {
                    let to = escaped(&to.display().to_string());
                    format!(", exporting to {to} (files with secrets have mode 0600)")
                });
                let export = export.unwrap_or_default();
                let line = format!("serving {directory} on {listen}{rest}{csds}{metrics}{export}");
                output::offer(&self.layout.fold(&line))?;
                if is_ready {
                    self.print_line(&count(resources as u64, "resource"))
                } else {
                    Ok(())
                }
            }
            ServeEvent::NotReady { files } => {
                let word = self.err.notable("not ready");
                output::print_to_stderr(&format!("{word}: {}", awaited(files, &self.source)));
                Ok(())
            }
            ServeEvent::Ready { resources } => {
                self.print_line(&format!("ready: {}", count(resources as u64, "resource")))
            }
            ServeEvent::FileError(error) => {
                let kept = self.kept(error);
                let Problems { first, more } = &error.problems;
                let mut lines: Vec<_> = first.iter().map(|it| it.line(self.err)).collect();
                if *more > 0 {
                    lines.push(format!("       and {}", count(*more as u64, "more error")));
                }
                output::print_to_stderr(&format!("{}\n       {kept}", lines.join("\n")));
                Ok(())
            }
            ServeEvent::Repaired(file) => {
                let is_source = file == self.source.place();
                let word = if is_source { "can be read again" } else { "valid again" };
                let (word, file) = (self.out.good(word), file.display().to_string());
                self.print_line(&format!("{word}: {}", escaped(&file)))
            }
            ServeEvent::InvalidSettings(errors) => {
                let lines: Vec<_> = errors.iter().map(|it| it.line(self.err)).collect();
                output::print_to_stderr(&lines.join("\n"));
                Ok(())
            }
            ServeEvent::ViewsRejected => {
                let error = self.err.bad("error");
                output::print_to_stderr(&format!(
                    "{error}: the changed views are not used, because their resources are rejected\n       \
                     the last views stay in use"
                ));
                Ok(())
            }
            ServeEvent::ViewsUsed(MovedClients { moved, refused }) => {
                let moved = count(moved as u64, "client");
                let refused = match refused {
                    0 => String::new(),
                    refused => format!(", {} refused", count(refused as u64, "client")),
                };
                self.print_line(&format!("views reloaded: {moved} moved{refused}"))
            }
            ServeEvent::Finding(finding) => {
                let mut finding = finding.clone();
                if finding.level == Level::Error {
                    finding.level = Level::Warning;
                }
                output::print_to_stderr(&finding.line(self.err));
                Ok(())
            }
            ServeEvent::Refused { refused, source, resources } => {
                let error = self.err.bad("error");
                let (violated, details) = (violated(&refused.change), details(refused, source));
                let stays = match resources {
                    0 => "nothing is served".to_owned(),
                    _ => format!(
                        "the served state is unchanged: {}",
                        count(resources as u64, "resource")
                    ),
                };
                output::print_to_stderr(&format!(
                    "{error}: refused: {violated}\n       {details}\n       {stays}"
                ));
                Ok(())
            }
            ServeEvent::Forced(change) => {
                let warning = self.err.notable("warning");
                let (id, violated) = (change.id, violated(change));
                output::print_to_stderr(&format!("{warning}: change {id} is forced: {violated}"));
                Ok(())
            }
            ServeEvent::Reloaded { resources, applied, changes } => {
                let head = format!(
                    "reloaded: {} changed, {} removed, {}",
                    applied.changed,
                    applied.removed,
                    count(resources as u64, "resource")
                );
                self.print_line(&(head + &listed(changes, self.out)))
            }
            // The sums are metrics.
            ServeEvent::LoadReport(_) => Ok(()),
            ServeEvent::RolloutBegins { rollout, changes } => {
                let head = format!("rollout {} begins", rollout.0);
                self.print_line(&(head + &listed(changes, self.out)))
            }
            ServeEvent::Rollout(progress) => {
                let lines = progress_lines(progress).join("\n       ");
                match progress.phase {
                    RolloutPhase::Halted | RolloutPhase::RolledBack => {
                        let error = self.err.bad("error");
                        output::print_to_stderr(&format!("{error}: {lines}"));
                        Ok(())
                    }
                    _ => self.print_line(&lines),
                }
            }
            ServeEvent::Status(changes) => {
                let line = match changes.rows.chunk_by(|a, b| a.stream == b.stream).count() {
                    0 => self.line("no clients"),
                    streams => self.line(&count(streams as u64, "stream")),
                };
                let table = match self.redraw.is_on() {
                    _ if changes.rows.is_empty() => String::new(),
                    true => table_within(redraw::columns(), &changes.rows, self.out),
                    false => table(&changes.changed, self.out),
                };
                let block = format!("{line}\n{table}");
                output::print(&match self.redraw.is_on() {
                    true => self.redraw.replace(&block),
                    false => block,
                })
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

/// Describes what a server that is not ready waits for.
pub(super) fn awaited(files: &[PathBuf], source: &SourceAddress) -> String {
    let (named, [_, objects]) = (named(files), source.words());
    match files {
        [file] if *file == source.place() => {
            format!("nothing is served until {named} has been read")
        }
        _ => {
            format!("nothing is served until each of these {objects} has been valid once: {named}")
        }
    }
}

/// Number of characters of a line with the names of changed resources.
const LINE: usize = 78;

/// Lists the changed resources below a line: one line for each kind of change and type, with the
/// names that fit.
fn listed(changes: &ChangedResources, style: Style) -> String {
    let mut text = String::new();
    let kinds = [
        (style.good("+"), &changes.added),
        (style.notable("~"), &changes.changed),
        (style.bad("-"), &changes.removed),
    ];
    for (sign, keys) in kinds {
        for of_type in keys.chunk_by(|a, b| a.type_url == b.type_url) {
            text += &format!("\n  {sign} {}", folded(of_type));
        }
    }
    text
}

/// Formats resources of one type: `cds a, b and 7 more`.
fn folded(keys: &[Key]) -> String {
    let mut line =
        keys.first().map(|it| type_name(it.type_url.as_str())).unwrap_or_default().to_owned();
    for (at, key) in keys.iter().enumerate() {
        let name = escaped(key.name.as_str());
        let more = format!(" and {} more", keys.len() - at);
        let is_last = at + 1 == keys.len();
        let reserved = if is_last { 0 } else { more.len() };
        if at > 0 && line.chars().count() + name.chars().count() + 2 + reserved > LINE {
            return line + &more;
        }
        line += if at == 0 { " " } else { ", " };
        line += &name;
    }
    line
}

/// Describes a refused change below its first line: what it concerns, and how to serve it.
fn details(refused: &Refused, source: &SourceAddress) -> String {
    let [_, objects] = source.words();
    let at = refused.revision.map(|it| format!(" at revision {it}")).unwrap_or_default();
    let mut text = match refused.objects.is_empty() {
        true => String::new(),
        false => format!("changed {objects}{at}: {}\n       ", named(&refused.objects)),
    };
    text += &refused.remedy(source);
    let others = refused.stated.ids.iter().filter(|id| **id != refused.change.id);
    let others: Vec<_> = others.map(ToString::to_string).collect();
    if !others.is_empty() {
        let others = others.join(", ");
        text += &format!(
            "\n       not forced by {others}, which was used or belongs to another change"
        );
    }
    for word in refused.stated.invalid.iter().take(MOST_FILES) {
        let word = one_line(word, 40);
        text += &format!("\n       not forced by `{word}`: {InvalidChangeId}");
    }
    text
}

/// Lists the rules that a change violates.
fn violated(change: &RefusedChange) -> String {
    let violations: Vec<_> = change.violations.iter().map(|it| escaped(&it.to_string())).collect();
    violations.join("\n       ")
}

impl Table {
    fn print_line(&mut self, text: &str) -> Result<(), Failure> {
        let line = self.line(text);
        output::offer(&self.redraw.above(&line))
    }

    fn line(&self, text: &str) -> String {
        let line = format!("{} {text}", self.out.quiet(self.layout.time()));
        self.layout.fold(&line).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use xds_core::types;

    use super::*;

    fn keys(type_url: &str, names: &[&str]) -> Vec<Key> {
        let key = |name: &&str| Key { type_url: type_url.into(), name: (*name).into() };
        names.iter().map(key).collect()
    }

    #[test]
    fn changed_resources_are_listed_by_kind_and_type() {
        let mut changes = ChangedResources {
            added: keys(types::CLUSTER, &["a", "b"]),
            removed: keys(types::LISTENER, &["l"]),
            ..ChangedResources::default()
        };
        changes.added.extend(keys(types::CLUSTER_LOAD_ASSIGNMENT, &["a"]));
        assert_eq!(listed(&changes, Style::PLAIN), "\n  + cds a, b\n  + eds a\n  - lds l");
    }

    #[test]
    fn messages_name_the_objects_of_the_source() {
        let shown = |source: &str, object: &str| {
            let source: SourceAddress = source.parse().unwrap();
            let place = source.place();
            let plain = Style::PLAIN;
            let table = Table::new(plain, plain, Layout::Plain, Redraw::on_terminal(), source);
            let file = PathBuf::from(object);
            let error = |file, kept| FileError { file, problems: Problems::default(), kept };
            [
                table.kept(&error(file.clone(), 1)),
                table.kept(&error(place.clone(), 0)),
                awaited(&[file], &table.source),
                awaited(&[place], &table.source),
            ]
        };
        assert_eq!(
            shown("etcd://a:1/x", "/x/default/cds/a"),
            [
                "the last valid state of the key stays in use: 1 resource",
                "no resource of the source is served",
                "nothing is served until each of these keys has been valid once: /x/default/cds/a",
                "nothing is served until etcd://a:1/x has been read",
            ]
        );
        assert!(shown("kube://", "ConfigMap n/c")[2].contains("each of these objects"));
        assert!(shown("config", "config/a.yaml")[2].contains("each of these files"));
    }

    #[test]
    fn many_changed_resources_are_folded() {
        let names: Vec<_> = (0..1_000).map(|at| format!("cluster-{at:04}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let line = folded(&keys(types::CLUSTER, &names));
        assert_eq!(line, "cds cluster-0000, cluster-0001, cluster-0002, cluster-0003 and 996 more");
        assert_eq!(folded(&keys(types::CLUSTER, &["a"])), "cds a");
    }
}
