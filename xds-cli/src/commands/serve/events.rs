//! What `xds serve` has to say.

use std::path::{Path, PathBuf};

use xds_core::server::Applied;
use xds_tokio::server::BoundAddress;

use crate::{
    directory::{FileError, FileFinding, Refused},
    server_table::RowChanges,
};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// Clients may connect. Always the first. They are answered from now on if `is_ready`.
    Serving {
        directory: &'a Path,
        listen: &'a BoundAddress,
        /// Where REST-JSON is served.
        rest: Option<&'a BoundAddress>,
        /// Where client status discovery is.
        csds: Option<&'a BoundAddress>,
        /// Where what is served is written to.
        export: Option<&'a Path>,
        resources: usize,
        is_ready: bool,
    },
    /// Clients wait until these files have been valid once.
    NotReady { files: &'a [PathBuf] },
    /// All files have been valid once: clients are answered from now on.
    Ready { resources: usize },
    /// A file keeps its last good state.
    FileError(&'a FileError),
    /// A resource is about to be served that refers to one that is not.
    Dangling(&'a FileFinding),
    /// What the files say is not served, but what was served before.
    Refused { refused: &'a Refused, resources: usize },
    /// The files changed, and so did what is served.
    Reloaded { resources: usize, applied: Applied },
    /// The state of some subscription changed.
    Status(&'a RowChanges),
}
