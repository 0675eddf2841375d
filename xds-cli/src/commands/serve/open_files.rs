//! Limit of open files of the process, and the number of connections that it leaves room for.

use std::{fs, path::Path};

use tracing::{debug, warn};

/// File descriptors that are kept for other purposes than connections and the files of the
/// directory: standard streams, listeners, the runtime, the watch of the directory, and so on.
const RESERVED: u64 = 64;

/// Maximum number of files of the directory for which descriptors are reserved. They are read one
/// after the other, so this is generous.
const MAX_RESERVED_FILES: usize = 1_024;

/// Raises the soft limit of open files to the hard limit. Returns the maximum number of connections:
/// `wanted`, or less, so that the directory can always be read.
pub(super) async fn connections_for(directory: Option<&Path>, wanted: usize) -> usize {
    let Some(limit) = raised_limit() else { return wanted };
    let directory = directory.map(Path::to_owned);
    // Reading may hang on a network file system.
    let files = tokio::task::spawn_blocking(move || directory.as_deref().map_or(0, count_files));
    let reserved = reserved(limit, files.await.unwrap_or_default());
    let connections = wanted.min(usize::try_from(limit - reserved).unwrap_or(usize::MAX));
    if connections < wanted {
        warn!(
            open_files = limit,
            reserved,
            connections,
            "the limit of open files allows fewer connections than --max-connections: raise it, \
             for example with ulimit -n"
        );
    } else {
        debug!(open_files = limit, reserved, connections, "limit of connections");
    }
    connections
}

fn count_files(directory: &Path) -> usize {
    fs::read_dir(directory).into_iter().flatten().take(MAX_RESERVED_FILES).count()
}

/// Returns the number of reserved descriptors, at most half of the limit.
fn reserved(limit: u64, files: usize) -> u64 {
    (RESERVED + files as u64).min(limit / 2)
}

/// Raises the soft limit of open files to the hard limit, and returns it. Returns `None` if there is
/// no limit.
#[cfg(unix)]
fn raised_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limits = getrlimit(Resource::Nofile);
    let soft = limits.current?;
    if limits.maximum == Some(soft) {
        return Some(soft);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits }) {
        Ok(()) => {
            debug!(from = soft, to = limits.maximum, "raised the soft limit of open files");
            limits.maximum
        }
        // Some systems have a lower maximum than the hard limit.
        Err(why) => {
            debug!(%why, soft, hard = limits.maximum, "cannot raise the soft limit of open files");
            Some(soft)
        }
    }
}

#[cfg(not(unix))]
fn raised_limit() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_half_of_the_open_files_are_reserved() {
        assert_eq!(reserved(20_000, 10), 74);
        assert_eq!(reserved(256, 1), 65);
        assert_eq!(reserved(256, 1_024), 128);
        assert_eq!(reserved(0, 1), 0);
    }
}
