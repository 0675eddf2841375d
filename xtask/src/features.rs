//! Test of the table of gRFCs in `xds/FEATURES.md`: every gRFC of the sources has a row, a status, and
//! tests that exist.

use std::fs;
use std::path::Path;

use crate::repository::root;

const TABLE: &str = "xds/FEATURES.md";
const SOURCES: &str = "tests/coverage/sources.txt";

/// Row of the table.
#[derive(Debug)]
struct Row<'a> {
    /// Number of the gRFC, such as `A27`.
    id: &'a str,
    url: &'a str,
    status: &'a str,
    difference: &'a str,
    tests: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let cells: Vec<_> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let [name, status, rest, ""] = cells[..] else { return None };
        // The difference, then the tests in backticks. The difference may contain code too.
        let is_path = |span: &&str| span.contains('/');
        let tests: Vec<_> = rest.split('`').skip(1).step_by(2).filter(is_path).collect();
        let difference =
            tests.first().and_then(|path| rest.split_once(path)).map_or(rest, |it| it.0);
        let difference = difference.trim_end_matches('`').trim();
        let (id, link) = name.strip_prefix('[')?.split_once("](")?;
        let (url, _topic) = link.split_once(") ")?;
        Some(Self { id, url, status, difference, tests })
    }

    /// Returns the faults of the row.
    fn faults(&self, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let mut found = Vec::new();
        match self.status {
            "yes" => {}
            "partly" if self.difference.is_empty() => found.push("lacks the difference".into()),
            "partly" => {}
            "no" => return found,
            status => return vec![format!("has the unknown status {status:?}")],
        }
        if self.tests.is_empty() {
            found.push("names no test".into());
        }
        for path in &self.tests {
            match read(path) {
                None => found.push(format!("names {path}, which does not exist")),
                Some(text) if !is_test(path, &text) => {
                    found.push(format!("names {path}, which contains no test"));
                }
                Some(_) => {}
            }
        }
        found
    }
}

/// Whether a file is a protocol script, or Rust code with a test.
fn is_test(path: &str, text: &str) -> bool {
    match path.ends_with(".txt") {
        true => path.starts_with("tests/scripts/") && text.contains("covers:"),
        false => text.contains("#[test]") || text.contains("#[tokio::test"),
    }
}

fn read(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path)).ok()
}

#[test]
fn each_grfc_has_a_status_and_tests_that_exist() {
    let root = root();
    let (table, sources) = (read(&root, TABLE).unwrap(), read(&root, SOURCES).unwrap());
    let rows: Vec<_> = table.lines().filter_map(Row::parse).collect();
    let expected: Vec<_> = sources
        .lines()
        .filter_map(|line| {
            let mut cells = line.split(" | ");
            let (id, _, url) = (cells.next()?, cells.next()?, cells.next()?);
            url.starts_with("https://github.com/grpc/proposal/").then_some((id, url))
        })
        .collect();
    let found: Vec<_> = rows.iter().map(|row| (row.id, row.url)).collect();
    assert_eq!(found, expected, "{TABLE} has the gRFCs of {SOURCES}, in their order");
    let faults: Vec<_> = rows
        .iter()
        .flat_map(|row| {
            let faults = row.faults(|path| read(&root, path));
            faults.into_iter().map(|fault| format!("{} {fault}", row.id))
        })
        .collect();
    assert!(faults.is_empty(), "{TABLE}:\n{}", faults.join("\n"));
}

#[test]
fn incomplete_rows_are_found() {
    let faults = |line| {
        let read = |path: &str| (path == "t/a.rs").then(|| "#[test]".into());
        Row::parse(line).unwrap().faults(read)
    };
    assert_eq!(faults("| [A1](u) t | yes | `t/a.rs` |"), [""; 0]);
    assert_eq!(faults("| [A1](u) t | yes | As `b`. `t/a.rs` |"), [""; 0]);
    assert_eq!(faults("| [A1](u) t | partly | Not `b`. `t/a.rs` |"), [""; 0]);
    assert_eq!(faults("| [A1](u) t | no | |"), [""; 0]);
    assert_eq!(faults("| [A1](u) t | yes | Only `b`. |"), ["names no test"]);
    assert_eq!(faults("| [A1](u) t | partly | `t/a.rs` |"), ["lacks the difference"]);
    assert_eq!(faults("| [A1](u) t | maybe | |"), ["has the unknown status \"maybe\""]);
    let missing = ["names t/b.rs, which does not exist"];
    assert_eq!(faults("| [A1](u) t | yes | `t/a.rs`, `t/b.rs` |"), missing);
    assert!(Row::parse("| gRFC | status | differences; tests |").is_none());
}
