//! The documentation shows the real output of an example.

use std::{env, fs, path::Path};

use crate::failure;

#[path = "../../examples/stack_stale_map.rs"]
#[allow(dead_code, reason = "the main function of the example")]
mod stack_stale_map;

/// Texts of the lines that the page leaves out.
const LEFT_OUT: [&str; 8] = [
    " arrives, ",
    " is lost: ",
    "DATA stream",
    "HEADERS stream",
    "HTTP/2 preface",
    "PING",
    "SETTINGS",
    "WINDOW_UPDATE",
];

const EXAMPLE: &str = include_str!("../../examples/stack_stale_map.rs");

/// Returns the first block after a text, without its marks.
fn block<'a>(page: &'a str, after: &str) -> &'a str {
    let (_, rest) = page.split_once(after).expect("the text");
    let (_, rest) = rest.split_once("```").expect("a block");
    let (_, rest) = rest.split_once('\n').expect("a block");
    rest.split_once("\n```").expect("the end of the block").0
}

#[test]
fn bug_of_the_example_is_found_as_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/SIMULATION.md");
    let page = fs::read_to_string(&path).expect("the page");
    let shown = block(&page, "**A bug that is found.**");
    assert!(EXAMPLE.contains(shown), "the page shows a part of the example:\n{shown}");

    let output = failure(|| _ = stack_stale_map::check(|_| {}));
    let is_shown = |line: &&str| !LEFT_OUT.iter().any(|text| line.contains(text));
    let lines: Vec<_> = output.lines().map(str::trim_end).filter(is_shown).collect();
    let output = lines.join("\n");
    assert!(output.contains("application-ends"), "{output}");
    const MARK: &str = "--test stack documented`";
    let shown = block(&page, MARK);
    if env::var_os("UPDATE").is_some() {
        let page =
            page.replace(&format!("```text\n{shown}\n```"), &format!("```text\n{output}\n```"));
        return fs::write(path, page).expect("the page");
    }
    assert_eq!(shown, output, "UPDATE=1 renews docs/SIMULATION.md");
}

#[test]
fn fix_of_the_example_passes_every_seed() {
    let summary = stack_stale_map::check(std::collections::BTreeSet::clear);
    assert_eq!(summary.runs, 500);
}
