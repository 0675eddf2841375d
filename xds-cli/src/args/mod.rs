//! Command-line arguments of `xds`, except those of `check`, `compat`, `serve` and `sim`.

mod check;
mod convert;
#[cfg(test)]
mod documents;
mod serve;
mod shell;
pub(crate) mod sim;

use core::{fmt, str::FromStr, time::Duration};
use std::{path::PathBuf, sync::Arc};

use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use thiserror::Error;
use xds_core::{
    ResourceName, TypeUrl,
    references::Consistency,
    types,
    xdstp::{Authority, XdstpName},
};
use xds_tokio::credentials::CredentialsError;

pub(crate) use self::{
    check::{CheckArgs, CheckOutput, CompatArgs},
    convert::{ConvertArgs, ConvertFormat},
    serve::{Ordering, ServeArgs, ServeOutput, ServerTlsArgs},
    shell::{CompletionsArgs, ManArgs},
    sim::SimCommand,
};

/// Serve, watch and check xDS resources, the configuration of proxies and gRPC clients.
#[derive(Debug, Parser)]
#[command(name = "xds", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Log more to standard error: -v logs connections and messages, -vv also their contents.
    ///
    /// The environment variable RUST_LOG, if set, overrides this option.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Colour the output.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

const EXIT_CODES: &str = "Exit codes: 0 success (also if watch or serve reached its time limit), 1 failure, \
                          2 wrong usage, 3 the address cannot be resolved or listened on, 130 sim run \
                          was interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a demonstration of a management server and a client. It takes a few seconds.
    Demo,
    Serve(ServeArgs),
    Watch(WatchArgs),
    Check(CheckArgs),
    Compat(CompatArgs),
    Convert(ConvertArgs),
    #[command(subcommand)]
    Sim(SimCommand),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Command {
    /// Returns the descriptor sets to add to the schema.
    pub(crate) fn descriptors(&self) -> &[PathBuf] {
        match self {
            Self::Serve(args) => &args.descriptors.descriptors,
            Self::Watch(args) => &args.descriptors.descriptors,
            Self::Check(args) => &args.descriptors.descriptors,
            Self::Convert(args) => &args.descriptors.descriptors,
            Self::Demo | Self::Compat(_) | Self::Sim(_) | Self::Completions(_) | Self::Man(_) => {
                &[]
            }
        }
    }
}

/// Descriptor sets with resource types that the Envoy API lacks.
#[derive(Args, Debug)]
pub(crate) struct DescriptorArgs {
    /// Add the types of a descriptor set to the schema, for example Envoy's contrib extensions or
    /// your own types. May be given several times.
    ///
    /// Create the file with `protoc --include_imports --descriptor_set_out=FILE` or
    /// `buf build -o FILE`.
    #[arg(long, value_name = "FILE")]
    pub(crate) descriptors: Vec<PathBuf>,
}

/// Returns the flag that names the file with the fault, followed by `: `, for use as a prefix.
fn flag_of<const N: usize>(why: &CredentialsError, flags: [(&str, &Option<PathBuf>); N]) -> String {
    let is_it = |path: &Option<PathBuf>| path.as_deref().is_some_and(|it| Some(it) == why.path());
    // One file may have been given to several flags.
    let kind = match why {
        CredentialsError::NoPrivateKey { .. } => "key",
        CredentialsError::BadIdentity { .. } => "cert",
        _ => "",
    };
    let flag = flags.into_iter().find(|(flag, path)| is_it(path) && flag.ends_with(kind));
    flag.map_or_else(|| "TLS: ".into(), |(flag, _)| format!("{flag}: "))
}

/// Resources that the check of references treats as external.
#[derive(Args, Debug)]
pub(crate) struct ExternalArgs {
    /// Treat a resource as external: clients get it from another source, so references to it are
    /// not dangling. May be given several times.
    ///
    /// Use TYPE:NAME for one resource, such as cds:xds-cluster for a cluster of the clients'
    /// bootstrap, or TYPE for all resources of a type, such as sds for all secrets.
    #[arg(long, alias = "elsewhere", value_name = "TYPE[:NAME]")]
    pub(crate) external: Vec<Subscription>,
}

impl ExternalArgs {
    /// Returns a check of references that does not report these resources as missing.
    pub(crate) fn consistency(&self) -> Consistency<'static> {
        self.external.iter().fold(Consistency::default(), |consistency, it| {
            let type_url = it.type_url.as_str();
            match &it.name {
                Some(name) => consistency.with_external(type_url, name.as_str()),
                None => consistency.with_all_external(type_url),
            }
        })
    }
}

