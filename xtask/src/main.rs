//! Developer commands, run as `cargo xtask <command>`.
//!
//! `gen` generates from the schema under `proto/` the Rust code of `xds-core` and `xds-routing`,
//! and the descriptor set of `xds-format` for the messages without code. The output is checked in,
//! so that neither users nor docs.rs need a protobuf compiler, and so that reviews show the
//! generated code of a schema change. `gen --check` compares instead of writing; the test in
//! [`codegen`] does the same on every `cargo test --workspace`.
//!
//! `coverage` runs the tests and lists the requirements that passing tests cover. `mutants` applies
//! known bugs to a copy of the repository and checks that the tests fail. `sizes` counts the lines
//! of code of the adapters and of the management server.
//!
//! `rule` prints the rule of an id, and `requirements` generates the document with all
//! rules. `structure` and `language` check the layout of the crates and the wording of their
//! documentation, and `links` the links of all Markdown files; tests do the same on every
//! `cargo test --workspace`.
//!
//! `crates` draws the diagram of the crates.

mod codegen;
mod coverage;
mod crates;
mod descriptors;
#[cfg(test)]
mod features;
mod language;
mod links;
mod mutants;
#[cfg(test)]
mod public_api;
mod repository;
mod rules;
mod services;
mod sizes;
mod source;
mod structure;

use std::env;
use std::process::ExitCode;

use repository::{error::Error, print, root};

const USAGE: &str = "\
usage: cargo xtask <command>

commands:
  gen            regenerate the code of xds-core and xds-routing and the descriptors of xds-format from proto/
  gen --check    fail if what is checked in differs from what gen would write
  coverage [--missing] [--strict] [--from FILE]
                 run the tests; list which requirements they cover, and why others are not.
                 --missing lists only those; --strict fails if one of them has no reason;
                 --from reads what `cargo test --workspace -- --show-output` printed instead
  mutants [NUMBER..]
                 apply each bug of tests/mutants/ to a copy of the checkout, list the tests that
                 detect it, and fail if none does
  rule ID..      print what each id means, its public sources, and the code and tests that cite it
  requirements   regenerate docs/REQUIREMENTS.md from tests/coverage/
  structure [--all] [--prune]
                 list imports against the order of folders, cycles and repeated type names.
                 --all lists the exceptions too; --prune removes those that are not needed
  language [--all] [--prune] [PATH..]
                 list doc comments and type names that break the rules of wording.
                 --all lists the exceptions too, or PATH those of some files;
                 --prune lowers the accepted numbers to the present ones
  links [DIR]    list links in Markdown files whose target or heading does not exist, and those in
                 the HTML files of DIR, a built book
  crates         regenerate docs/pictures/crates.svg, the diagram of the crates
  sizes          list how long the adapters and the management server are, in lines of code, and
                 how long they should be";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();

    let outcome = match args.as_slice() {
        ["gen"] => codegen::write(&root()).map(Some),
        ["gen", "--check"] => codegen::check(&root()).map(Some),
        ["coverage", rest @ ..] => match coverage::Options::parse(rest) {
            Some(options) => coverage::run(&root(), options).map(Some),
            None => Err(Error::Usage { given: args.join(" ") }),
        },
        ["mutants", rest @ ..] => match rest.iter().map(|number| number.parse()).collect() {
            Ok::<Vec<u32>, _>(numbers) => mutants::run(&root(), &numbers).map(Some),
            Err(_) => Err(Error::Usage { given: args.join(" ") }),
        },
        ["rule", ids @ ..] if !ids.is_empty() => rules::lookup::run(&root(), ids).map(Some),
        ["requirements"] => rules::requirements::write(&root()).map(Some),
        ["structure"] => structure::run(&root(), structure::Mode::Check).map(Some),
        ["structure", "--all"] => structure::run(&root(), structure::Mode::All).map(Some),
        ["structure", "--prune"] => structure::run(&root(), structure::Mode::Prune).map(Some),
        ["language", rest @ ..] => match language::LanguageOptions::parse(rest) {
            Some(options) => language::run(&root(), &options).map(Some),
            None => Err(Error::Usage { given: args.join(" ") }),
        },
        ["links"] => links::run(&root(), None).map(Some),
        ["links", book] if !book.starts_with('-') => links::run(&root(), Some(book)).map(Some),
        ["crates"] => crates::write(&root()).map(Some),
        ["sizes"] => sizes::tables(&root()).map(Some),
        [] | ["help" | "--help" | "-h"] => Ok(None),
        _ => Err(Error::Usage { given: args.join(" ") }),
    };

    match outcome {
        Ok(summary) => print(summary.as_deref().unwrap_or(USAGE)),
        Err(error) => {
            eprintln!("error: {error}");
            if matches!(error, Error::Usage { .. }) {
                eprintln!("\n{USAGE}");
            }
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
