//! Test of the commands in the documents of the repository: their arguments must be valid.
//!
//! A command is a line `$ xds ...` or `$ cargo run ... -- ...` in a block of the kind `console`, or an
//! indented line `xds ...`.

use std::{fs, path::Path};

use clap::{Parser as _, error::ErrorKind};

use super::Cli;

/// Files and folders with documents, relative to the root.
const PLACES: [&str; 4] = ["README.md", "xds-cli/README.md", "docs", "docs/book/src"];

/// Command in a document.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// Line number, from 1.
    line: usize,
    /// Arguments after `xds`.
    arguments: Vec<String>,
}

/// Returns the `xds` commands in a document.
fn commands(text: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(kind.trim()) };
            continue;
        }
        let start = match fence {
            Some("console") => line.strip_prefix("$ "),
            None => line.strip_prefix("    ").filter(|line| line.starts_with("xds ")),
            Some(_) => None,
        };
        let Some(start) = start else { continue };
        let mut command = start.to_owned();
        while let Some(joined) = command.strip_suffix('\\') {
            command = format!("{joined}{}", lines.next().map_or("", |(_, line)| line));
        }
        found.extend(arguments(&command).map(|arguments| Found { line: index + 1, arguments }));
    }
    found
}

/// Returns the arguments of `xds` in a shell command, or `None` if it runs another program.
fn arguments(command: &str) -> Option<Vec<String>> {
    let words = words(command);
    let is_assignment = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        })
    };
    let mut words = words.iter().skip_while(is_assignment);
    let rest = match words.next()?.as_str() {
        "xds" => words,
        "cargo" => {
            words.clone().find(|word| *word == "xds-cli")?;
            words.next().filter(|word| *word == "run")?;
            words.find(|word| *word == "--")?;
            words
        }
        _ => return None,
    };
    Some(rest.cloned().collect())
}

/// Splits a command into words, up to a comment, a pipe, a redirection or another command. Quotes are
/// removed; nothing is expanded.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (c, quote) {
            (c, Some(end)) if c == end => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('|' | '>' | '<' | '&' | ';', None) => break,
            ('#', None) if word.is_none() => break,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Returns the reason why clap rejects the arguments.
fn fault(arguments: &[String]) -> Option<String> {
    let program = [String::from("xds")];
    let error = Cli::try_parse_from(program.iter().chain(arguments)).err()?;
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_help).then(|| error.to_string().lines().next().unwrap_or_default().into())
}

#[test]
fn commands_in_documents_have_valid_arguments() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut documents = Vec::new();
    for place in PLACES.map(|place| root.join(place)) {
        if place.is_dir() {
            let entries = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path());
            documents.extend(entries.filter(|path| path.extension().is_some_and(|it| it == "md")));
        } else {
            documents.push(place);
        }
    }
    documents.sort();
    let (mut count, mut faults) = (0, Vec::new());
    for path in documents {
        for Found { line, arguments } in commands(&fs::read_to_string(&path).unwrap()) {
            count += 1;
            if let Some(fault) = fault(&arguments) {
                let command = arguments.join(" ");
                faults.push(format!("{}:{line}: xds {command}: {fault}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 20, "{count} commands");
}

#[test]
fn commands_are_found_in_console_blocks_and_indented_lines() {
    let text = "```console\n$ xds check a \\\n    --validate # really\nxds: output\n$ ls xds\n\
                $ A=1 cargo run -p xds-cli -- sim run --options \"a b\" | head\n```\n\n    \
                xds demo > out\n\n```\n$ xds gone\n```\n";
    let found = commands(text).into_iter().map(|it| (it.line, it.arguments.join("+")));
    let expected = [(2, "check+a+--validate"), (6, "sim+run+--options+a b"), (9, "demo")];
    assert_eq!(found.collect::<Vec<_>>(), expected.map(|(line, it)| (line, it.into())));
}

#[test]
fn invalid_arguments_are_faults() {
    let of = |command: &str| fault(&words(command));
    assert_eq!(of("check --help"), None);
    assert_eq!(of("watch --server localhost:1 cds"), None);
    assert_eq!(of("get cds -o table"), None);
    assert!(of("watch").is_some());
    assert!(of("chek a").is_some_and(|fault| fault.contains("chek")));
}
