//! `xds convert`: conversion of resources and messages between formats.

mod input;
mod print;
mod target;

use std::io::{self, IsTerminal as _};

use xds_core::types;
use xds_format::{ErrorKind, Format, FormatError, TypedMessage, parse_messages};

use self::{
    input::Input,
    print::{Printed, Printer},
};
use crate::{
    args::ConvertArgs,
    diagnostic::option_for,
    failure::Failure,
    output,
    schema::{self, schema},
    text::count,
};

/// Number of messages that an error about an ambiguous name lists.
const MOST_NAMES: usize = 5;

pub(crate) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let to = target_format(args)?;
    let untyped = args.message_type.as_deref().map(full_name).transpose()?;
    let file = args.output.as_ref().filter(|it| it.as_os_str() != "-");
    let is_printed = file.is_none() && !args.check;
    if is_printed && to == Format::Binary && io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "binary output is not printed on a terminal: write it to a file with -o FILE, or \
             redirect it"
                .to_owned(),
        ));
    }
    let input = Input::read(&args.input, args.from)?;
    let parse = |format, content: &[u8]| {
        let untyped = untyped.as_deref();
        parse_messages(schema(), &input.name, untyped, format, content, schema::FILES)
    };
    let messages = parse(input.format, &input.content).map_err(|why| invalid(why, args))?;
    let printer = Printer { source: &input.name, untyped: untyped.as_deref(), to };
    let total = messages.len() as u64;
    let printed = printer.print(messages)?;
    if args.check {
        let again = parse(to, &printed.content).map_err(|why| {
            Failure::Convert(format!("the {to} output cannot be read back: {why}"))
        })?;
        return output::print(&report(&input.name, total, to, &printed, &again)?);
    }
    match file {
        Some(file) => target::write(file, &printed.content, &printed.messages)
            .map_err(|why| Failure::Artifact { file: file.clone(), why }),
        None => output::print_bytes(printed.content),
    }
}

/// Returns the format of `--to`, or of the suffix of the output file.
fn target_format(args: &ConvertArgs) -> Result<Format, Failure> {
    match (args.to, &args.output) {
        (Some(format), _) => Ok(format.into()),
        (None, Some(file)) => Format::from_path(file)
            .map_err(|why| Failure::Usage(format!("{why}; or state the format with --to"))),
        (None, None) => Err(Failure::Usage(
            "the format of the output is missing: use --to yaml, json, textproto or binary"
                .to_owned(),
        )),
    }
}

/// Returns the full name of a message type given as `--type`.
fn full_name(given: &str) -> Result<String, Failure> {
    let url = types::by_short_name(given).unwrap_or(given);
    let name = url.rsplit_once('/').map_or(url, |(_, name)| name);
    if schema().message(name).is_some() {
        return Ok(name.to_owned());
    }
    let all = schema().pool().all_messages();
    // Nested messages need their full names. Map entries are nested, too.
    let mut same: Vec<_> = all
        .filter(|message| message.name() == name && message.parent_message().is_none())
        .map(|message| message.full_name().to_owned())
        .collect();
    same.sort();
    match &same[..] {
        [only] => Ok(only.clone()),
        [] => Err(Failure::Usage(format!(
            "--type {given}: unknown type: expected lds, rds, srds, vhds, cds, eds, sds, ecds, \
             rtds, a type URL, or the name of a message such as envoy.config.bootstrap.v3.Bootstrap"
        ))),
        several => {
            let more = if several.len() > MOST_NAMES { ", .." } else { "" };
            let names = several.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>();
            Err(Failure::Usage(format!(
                "--type {given}: several messages have this name: {}{more}",
                names.join(", ")
            )))
        }
    }
}

/// Adds the option that helps to an error of the input.
fn invalid(why: FormatError, args: &ConvertArgs) -> Failure {
    let states_no_type = matches!(why.kind(), ErrorKind::UnexpectedShape { .. });
    match args.message_type {
        None if states_no_type => {
            Failure::Convert(format!("{why}; --type states the type of a message without `@type`"))
        }
        _ => Failure::Convert(format!("{why}{}", option_for(why.kind()))),
    }
}

/// Compares the converted messages with the output that was read back.
fn report(
    name: &str,
    total: u64,
    to: Format,
    printed: &Printed,
    again: &[TypedMessage],
) -> Result<String, Failure> {
    if let Some(path) = print::first_difference(&printed.messages, again)? {
        return Err(Failure::Convert(format!("{name}: {to} changes the value of {path}")));
    }
    let same_bytes = printed.messages.iter().zip(again).all(|(a, b)| a.bytes == b.bytes);
    let order = match same_bytes {
        true => "",
        false => "; converted back, the bytes are in another order than in the input",
    };
    let total = count(total, "message");
    Ok(format!("{name}: {total}, nothing is lost in {to}{order}"))
}
