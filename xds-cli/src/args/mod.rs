//! Command-line arguments of `xds`, except those of single commands.

mod check;
mod client;
mod convert;
mod demo;
#[cfg(test)]
mod documents;
mod etcd;
mod get;
mod guard;
mod kube;
mod load;
mod node;
mod number;
mod rollout;
mod route;
mod serve;
mod shell;
pub(crate) mod sim;
mod status;
#[cfg(feature = "etcd")]
mod store;
mod watch;

use core::{fmt, str::FromStr, time::Duration};
use std::{path::PathBuf, sync::Arc};

use clap::{Args, ColorChoice, Parser, Subcommand};
use thiserror::Error;
use xds_core::{
    ResourceName, TypeUrl,
    references::Consistency,
    types,
    xdstp::{Authority, XdstpName},
};
use xds_tokio::credentials::CredentialsError;

pub(crate) use self::{
    check::{CheckArgs, CheckOutput, CompatArgs, CompatOutput},
    client::{ChannelArgs, ClientArgs},
    convert::{ConvertArgs, ConvertFormat},
    demo::DemoArgs,
    etcd::{EtcdArgs, SourceAddress},
    get::{GetArgs, GetOutput},
    guard::GuardArgs,
    kube::{KubeArgs, KubeClusterArgs},
    load::{LoadArgs, LoadOutput, LoadProfile},
    node::NodeArgs,
    rollout::{RolloutArgs, RolloutCommand, RolloutFormat, RolloutStateArgs},
    route::{ExplainArgs, RouteCommand, RouteOutput, RouteRules, Scheme},
    serve::{Ordering, ServeArgs, ServeOutput, ServerTlsArgs},
    shell::{CompletionsArgs, ManArgs},
    sim::SimCommand,
    status::{StatusArgs, StatusOutput},
    watch::{WatchArgs, WatchOutput},
};
#[cfg(feature = "etcd")]
pub(crate) use self::{
    etcd::EtcdAddress,
    store::{ApplyArgs, PullArgs, RegisterArgs},
};
use crate::output::log_format::LogFormat;

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

    /// Form of the log and of other texts on standard error. With json, each line is an object with
    /// "timestamp", "level" and "message".
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Colour the output, also help and errors.
    ///
    /// With auto, the environment variables NO_COLOR and CLICOLOR_FORCE decide, if they are set.
    /// Otherwise output is coloured on a terminal whose TERM is not dumb.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

const EXIT_CODES: &str = "Exit codes: 0 success (also if watch or serve reached its time limit), 1 failure, \
                          2 wrong usage, 3 the address cannot be resolved or listened on, 4 get, route, \
                          status, rollout, apply, pull or register did not reach an address, 5 a resource of get does not \
                          exist, 130 a signal ended another command than watch or serve.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArgs),
    Serve(Box<ServeArgs>),
    Watch(WatchArgs),
    Get(GetArgs),
    Status(StatusArgs),
    Check(CheckArgs),
    Compat(CompatArgs),
    Convert(ConvertArgs),
    #[command(subcommand)]
    Rollout(RolloutCommand),
    #[command(subcommand)]
    Route(RouteCommand),
    #[command(subcommand)]
    Sim(SimCommand),
    Load(LoadArgs),
    #[cfg(feature = "etcd")]
    Apply(ApplyArgs),
    #[cfg(feature = "etcd")]
    Pull(PullArgs),
    #[cfg(feature = "etcd")]
    Register(RegisterArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Command {
    /// Returns the descriptor sets to add to the schema.
    pub(crate) fn descriptors(&self) -> &[PathBuf] {
        match self {
            Self::Serve(args) => &args.descriptors.descriptors,
            Self::Watch(args) => &args.client.descriptors.descriptors,
            Self::Get(args) => &args.client.descriptors.descriptors,
            Self::Status(args) => &args.descriptors.descriptors,
            Self::Check(args) => &args.descriptors.descriptors,
            Self::Convert(args) => &args.descriptors.descriptors,
            Self::Route(RouteCommand::Explain(args)) => &args.descriptors.descriptors,
            #[cfg(feature = "etcd")]
            Self::Apply(args) => &args.descriptors.descriptors,
            #[cfg(feature = "etcd")]
            Self::Pull(args) => &args.descriptors.descriptors,
            #[cfg(feature = "etcd")]
            Self::Register(_) => &[],
            Self::Demo(_)
            | Self::Compat(_)
            | Self::Rollout(_)
            | Self::Sim(_)
            | Self::Load(_)
            | Self::Completions(_)
            | Self::Man(_) => &[],
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

/// Longest duration. A longer one cannot be added to every instant, and means the same.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);

pub(crate) fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
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
    // Only a number that is too large has no duration.
    let duration = Duration::try_from_secs_f64(number * seconds).unwrap_or(LONGEST);
    Ok(duration.min(LONGEST))
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
    fn help_fits_a_terminal_of_80_columns() {
        fn check(command: &mut clap::Command, path: &str) {
            let helps = [command.render_long_help(), command.render_help()];
            for line in helps
                .iter()
                .flat_map(|it| it.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
            {
                let line = line.trim_end();
                assert!(line.chars().count() <= 80, "{path}: {line}");
            }
            for subcommand in command.get_subcommands_mut() {
                let path = format!("{path} {}", subcommand.get_name());
                check(subcommand, &path);
            }
        }

        let mut command = Cli::command().term_width(80);
        // Passes the width on to the subcommands.
        command.build();
        check(&mut command, "xds");
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
        for text in ["", "20", "s", "-1s", "1.2.3s", "1d", "1e9s"] {
            assert_eq!(parse_duration(text), Err(InvalidDuration), "{text}");
        }
        for text in ["5000000000000000h", "99999999999999999999999h"] {
            assert_eq!(parse_duration(text), Ok(LONGEST), "{text}");
        }
    }
}
