//! What can be said on the command line.

mod check;
mod serve;
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
    serve::{Ordering, ServeArgs, ServeOutput, ServerTlsArgs},
    sim::SimCommand,
};

/// Serve and watch xDS, the protocol by which proxies and gRPC clients get their configuration.
#[derive(Debug, Parser)]
#[command(name = "xds", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Log more on standard error: connections and messages (-v), all there is (-vv).
    ///
    /// RUST_LOG, if it is set, says it more precisely.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

const EXIT_CODES: &str = "Exit codes: 0 all went well (for watch and serve also: their time was over, \
                          whatever came), 1 it did not, 2 wrong usage, 3 the address cannot be \
                          listened on or resolved, 130 sim run was interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a management server and a client at work, in some seconds and in plain words.
    Demo,
    Serve(ServeArgs),
    Watch(WatchArgs),
    Check(CheckArgs),
    Compat(CompatArgs),
    #[command(subcommand)]
    Sim(SimCommand),
}

impl Command {
    /// The descriptor sets that are added to the schema.
    pub(crate) fn descriptors(&self) -> &[PathBuf] {
        match self {
            Self::Serve(args) => &args.descriptors.descriptors,
            Self::Watch(args) => &args.descriptors.descriptors,
            Self::Check(args) => &args.descriptors.descriptors,
            Self::Demo | Self::Compat(_) | Self::Sim(_) => &[],
        }
    }
}

/// Types that resources may have besides those of the Envoy API.
#[derive(Args, Debug)]
pub(crate) struct DescriptorArgs {
    /// Add the types of a descriptor set: of Envoy's contrib extensions, or of your own. The file is from
    /// protoc --include_imports --descriptor_set_out=FILE or buf build -o FILE. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) descriptors: Vec<PathBuf>,
}

/// Which of these flags names the file that something is wrong with, to stand before what is.
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

/// What is not missing.
#[derive(Args, Debug)]
pub(crate) struct ElsewhereArgs {
    /// A resource that clients have from elsewhere, so that it is not missing: as in cds:xds-cluster,
    /// a cluster of their bootstrap, or sds for all secrets. May be given several times.
    #[arg(long, value_name = "TYPE[:NAME]")]
    pub(crate) elsewhere: Vec<Subscription>,
}

impl ElsewhereArgs {
    /// The check of references that leaves these out.
    pub(crate) fn consistency(&self) -> Consistency<'static> {
        self.elsewhere.iter().fold(Consistency::default(), |consistency, it| {
            let type_url = it.type_url.as_str();
            match &it.name {
                Some(name) => consistency.with_elsewhere(type_url, name.as_str()),
                None => consistency.with_all_elsewhere(type_url),
            }
        })
    }
}

/// Subscribe to resources as a client does, and print what changes.
///
/// What does not decode, or what no proxy would take, is rejected with its reason.
#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    /// The management server, as in 127.0.0.1:18000 or unix:/run/xds.sock; with https:// before it
    /// over TLS.
    #[arg(long, value_name = "ADDR", required_unless_present_any = ["bootstrap", "file", "proxy_bootstrap"])]
    pub(crate) server: Option<String>,

    /// Read a file and follow its changes instead of asking a server: JSON, YAML, proto text or binary, by
    /// its suffix.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "bootstrap", "fallback", "delta", "per_type", "poll"])]
    pub(crate) file: Option<String>,

    /// Take servers, authorities, credentials and node from a bootstrap of gRPC, a file in JSON, and
    /// do as gRPC does rather than a proxy.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "fallback"])]
    pub(crate) bootstrap: Option<PathBuf>,

    /// Do what a proxy does with this bootstrap, a file in JSON or YAML: listeners and clusters come from their
    /// sources, other types over the aggregated stream, and static resources are there from the start.
    /// Clusters that name a transport socket are spoken to with the TLS of the flags below.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "bootstrap", "file", "fallback", "delta", "per_type", "poll"])]
    pub(crate) proxy_bootstrap: Option<PathBuf>,

    /// Watch as well what listeners and clusters refer to, where they say that it comes from: routes, scopes,
    /// endpoints, secrets and extensions, over whatever transport their sources name.
    #[arg(long, requires = "proxy_bootstrap")]
    pub(crate) follow: bool,

    /// The node id to send [default: xds-watch, or the bootstrap's].
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,

    /// The node's cluster to send [default: none, or the bootstrap's]. Some servers choose by it what to answer.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// Ask for changes only: the incremental (delta) variant of the protocol.
    #[arg(long)]
    pub(crate) delta: bool,

    /// Open a stream for each type, to its own discovery service, instead of the aggregated one.
    #[arg(long)]
    pub(crate) per_type: bool,

    /// Ask for each type again and again over REST-JSON, with this pause after each answer, instead of over a
    /// stream.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with_all = ["bootstrap", "delta", "per_type"])]
    pub(crate) poll: Option<Duration>,

    /// Another server, asked while those before it fail. May be given several times.
    #[arg(long, value_name = "ADDR")]
    pub(crate) fallback: Vec<String>,

    /// How to print changes.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: WatchOutput,

    /// Stop by itself after this time, as in 500ms, 20s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) lifetime: Option<Duration>,

    /// What to watch: all resources of a type, as in cds, one, as in eds:backend, or with --delta those
    /// that a glob stands for, as in lds:xdstp://AUTHORITY/envoy.config.listener.v3.Listener/edge/*.
    ///
    /// Types are lds, rds, srds, vhds, cds, eds, sds, ecds, rtds, or a type URL such as
    /// type.googleapis.com/envoy.config.cluster.v3.Cluster.
    #[arg(required = true, value_name = "TYPE[:NAME]")]
    pub(crate) subscriptions: Vec<Subscription>,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,

    // Last: its heading is that of all flags behind it, too.
    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
}

