//! `xds compat`: incompatible changes between two versions of a schema.

use std::{fs, io, path::Path};

use clap::ColorChoice;
use serde_json::{Value as Json, json};
use xds_format::{Axis, Break, Schema, compare};

use crate::{
    args::{CompatArgs, CompatOutput},
    failure::{Failure, judged},
    output::{self, Layout},
    style::Style,
    text::{count, escaped},
};

pub(crate) fn run(args: CompatArgs, color: ColorChoice) -> Result<(), Failure> {
    let (old, new) = (schema(&args.old)?, schema(&args.new)?);
    let mut found = compare(&old, &new);
    for it in &mut found {
        it.broken = args.ignore.iter().fold(it.broken, |axes, axis| axes.without(*axis));
    }
    found.retain(|it| !it.broken.is_empty());

    let breaks = found.iter().filter(|it| it.counts()).count();
    let verdict = match u32::try_from(breaks).unwrap_or(u32::MAX) {
        0 => Ok(()),
        breaks => Err(Failure::Incompatible(breaks)),
    };
    let printed = match args.output {
        CompatOutput::Text => print_text(&found, color),
        CompatOutput::Ndjson => {
            found.iter().try_for_each(|it| output::print(&object(it).to_string()))
        }
    };
    judged(printed, verdict)
}

fn print_text(found: &[Break], color: ColorChoice) -> Result<(), Failure> {
    let (style, layout) = (Style::of(color, &io::stdout()), Layout::of_stdout());
    for it in found {
        let text = escaped(&it.to_string());
        let line = match it.counts() {
            true => format!("{}: {text}", style.bad("break")),
            false => format!("{}: {text}", style.notable("exempt")),
        };
        output::print(&layout.fold(&line))?;
    }
    output::print(&summary(found))
}

fn schema(file: &Path) -> Result<Schema, Failure> {
    let set = fs::read(file).map_err(|why| Failure::Unreadable { file: file.to_owned(), why })?;
    if set.is_empty() {
        return Err(Failure::EmptyDescriptors { file: file.to_owned() });
    }
    Ok(Schema::from_descriptor_set(&set)
        .map_err(|why| why.in_file(&escaped(&file.display().to_string())))?)
}

/// Formats the number of breaks, such as `2 breaks: text 2, code 1`.
fn summary(found: &[Break]) -> String {
    let breaks: Vec<_> = found.iter().filter(|it| it.counts()).collect();
    let by_axis: Vec<_> = Axis::ALL
        .into_iter()
        .map(|axis| (axis, breaks.iter().filter(|it| it.broken.contains(axis)).count()))
        .filter(|(_, number)| *number > 0)
        .map(|(axis, number)| format!("{axis} {number}"))
        .collect();
    let total = count(breaks.len() as u64, "break");
    if by_axis.is_empty() { total } else { format!("{total}: {}", by_axis.join(", ")) }
}

/// Formats a finding as an event. Each axis is `broken` or `kept`.
fn object(found: &Break) -> Json {
    let axes = Axis::ALL.into_iter().map(|axis| {
        let state = if found.broken.contains(axis) { "broken" } else { "kept" };
        (axis.id().to_owned(), Json::from(state))
    });
    json!({
        "event": if found.counts() { "break" } else { "exempt" },
        "element": found.element,
        "rule": found.rule.id(),
        "change": found.change,
        "axes": axes.collect::<Json>(),
        "exemption": found.exemption.map(|it| it.to_string()),
    })
}
