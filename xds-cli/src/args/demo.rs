//! Arguments of `xds demo`.

use std::path::PathBuf;

use clap::{Args, value_parser};

/// Run a demonstration of a management server and a client. It takes a few seconds.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Demonstrate this number of management servers that share one etcd, and a client that moves
    /// between them.
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(2..=5))]
    pub(crate) replicas: Option<u8>,

    /// Path of the etcd program [default: etcd in the search path].
    #[arg(long, value_name = "FILE", requires = "replicas")]
    pub(crate) etcd: Option<PathBuf>,
}
