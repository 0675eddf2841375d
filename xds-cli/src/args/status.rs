//! Arguments of `xds status`.

use core::{str::FromStr, time::Duration};

use clap::{Args, ValueEnum};
use thiserror::Error;

use super::{ChannelArgs, DescriptorArgs, InvalidSubscription, Subscription, parse_duration};
use crate::failure::Failure;

/// Show which resources a client or a server's clients have, and their versions and errors.
///
/// ADDR is the address of a client status service (CSDS): of `xds serve --csds`, of another
/// management server, or of the admin services of a gRPC application. It may also be the address of
/// Envoy's admin interface, whose configuration dump is read. The command finds out which it is; an
/// address that begins with http:// is tried as an admin interface first.
///
/// With two addresses the command compares them, for example the server's view of a client with the
/// client's own view. With more addresses, or with --replicas, they are replicas of a management
/// server, and their clients are shown together. Secrets are not shown.
///
/// Exit codes: 1 failure, the two differ, resources of replicas differ, or a replica cannot be read;
/// 2 wrong usage; 3 an address is invalid or cannot be resolved; 4 an address was never reached, or
/// none of the replicas; 130 interrupted.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Address, such as 127.0.0.1:18001, unix:/run/csds.sock or http://127.0.0.1:9901.
    ///
    /// The prefix https:// selects TLS.
    #[arg(value_name = "ADDR")]
    address: String,

    /// Address to compare with, or addresses of further replicas, and the resources to show: TYPE for
    /// a type, such as cds, or TYPE:NAME for one resource, such as eds:backend. By default all
    /// resources are shown.
    ///
    /// TYPE is lds, rds, srds, vhds, cds, eds, sds, ecds, rtds, or a type URL.
    #[arg(value_name = "ADDR|TYPE[:NAME]")]
    operands: Vec<Operand>,

    /// Show the clients of all addresses together, with the replica that each is connected to, and
    /// the resources whose content differs between replicas. Three or more addresses imply this
    /// option.
    ///
    /// A replica that has read less of its source than another one is shown as behind. A replica
    /// whose status cannot be read is shown with its error.
    #[arg(long)]
    replicas: bool,

    /// Show only clients with this node id.
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,

    /// Read the status repeatedly, with this pause between two requests.
    ///
    /// On a terminal the table is redrawn in place. Otherwise the changes are printed.
    #[arg(
        long, value_name = "INTERVAL", value_parser = parse_interval,
        num_args = 0..=1, require_equals = true, default_missing_value = "2s"
    )]
    pub(crate) watch: Option<Duration>,

    /// Exit after this time, such as 500ms, 20s or 5m. Without it, run until interrupted.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, requires = "watch")]
    pub(crate) lifetime: Option<Duration>,

    /// Give up after this time without a complete response. With --watch it applies to each request.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    pub(crate) timeout: Duration,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: StatusOutput,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,

    // Must be last: its heading also applies to all options after it.
    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusOutput {
    /// A table for each client.
    Table,
    /// One JSON document.
    Json,
    /// One JSON object per resource.
    Ndjson,
    /// One YAML document per resource, with its contents.
    Yaml,
}

impl StatusArgs {
    /// Whether the addresses are those of replicas.
    pub(crate) fn is_of_replicas(&self) -> bool {
        self.replicas || self.addresses().count() > 2
    }

    /// Returns the addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        let more = self.operands.iter().filter_map(|operand| match operand {
            Operand::Address(address) => Some(address.as_str()),
            Operand::Resources(_) => None,
        });
        core::iter::once(self.address.as_str()).chain(more)
    }

    /// Returns the resources to show. Empty if all are shown.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Subscription> {
        self.operands.iter().filter_map(|operand| match operand {
            Operand::Resources(resources) => Some(resources),
            Operand::Address(_) => None,
        })
    }

    /// Checks that the arguments fit together, as far as their definitions do not.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let is_compared = self.addresses().count() == 2 && !self.replicas;
        let wrong = match (self.output, self.watch) {
            (_, Some(_)) if is_compared => {
                "--watch cannot be used with two addresses that are compared; use --replicas if they \
                 are replicas"
            }
            (StatusOutput::Yaml, _) if is_compared || self.is_of_replicas() => {
                "-o yaml shows the contents of one address only"
            }
            (StatusOutput::Json, Some(_)) => "-o json cannot be used with --watch; use -o ndjson",
            _ => return Ok(()),
        };
        Err(Failure::Usage(wrong.to_owned()))
    }
}

/// Positional argument after the first address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    Address(String),
    Resources(Subscription),
}

#[derive(Debug, Error, PartialEq, Eq)]
enum InvalidOperand {
    #[error("neither an address nor a type: expected HOST:PORT, cds, eds:NAME or the like")]
    Unknown,
    #[error(transparent)]
    Resources(InvalidSubscription),
}

impl FromStr for Operand {
    type Err = InvalidOperand;

    fn from_str(text: &str) -> Result<Self, InvalidOperand> {
        match text.parse() {
            Ok(resources) => Ok(Self::Resources(resources)),
            Err(InvalidSubscription::Type) if text.contains(':') => {
                Ok(Self::Address(text.to_owned()))
            }
            Err(InvalidSubscription::Type) => Err(InvalidOperand::Unknown),
            Err(why @ InvalidSubscription::Name) => Err(InvalidOperand::Resources(why)),
        }
    }
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected at least 100ms, with a unit, as in 500ms, 2s or 1m")]
struct InvalidInterval;

/// Shortest interval. A shorter one would only load the server.
const SHORTEST: Duration = Duration::from_millis(100);

fn parse_interval(text: &str) -> Result<Duration, InvalidInterval> {
    let interval = parse_duration(text).map_err(|_| InvalidInterval)?;
    if interval < SHORTEST { Err(InvalidInterval) } else { Ok(interval) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operand_is_an_address_or_a_type_with_an_optional_name() {
        let resources = |text: &str| Ok(Operand::Resources(text.parse().unwrap()));
        let address = |text: &str| Ok(Operand::Address(text.to_owned()));
        for text in ["cds", "eds:a:b", "type.googleapis.com/a.B", "type.googleapis.com/a.B:n"] {
            assert_eq!(text.parse(), resources(text), "{text}");
        }
        for text in [
            "127.0.0.1:1",
            "localhost:80",
            "[::1]:1",
            "unix:/run/csds.sock",
            "http://127.0.0.1:9901",
            "https://xds.example:443",
            "dns:///xds.example:443",
        ] {
            assert_eq!(text.parse(), address(text), "{text}");
        }
        for text in ["", "xyz", "localhost"] {
            assert_eq!(text.parse::<Operand>(), Err(InvalidOperand::Unknown), "{text}");
        }
        let nameless = InvalidOperand::Resources(InvalidSubscription::Name);
        assert_eq!("eds:".parse::<Operand>(), Err(nameless));
    }

    #[test]
    fn interval_has_a_lower_limit() {
        assert_eq!(parse_interval("100ms"), Ok(Duration::from_millis(100)));
        for text in ["99ms", "0s", "2", "x"] {
            assert_eq!(parse_interval(text), Err(InvalidInterval), "{text}");
        }
    }
}