/// How the channel to servers on the command line is secured.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS (any of these asks for it, as https:// does)")]
pub(crate) struct ChannelArgs {
    /// Speak TLS, and believe whom the system's root certificates vouch for.
    #[arg(long, conflicts_with = "bootstrap")]
    pub(crate) tls: bool,

    /// Believe whom the root certificates in this file vouch for instead (PEM).
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap")]
    pub(crate) ca: Option<PathBuf>,

    /// Show the server this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "bootstrap")]
    pub(crate) cert: Option<PathBuf>,

    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert", conflicts_with = "bootstrap")]
    pub(crate) key: Option<PathBuf>,

    /// Expect the server's certificate to be for this name rather than for the host in its address.
    #[arg(long, value_name = "NAME", conflicts_with = "bootstrap")]
    pub(crate) server_name: Option<String>,

    /// Send the JWT in this file with each call; it is read for each.
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap")]
    pub(crate) token_file: Option<PathBuf>,
}

impl ChannelArgs {
    /// Whether any of them is given.
    pub(crate) fn says_tls(&self) -> bool {
        let files = [&self.ca, &self.cert, &self.key, &self.token_file];
        self.tls || self.server_name.is_some() || files.iter().any(|file| file.is_some())
    }

    /// The flag that names the file that something is wrong with, to stand before what is.
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
    /// Lines for people: what came, which fields changed, what went.
    Text,
    /// One JSON object for each event.
    Ndjson,
    /// Each changed resource as a YAML document.
    Yaml,
}

/// What one `TYPE[:NAME]` asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subscription {
    pub(crate) type_url: TypeUrl,
    /// One resource, or those that a glob stands for; without a name all of them.
    pub(crate) name: Option<ResourceName>,
}

impl Subscription {
    /// The authority that the name states, if it has one.
    pub(crate) fn authority(&self) -> Option<Arc<str>> {
        match Authority::of(self.name.as_ref()?.as_str()) {
            Ok(Authority::Named(name)) => Some(name),
            Ok(Authority::TopLevel) | Err(_) => None,
        }
    }

    /// The glob, if it asks for what one stands for.
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
    #[error("there is no name after the colon")]
    Name,
}

impl FromStr for Subscription {
    type Err = InvalidSubscription;

    fn from_str(text: &str) -> Result<Self, InvalidSubscription> {
        // Type URLs have no colon, names may.
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
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn types_have_short_names_and_urls_and_perhaps_a_name_behind() {
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
    fn a_name_may_be_a_glob_and_state_an_authority() {
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
    fn durations_need_a_unit() {
        for (text, millis) in [("500ms", 500), ("20s", 20_000), ("1.5s", 1_500), ("2m", 120_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "20", "s", "-1s", "1.2.3s", "1d", "1e9s", "99999999999999999999999h"] {
            assert_eq!(parse_duration(text), Err(InvalidDuration), "{text}");
        }
    }
}
