//! Lines of code of the adapters and of the management server, which should stay short enough to
//! understand.
//!
//! Blank lines, comments, documentation and code for tests are not counted. Every file of an
//! adapter belongs to one part, so that no file grows unnoticed.

mod server;

use core::fmt::Write as _;
use std::path::Path;

use crate::repository::{error::Error, tree::Tree};

/// Part of an adapter.
struct Measured {
    name: &'static str,
    /// Intended maximum number of lines, if any.
    aim: Option<usize>,
    /// Files, or folders ending in `/`, relative to the root. The longest matching path counts.
    files: &'static [&'static str],
}

const fn part(name: &'static str, aim: usize, files: &'static [&'static str]) -> Measured {
    Measured { name, aim: Some(aim), files }
}

const fn apart(name: &'static str, files: &'static [&'static str]) -> Measured {
    Measured { name, aim: None, files }
}

const PARTS: [Measured; 21] = [
    part(
        "gRPC client: driver loop and transport",
        450,
        &["xds-grpc/src/client/driver.rs", "xds-grpc/src/client/link.rs"],
    ),
    part(
        "gRPC server: driver loop and transport",
        450,
        &[
            "xds-grpc/src/server/driver/mod.rs",
            "xds-grpc/src/server/driver/streams.rs",
            "xds-grpc/src/server/driver/inbox.rs",
            "xds-grpc/src/server/driver/requests.rs",
            "xds-grpc/src/server/driver/body.rs",
            "xds-grpc/src/server/service/mod.rs",
            "xds-grpc/src/server/service/routes.rs",
        ],
    ),
    part("REST client", 350, &["xds-rest/src/poller.rs", "xds-rest/src/json.rs"]),
    part(
        "REST server",
        350,
        &[
            "xds-rest/src/gateway.rs",
            "xds-rest/src/grpc.rs",
            "xds-rest/src/printed.rs",
            "xds-rest/src/status.rs",
            "xds-rest/src/lib.rs",
        ],
    ),
    part("files", 250, &["xds-fs/src/"]),
    apart("gRPC: listeners and connections", &["xds-grpc/src/server/connections/"]),
    apart("gRPC: identity and authorization of clients", &["xds-grpc/src/server/access/"]),
    apart("gRPC: memory budgets", &["xds-grpc/src/server/memory/"]),
    apart(
        "gRPC: other parts of the server's driver",
        &["xds-grpc/src/server/driver/", "xds-grpc/src/server/calls/"],
    ),
    apart("gRPC: shared by both sides", &["xds-grpc/src/"]),
    apart(
        "gRPC: credentials, TLS",
        &["xds-grpc/src/credentials/", "xds-grpc/src/tls.rs", "xds-grpc/src/tls_advice.rs"],
    ),
    apart("gRPC: CSDS", &["xds-grpc/src/csds/"]),
    apart("gRPC: health", &["xds-grpc/src/server/calls/health.rs"]),
    apart(
        "gRPC: logs",
        &[
            "xds-grpc/src/client/log.rs",
            "xds-grpc/src/server/driver/log.rs",
            "xds-grpc/src/shorthand/",
            "xds-grpc/src/payload.rs",
        ],
    ),
    apart(
        "gRPC: dialling, addresses, options, polled and read servers",
        &["xds-grpc/src/client/", "xds-grpc/src/address/", "xds-grpc/src/resolve.rs"],
    ),
    apart("gRPC: the application's side of a server", &["xds-grpc/src/server/"]),
    apart("handles and typed watches", &["xds-handle/src/"]),
    apart("runtimes: tokio, async-std, smol", &["xds-tokio/src/", "xds-asyncstd/src/"]),
    apart("channels: driver, connections, calls", &["xds-channel/src/"]),
    apart("REST server: resources without a JSON form", &["xds-rest/src/unprintable.rs"]),
    apart("files: export of a server's resources", &["xds-fs/src/export.rs"]),
];

/// Folders whose files must all belong to a part.
const FOLDERS: [&str; 7] = [
    "xds-grpc/src",
    "xds-rest/src",
    "xds-fs/src",
    "xds-handle/src",
    "xds-tokio/src",
    "xds-asyncstd/src",
    "xds-channel/src",
];

/// Formats the tables as Markdown.
pub(crate) fn tables(root: &Path) -> Result<String, Error> {
    Ok(table(root)? + &server::table(root)?)
}

/// Formats the table of the adapters as Markdown.
fn table(root: &Path) -> Result<String, Error> {
    let mut lines = [0; PARTS.len()];
    for folder in FOLDERS {
        for (path, text) in Tree::read(&root.join(folder))?.0 {
            let path = format!("{folder}/{path}");
            if let Some(at) = part_of(&path) {
                lines[at] += code_lines(&text);
            }
        }
    }
    let mut table = String::from("| part | lines | aim |\n|---|---:|---:|\n");
    for (part, lines) in PARTS.iter().zip(lines) {
        let aim = part.aim.map_or_else(String::new, |aim| aim.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| {} | {lines} | {aim} |", part.name);
    }
    Ok(table)
}

/// Returns the part with the longest path that matches the file.
fn part_of(path: &str) -> Option<usize> {
    let covers = |file: &&&str| path == **file || (file.ends_with('/') && path.starts_with(**file));
    let longest = |part: &Measured| part.files.iter().filter(covers).map(|file| file.len()).max();
    let found = PARTS.iter().enumerate().filter_map(|(at, part)| Some((longest(part)?, at)));
    found.max().map(|(_, at)| at)
}

/// Counts the lines of code before the test module, which is last in a file.
fn code_lines(text: &str) -> usize {
    let lines = text.lines().map(str::trim);
    let code = lines.take_while(|line| *line != "#[cfg(test)]");
    code.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_lines_are_counted() {
        let text = "//! What.\n\nuse a;\n\n/// Doc.\nfn f() {\n    // Why.\n    g();\n}\n\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(code_lines(text), 4);
    }

    #[test]
    fn file_belongs_to_its_most_specific_part() {
        let part = |path| PARTS[part_of(path).unwrap()].name;
        assert_eq!(part("xds-grpc/src/client/driver.rs"), "gRPC client: driver loop and transport");
        let rest = "gRPC: dialling, addresses, options, polled and read servers";
        assert_eq!(part("xds-grpc/src/client/rotation.rs"), rest);
        assert_eq!(part("xds-grpc/src/runtime.rs"), "gRPC: shared by both sides");
        assert_eq!(part_of("xds-core/src/lib.rs"), None);
    }

    #[test]
    fn every_part_has_files_that_exist() {
        let root = crate::repository::root();
        for file in PARTS.iter().flat_map(|part| part.files) {
            assert!(root.join(file).exists(), "{file}");
        }
        let table = table(&root).unwrap();
        assert!(!table.contains("| 0 |"), "{table}");
    }
}
