//! What `xds serve` has to say.

use std::path::Path;

use xds_core::server::Applied;
use xds_tokio::server::BoundAddress;

use crate::{
    directory::{FileError, FileFinding, Refused},
    server_table::Row,
};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// Clients may come. Always the first.
    Serving {
        directory: &'a Path,
        listen: &'a BoundAddress,
        /// Where REST-JSON is served.
        rest: Option<&'a BoundAddress>,
        /// Where client status discovery is.
        csds: Option<&'a BoundAddress>,
        resources: usize,
    },
    /// A file keeps its last good state.
    FileError(&'a FileError),
    /// A resource is about to be served that refers to one that is not.
    Dangling(&'a FileFinding),
    /// What the files say is not served, but what was served before.
    Refused { refused: Refused, resources: usize },
    /// The files changed, and so did what is served.
    Reloaded { resources: usize, applied: Applied },
    /// The state of some subscription changed.
    Status(&'a [Row]),
}
