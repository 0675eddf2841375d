//! Arguments of `xds get`.

use core::time::Duration;

use clap::{Args, ValueEnum};
use xds_core::types;

use super::{ClientArgs, Subscription, parse_duration};

const EXIT_CODES: &str = "Exit codes: 0 all resources were fetched, 1 another failure such as a rejected \
                          resource or no answer in time, 2 wrong usage, 3 the address is not valid or \
                          cannot be resolved, 4 the server was never reached, 5 a resource does not \
                          exist, 130 interrupted.";

/// Fetch resources once, print them and exit.
///
/// The command acts as an xDS client. It rejects a resource that does not decode or that violates a
/// constraint of the API (validate.rules), as `xds watch` does. Fetched resources are printed to
/// standard output. If a resource is not fetched, the reason is printed to standard error. Secrets
/// are hidden.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct GetArgs {
    /// Resources to fetch: TYPE for all resources of a type, such as cds, or TYPE:NAME for one
    /// resource, such as eds:backend.
    ///
    /// With --delta, NAME may be a glob, such as
    /// lds:xdstp://AUTHORITY/envoy.config.listener.v3.Listener/edge/*.
    ///
    /// The protocol does not mark the end of an answer to TYPE or to a glob that a server splits
    /// into several responses. The answer is complete with the first response without --delta for
    /// lds and cds, and with --file or --poll. Otherwise it is complete after a pause without
    /// responses of 250 ms, or as long as the first response took if that is longer.
    ///
    /// TYPE is lds, rds, srds, vhds, cds, eds, sds, ecds, rtds, or a type URL such as
    /// type.googleapis.com/envoy.config.cluster.v3.Cluster.
    #[arg(required = true, value_name = "TYPE[:NAME]")]
    pub(crate) subscriptions: Vec<Subscription>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: GetOutput,

    /// Time limit [default: 20s; 5s for a whole type other than lds and cds without --delta]. A
    /// server that refuses the connection ends the command at once.
    ///
    /// A resource that a server does not send is missing after this time, or after 15 s if that is
    /// shorter. With --delta, a server reports a missing resource at once.
    ///
    /// Without --delta, a server need not answer a request for a whole type, except for lds and cds.
    /// Most servers do not answer it if there are no resources.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

impl GetArgs {
    /// Returns the time limit of a subscription.
    pub(crate) fn time_limit(&self, subscription: &Subscription) -> Duration {
        let default = match self.may_be_unanswered(subscription) {
            true => UNANSWERED_LIMIT,
            false => DEFAULT_LIMIT,
        };
        self.timeout.unwrap_or(default)
    }

    /// Whether the answer may consist of several responses. The state-of-the-world variant defines a
    /// full state, which is in one response, only for listeners and clusters.
    pub(crate) fn may_be_split(&self, subscription: &Subscription) -> bool {
        let source = &self.client.source;
        let is_named = subscription.name.is_some() && subscription.glob().is_none();
        // The sources of a proxy bootstrap may be incremental.
        let is_incremental = source.delta || source.proxy_bootstrap.is_some();
        let is_in_one_message = source.file.is_some() || source.poll.is_some();
        let is_full_state = is_full_state_type(subscription) && !is_incremental;
        !is_named && !is_in_one_message && !is_full_state
    }

    /// Whether a server that has no resources may leave the request for a whole type unanswered: the
    /// state-of-the-world variant defines such a request only for listeners and clusters.
    pub(crate) fn may_be_unanswered(&self, subscription: &Subscription) -> bool {
        let source = &self.client.source;
        let is_whole_type = subscription.name.is_none();
        is_whole_type && !is_full_state_type(subscription) && !source.delta && source.file.is_none()
    }
}

/// Whether each response of the state-of-the-world variant has all resources of the type.
fn is_full_state_type(subscription: &Subscription) -> bool {
    [types::LISTENER, types::CLUSTER].contains(&subscription.type_url.as_str())
}

/// Time limit if none is given.
const DEFAULT_LIMIT: Duration = Duration::from_secs(20);
/// Time limit of a request that may be left unanswered, if none is given.
const UNANSWERED_LIMIT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetOutput {
    /// One YAML document per resource.
    Yaml,
    /// The resource as JSON. With several subscriptions or a whole type, an object with the list
    /// "resources".
    Json,
    /// One JSON object per resource and per error, as in `xds watch`.
    Ndjson,
    /// Protobuf text format. With several subscriptions or a whole type, a DiscoveryResponse.
    Textproto,
    /// Table with type, name, version, size and summary.
    Table,
    /// One TYPE:NAME per line.
    Names,
}