/// Subscribe to resources and print every change.
///
/// The command acts as an xDS client. It rejects a resource that does not decode or that violates a
/// constraint of the API (validate.rules), and prints the reason. With --bootstrap it behaves like
/// a gRPC client, which does not check the constraints.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// Address of the management server, such as 127.0.0.1:18000 or unix:/run/xds.sock.
    ///
    /// The prefix https:// selects TLS.
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["bootstrap", "file", "proxy_bootstrap"])]
    pub(crate) server: Option<String>,

    /// Read resources from a file instead of a server, and follow its changes.
    ///
    /// The suffix selects the format: JSON, YAML, protobuf text or protobuf binary.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "bootstrap", "fallback", "delta", "per_type", "poll"])]
    pub(crate) file: Option<String>,

    /// Take servers, authorities, credentials and node from a gRPC bootstrap file (JSON), and
    /// behave like a gRPC client.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "fallback"])]
    pub(crate) bootstrap: Option<PathBuf>,

    /// Subscribe like a proxy with this Envoy bootstrap file (JSON or YAML).
    ///
    /// Listeners and clusters come from the sources that the bootstrap names, other types come over
    /// the aggregated stream, and static resources are printed at the start. Connections to
    /// clusters with a transport socket use the TLS options below; the transport socket itself is
    /// not read.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "bootstrap", "file", "fallback", "delta", "per_type", "poll"])]
    pub(crate) proxy_bootstrap: Option<PathBuf>,

    /// Follow the references of listeners and clusters, and watch these resources too: routes,
    /// scoped routes, endpoints, secrets and extension configurations.
    ///
    /// Each is fetched from the config source that its reference names, over any transport.
    #[arg(long, requires = "proxy_bootstrap")]
    pub(crate) follow: bool,

    /// Node id to send [default: xds-watch, or the id in the bootstrap].
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,

    /// Cluster of the node to send [default: none, or the cluster in the bootstrap].
    ///
    /// Some servers select the resources by this value.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// Use the incremental (delta) variant of the protocol instead of state of the world.
    #[arg(long)]
    pub(crate) delta: bool,

    /// Open one stream for each type, to its own discovery service, instead of
    /// one aggregated stream.
    #[arg(long)]
    pub(crate) per_type: bool,

    /// Poll each type over REST-JSON instead of using a stream. The value is the pause after each
    /// response, such as 5s.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with_all = ["bootstrap", "delta", "per_type"])]
    pub(crate) poll: Option<Duration>,

    /// Fallback server, used while the servers before it fail. May be given several times.
    #[arg(long, value_name = "ADDR")]
    pub(crate) fallback: Vec<String>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: WatchOutput,

    /// Exit after this time, such as 500ms, 20s or 5m. Without it, run until interrupted.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) lifetime: Option<Duration>,

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

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,

    // Must be last: its heading also applies to all options after it.
    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
}

/// TLS options of connections to the servers given on the command line.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS (each of these options enables it, and so does https://)")]
pub(crate) struct ChannelArgs {
    /// Use TLS, and verify the server with the system's root certificates.
    #[arg(long, conflicts_with = "bootstrap")]
    pub(crate) tls: bool,

    /// Verify the server with the root certificates in this file (PEM) instead.
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap")]
    pub(crate) ca: Option<PathBuf>,

    /// Client certificate to present to the server (PEM).
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "bootstrap")]
    pub(crate) cert: Option<PathBuf>,

    /// Private key of the client certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert", conflicts_with = "bootstrap")]
    pub(crate) key: Option<PathBuf>,

    /// Name expected in the server's certificate, instead of the host in the address.
    #[arg(long, value_name = "NAME", conflicts_with = "bootstrap")]
    pub(crate) server_name: Option<String>,

    /// Send the JWT in this file with each call. The file is read again for each call.
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap")]
    pub(crate) token_file: Option<PathBuf>,
}

impl ChannelArgs {
    /// Whether any TLS option is given.
    pub(crate) fn has_tls_flags(&self) -> bool {
        let files = [&self.ca, &self.cert, &self.key, &self.token_file];
        self.tls || self.server_name.is_some() || files.iter().any(|file| file.is_some())
    }

    /// Returns the flag that names the file with the fault, followed by `: `, for use as a prefix.
    pub(crate) fn flag_of(&self, why: &CredentialsError) -> String {
        flag_of(
            why,
            [
                ("--ca", &self.ca),
                ("--cert", &self.cert),
                ("--key", &self.key),
                ("--token-file", &self.token_file),
            ],
        )
    }
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

/// Subscription given as `TYPE[:NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subscription {
    pub(crate) type_url: TypeUrl,
    /// Name of one resource, or a glob. `None` subscribes to all resources of the type.
    pub(crate) name: Option<ResourceName>,
}

