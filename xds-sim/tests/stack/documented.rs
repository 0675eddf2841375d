//! The documentation shows the real output of an example.

use std::{env, fs, path::Path};

use core::time::Duration;

use tokio::time::{sleep, timeout};
use xds_core::{service::Variant, types::CLUSTER};
use xds_sim::stack::{Stage, check::check};

use crate::{
    failure,
    pair::{Served, client, value},
};

#[path = "../../examples/stack_stale_map.rs"]
#[allow(dead_code, reason = "the main function of the example")]
mod stack_stale_map;

/// Texts of the lines that the page leaves out.
const LEFT_OUT: [&str; 9] = [
    "files: ",
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
    let test = "documented::bug_of_the_example_is_found_as_documented";
    let output = lines.join("\n").replace(test, "NAME_OF_THE_TEST");
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
fn scenario_of_the_page_runs() {
    let summary = check(0..20, &async |stage: &Stage| {
        let served = Served::start(stage, "server");
        let near = stage.host("client");
        let mut watch =
            client(&near, &["server"], Variant::Incremental).watch_untyped(CLUSTER, "web");
        served.set("web", "old").await;
        sleep(Duration::from_secs(stage.below("wait", 30).into())).await;
        match stage.below("fault", 3) {
            0 => stage.reset(&near, &served.host),
            1 => stage.lose_connections(&near, &served.host),
            _ => stage.partition(&near, &served.host),
        }
        served.set("web", "new").await;
        sleep(Duration::from_secs(20)).await;
        stage.heal(&near, &served.host);
        let change = value(&mut watch, "web", "new");
        timeout(Duration::from_secs(100), change).await.expect("the change arrives in 100 s");
    });
    assert_eq!(summary.runs, 20);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/SIMULATION.md");
    let page = fs::read_to_string(&path).expect("the page");
    let shown = block(&page, "`xds-sim/tests/stack/documented.rs`");
    let own: Vec<_> = include_str!("documented.rs").lines().map(str::trim).collect();
    let shown: Vec<_> = shown.lines().map(str::trim).collect();
    assert!(own.windows(shown.len()).any(|lines| lines == shown), "it is a part of this file");
}

#[test]
fn fix_of_the_example_passes_every_seed() {
    let summary = stack_stale_map::check(std::collections::BTreeSet::clear);
    assert_eq!(summary.runs, 500);
}
