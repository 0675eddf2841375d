//! Arguments of the commands that read and write the resources in etcd.

use core::{net::SocketAddr, time::Duration};
use std::path::PathBuf;

use clap::Args;

use super::{DescriptorArgs, EtcdArgs, SourceAddress, parse_duration};

/// Write the resources in a directory to etcd, as one change.
///
/// Prints the difference. Clients of `xds serve etcd://..` receive the whole change at once, or
/// nothing if writing fails. If another writer has changed the same resources meanwhile, nothing is
/// written.
#[derive(Args, Debug)]
pub(crate) struct ApplyArgs {
    /// Directory with the resource files.
    #[arg(short = 'f', long = "from", value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Address to write to: etcd://HOST:PORT[,HOST:PORT...]/PREFIX.
    #[arg(long, value_name = "ADDR")]
    pub(crate) to: SourceAddress,

    /// View to which the resources belong. By default the one that `xds serve` serves.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) view: String,

    /// Remove the resources of the view that are not in the directory.
    #[arg(long)]
    pub(crate) prune: bool,

    /// Print the difference and write nothing. The exit code is 1 if there is one.
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,

    #[command(flatten)]
    pub(crate) etcd: EtcdArgs,
}

/// Print the resources in etcd, as YAML that `xds serve` and `xds apply` read.
#[derive(Args, Debug)]
pub(crate) struct PullArgs {
    /// Address to read from: etcd://HOST:PORT[,HOST:PORT...]/PREFIX.
    #[arg(value_name = "ADDR")]
    pub(crate) from: SourceAddress,

    /// View to read.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) view: String,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,

    #[command(flatten)]
    pub(crate) etcd: EtcdArgs,
}

/// Register an endpoint of a cluster in etcd until the command ends.
///
/// The endpoint is removed at once when the command is interrupted, and after --ttl when the
/// command is killed or loses its connection to etcd.
#[derive(Args, Debug)]
pub(crate) struct RegisterArgs {
    /// Address to register at: etcd://HOST:PORT[,HOST:PORT...]/PREFIX.
    #[arg(value_name = "ADDR")]
    pub(crate) to: SourceAddress,

    /// Cluster to which the endpoint belongs.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: String,

    /// Address and port of the endpoint, such as 10.0.0.1:8080.
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) endpoint: SocketAddr,

    /// Name of the endpoint, unique in its cluster. By default its address and port.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Region of the endpoint.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) region: String,

    /// Zone of the endpoint.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) zone: String,

    /// Share of requests within the zone.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) weight: u32,

    /// View of the cluster.
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) view: String,

    /// Time after which the endpoint is removed if this command no longer runs; at least 2s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    pub(crate) ttl: Duration,

    #[command(flatten)]
    pub(crate) etcd: EtcdArgs,
}