impl Subscription {
    /// Returns the authority of the name, if the name has one.
    pub(crate) fn authority(&self) -> Option<Arc<str>> {
        match Authority::of(self.name.as_ref()?.as_str()) {
            Ok(Authority::Named(name)) => Some(name),
            Ok(Authority::TopLevel) | Err(_) => None,
        }
    }

    /// Returns the name if it is a glob.
    pub(crate) fn glob(&self) -> Option<&ResourceName> {
        let name = self.name.as_ref()?;
        let is_glob = XdstpName::parse(name.as_str()).is_ok_and(|name| name.is_glob());
        is_glob.then_some(name)
    }
}

#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum InvalidSubscription {
    #[error(
        "unknown type: expected lds, rds, srds, vhds, cds, eds, sds, ecds, rtds or a type URL such \
         as {}",
        types::CLUSTER
    )]
    Type,
    #[error("the name after the colon is missing")]
    Name,
}

impl FromStr for Subscription {
    type Err = InvalidSubscription;

    fn from_str(text: &str) -> Result<Self, InvalidSubscription> {
        // Type URLs contain no colon; names may.
        let (type_name, name) = match text.split_once(':') {
            Some((type_name, name)) => (type_name, Some(name)),
            None => (text, None),
        };
        let type_url = match types::by_short_name(type_name) {
            Some(url) => url,
            None => is_type_url(type_name).then_some(type_name).ok_or(InvalidSubscription::Type)?,
        };
        if name.is_some_and(str::is_empty) {
            return Err(InvalidSubscription::Name);
        }
        let name = name.filter(|&name| name != "*").map(ResourceName::from);
        Ok(Self { type_url: TypeUrl::from(type_url), name })
    }
}

impl fmt::Display for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let type_url = self.type_url.as_str();
        f.write_str(types::short_name(type_url).unwrap_or(type_url))?;
        write!(f, " {}", self.name.as_ref().map_or("*", ResourceName::as_str))
    }
}

fn is_type_url(text: &str) -> bool {
    text.rsplit_once('/').is_some_and(|(prefix, name)| !prefix.is_empty() && !name.is_empty())
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected a number with a unit, as in 500ms, 20s, 5m or 1h")]
pub(crate) struct InvalidDuration;

fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(InvalidDuration)?;
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(InvalidDuration),
    };
    let number: f64 = number.parse().map_err(|_| InvalidDuration)?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| InvalidDuration)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn clap_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn subscription_argument_is_a_type_with_an_optional_name() {
        let all = |url: &str| Subscription { type_url: url.into(), name: None };
        let one = |url: &str, name: &str| Subscription { name: Some(name.into()), ..all(url) };
        for (text, expected) in [
            ("cds", all(types::CLUSTER)),
            ("CDS", all(types::CLUSTER)),
            ("cds:*", all(types::CLUSTER)),
            ("eds:backend", one(types::CLUSTER_LOAD_ASSIGNMENT, "backend")),
            ("eds:xdstp://a/b", one(types::CLUSTER_LOAD_ASSIGNMENT, "xdstp://a/b")),
            ("type.googleapis.com/a.B", all("type.googleapis.com/a.B")),
            ("type.googleapis.com/a.B:n:m", one("type.googleapis.com/a.B", "n:m")),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("", InvalidSubscription::Type),
            ("xyz", InvalidSubscription::Type),
            ("/a.B", InvalidSubscription::Type),
            ("t/", InvalidSubscription::Type),
            ("cds:", InvalidSubscription::Name),
        ] {
            assert_eq!(text.parse::<Subscription>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn subscription_name_may_be_a_glob_or_state_an_authority() {
        let of = |text: &str| text.parse::<Subscription>().unwrap();
        let glob = of("lds:xdstp://eu/envoy.config.listener.v3.Listener/edge/*?x=1");
        assert_eq!((glob.glob(), glob.authority().as_deref()), (glob.name.as_ref(), Some("eu")));
        let one = of("lds:xdstp://eu/envoy.config.listener.v3.Listener/edge/a");
        assert_eq!((one.glob(), one.authority().as_deref()), (None, Some("eu")));
        for text in ["lds", "lds:edge/*", "lds:xdstp:odd/*"] {
            assert_eq!((of(text).glob(), of(text).authority()), (None, None), "{text}");
        }
    }

    #[test]
    fn duration_arguments_require_a_unit() {
        for (text, millis) in [("500ms", 500), ("20s", 20_000), ("1.5s", 1_500), ("2m", 120_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "20", "s", "-1s", "1.2.3s", "1d", "1e9s", "99999999999999999999999h"] {
            assert_eq!(parse_duration(text), Err(InvalidDuration), "{text}");
        }
    }
}
