//! Arguments of `xds load`.

use core::{num::NonZeroU32, str::FromStr, time::Duration};

use clap::{Args, ValueEnum};
use thiserror::Error;

use super::{
    ChannelArgs, NodeArgs, Subscription,
    number::{parse_count, parse_number},
    parse_duration,
};

/// Put load on a management server: simulate many clients, and measure how long a change takes to
/// reach them.
///
/// The clients follow references, ACK or NACK every response, and reconnect with backoff. The
/// measurement is divided into rounds: the first is the start, and each change begins another. A
/// round ends when nothing has arrived for the time of --settle.
///
/// With --change, the command makes the changes: times count from the start of the shell command.
/// Without it, a round begins with the first response, so times show how far apart the clients are.
#[derive(Args, Debug)]
pub(crate) struct LoadArgs {
    /// Address of the management server, such as 127.0.0.1:18000.
    #[arg(value_name = "ADDR")]
    pub(crate) server: String,

    /// Subscriptions of each client: TYPE:NAME for a resource, such as lds:echo.example, or TYPE for
    /// all resources of a type [default: all listeners and clusters, as a proxy does].
    ///
    /// In a name, {} stands for the number of the client, beginning with 0.
    #[arg(value_name = "TYPE[:NAME]")]
    pub(crate) subscriptions: Vec<Subscription>,

    /// Number of clients.
    #[arg(long, value_name = "N", default_value = "100", value_parser = parse_count::<NonZeroU32>)]
    pub(crate) clients: NonZeroU32,

    /// Number of connections, among which the streams of the clients are divided [default: one for
    /// each 100 clients].
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroU32>)]
    pub(crate) connections: Option<NonZeroU32>,

    /// Use the incremental (delta) variant of the protocol instead of state of the world.
    #[arg(long)]
    pub(crate) delta: bool,

    /// Behave like gRPC, which accepts the valid resources of a response, or like Envoy, which
    /// rejects the whole response.
    #[arg(long = "like", value_name = "CLIENT", default_value = "envoy")]
    pub(crate) profile: LoadProfile,

    /// Share of the responses that a client rejects, such as 0.01 or 1%.
    #[arg(long, value_name = "SHARE", default_value = "0")]
    pub(crate) nack: Share,

    /// Share of the clients that are slow: they ACK only after --slow-by.
    #[arg(long, value_name = "SHARE", default_value = "0")]
    pub(crate) slow: Share,

    /// Delay of the ACKs of slow clients.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub(crate) slow_by: Duration,

    /// Break connections at this interval, each time a --reconnect-share of them at once.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) reconnect_every: Option<Duration>,

    /// Share of the connections that break at a time.
    #[arg(long, value_name = "SHARE", default_value = "1", requires = "reconnect_every")]
    pub(crate) reconnect_share: Share,

    /// Shell command that changes the resources of the server. {} stands for the number of the
    /// change, beginning with 1.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) change: Option<String>,

    /// Number of changes, after which the command ends [default: 1 with --change; without it, the
    /// command runs until it is interrupted].
    #[arg(long, value_name = "N", value_parser = parse_number::<u32>)]
    pub(crate) changes: Option<u32>,

    /// Pause between the end of a round and the next --change.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    pub(crate) interval: Duration,

    /// Time without a response and without an open attempt to connect after which a round ends. It
    /// should exceed --slow-by.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub(crate) settle: Duration,

    /// Maximum time of a round.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = parse_duration)]
    pub(crate) round_limit: Duration,

    /// Exit after this time, such as 20s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) lifetime: Option<Duration>,

    /// Process id of the server, if it runs on this machine (Linux). The output then includes the
    /// server's memory and the CPU time that it used in each round.
    #[arg(long, value_name = "PID", value_parser = parse_number::<u32>)]
    pub(crate) server_pid: Option<u32>,

    /// Seed of everything that is drawn at random: which clients are slow, what is rejected, backoff.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_number::<u64>)]
    pub(crate) seed: u64,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: LoadOutput,

    #[command(flatten)]
    pub(crate) node: NodeArgs,

    // Must be last: its heading also applies to all options after it.
    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
}

/// Number of clients on a connection by default, which is the usual limit of streams.
const CLIENTS_PER_CONNECTION: u32 = 100;

impl LoadArgs {
    /// Returns the number of connections: at most one for each client.
    pub(crate) fn connections(&self) -> u32 {
        let clients = self.clients.get();
        let default = clients.div_ceil(CLIENTS_PER_CONNECTION);
        self.connections.map_or(default, NonZeroU32::get).min(clients)
    }

    /// Returns the number of changes after which the command ends; `None` for no end.
    pub(crate) fn changes(&self) -> Option<u32> {
        self.changes.or_else(|| self.change.is_some().then_some(1))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadProfile {
    /// Behave like Envoy.
    Envoy,
    /// Behave like gRPC.
    Grpc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadOutput {
    /// A line for each round.
    Table,
    /// One JSON object for each round.
    Ndjson,
}

/// Share between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share(pub(crate) f64);

#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected a number from 0 to 1, such as 0.05, or a percentage such as 5%")]
pub(crate) struct InvalidShare;

impl FromStr for Share {
    type Err = InvalidShare;

    fn from_str(text: &str) -> Result<Self, InvalidShare> {
        let (number, divisor) = match text.strip_suffix('%') {
            Some(percent) => (percent, 100.0),
            None => (text, 1.0),
        };
        let share = number.parse::<f64>().map_err(|_| InvalidShare)? / divisor;
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(InvalidShare) }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        load: LoadArgs,
    }

    #[test]
    fn share_is_a_number_or_a_percentage() {
        assert_eq!("0.05".parse(), Ok(Share(0.05)));
        assert_eq!("5%".parse(), Ok(Share(0.05)));
        assert_eq!("1".parse(), Ok(Share(1.0)));
        for wrong in ["1.1", "-1", "101%", "NaN", "some", ""] {
            assert_eq!(wrong.parse::<Share>(), Err(InvalidShare), "{wrong}");
        }
    }

    #[test]
    fn connections_and_changes_have_defaults() {
        let load = |args: &[&str]| {
            let args = ["load", "127.0.0.1:18000"].iter().chain(args);
            Only::try_parse_from(args).unwrap().load
        };
        assert_eq!(load(&[]).connections(), 1);
        assert_eq!(load(&["--clients", "10000"]).connections(), 100);
        assert_eq!(load(&["--clients", "3", "--connections", "10"]).connections(), 3);
        assert_eq!(load(&[]).changes(), None);
        assert_eq!(load(&["--change", "true"]).changes(), Some(1));
        assert_eq!(load(&["--change", "true", "--changes", "4"]).changes(), Some(4));
    }
}
