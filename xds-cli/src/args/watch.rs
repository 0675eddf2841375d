//! Arguments of `xds watch`.

use core::time::Duration;

use clap::{Args, ValueEnum};

use super::{ClientArgs, Subscription, parse_duration};

/// Subscribe to resources and print every change.
///
/// The command acts as an xDS client. It rejects a resource that does not decode or that violates a
/// constraint of the API (validate.rules), and prints the reason. With --bootstrap it behaves like
/// a gRPC client, which does not check the constraints.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// Resources to watch: TYPE for all resources of a type, such as cds, or TYPE:NAME for one
    /// resource, such as eds:backend.
    ///
    /// With --delta, NAME may be a glob, such as
    /// lds:xdstp://AUTHORITY/envoy.config.listener.v3.Listener/edge/*.
    ///
    /// TYPE is lds, rds, srds, vhds, cds, eds, sds, ecds, rtds, or a type URL such as
    /// type.googleapis.com/envoy.config.cluster.v3.Cluster.
    #[arg(required = true, value_name = "TYPE[:NAME]")]
    pub(crate) subscriptions: Vec<Subscription>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: WatchOutput,

    /// Exit after this time, such as 500ms, 20s or 5m. Without it, run until interrupted.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) lifetime: Option<Duration>,

    /// Follow the references of listeners and clusters, and watch these resources too: routes,
    /// scoped routes, endpoints, secrets and extension configurations.
    ///
    /// Each is fetched from the config source that its reference names, over any transport.
    #[arg(long, requires = "proxy_bootstrap")]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WatchOutput {
    /// Text for people: added, changed and removed resources, with the changed fields.
    Text,
    /// One JSON object per event.
    Ndjson,
    /// One YAML document per changed resource.
    Yaml,
}
