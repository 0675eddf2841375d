//! The command line of `xds serve`.

use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thiserror::Error;
use xds_tokio::credentials::CredentialsError;

use super::{DescriptorArgs, ElsewhereArgs, flag_of, parse_duration};

/// Serve the resources in a directory, and follow its files as they change.
///
/// Files are .json, .yaml, .yml, .pb_text, .textproto, .txtpb or .pb. Each holds one resource (an
/// object with "@type"), a list of them, several YAML documents, or an object with "resources".
/// Hidden files and other suffixes are passed over. A file that is broken keeps the resources it
/// had when it was last good. Until every file has been valid once, clients wait.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The directory.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Where to listen: HOST:PORT, as in 127.0.0.1:18000, :PORT for all interfaces, or unix:PATH for a socket
    /// file. With port 0 on a free port, which is printed.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: String,

    /// The permissions of socket files, in octal: whoever may write to one may connect. Only the owner by default.
    #[arg(long, value_name = "MODE", value_parser = parse_mode, default_value = "600")]
    pub(crate) socket_mode: u32,

    /// Where to serve REST-JSON as well: a client posts its request to a path such as
    /// /v3/discovery:clusters, and asks again after a while. With TLS it speaks TLS, too.
    #[arg(long, value_name = "ADDR")]
    pub(crate) rest: Option<String>,

    /// How long a request over REST is held while there is nothing new: less than its client waits. Proxies
    /// wait for 1s unless told otherwise.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "25s", requires = "rest")]
    pub(crate) rest_hold: Duration,

    /// Where to tell as well, over gRPC, what each client has been sent and has accepted: client status
    /// discovery (CSDS). Whoever can call it reads the configuration of everybody but for secrets, so
    /// listen where only operators come, as on 127.0.0.1:18002. With TLS it speaks TLS, too.
    #[arg(long, value_name = "ADDR")]
    pub(crate) csds: Option<String>,

    /// Write what is served into this directory as well, one file of JSON for each type, as in cds.json: a
    /// proxy can subscribe to these without a server. A file is replaced when its resources change, by
    /// renaming. Secrets are written as they are, into files with mode 0600. The directory is created with
    /// mode 0700; one that exists keeps its mode.
    #[arg(long, value_name = "DIR")]
    pub(crate) export: Option<PathBuf>,

    /// Take a file for broken if one of its resources breaks a constraint that the API states
    /// (validate.rules), so that proxies would reject it. If a file is broken at the start, exit with code 1
    /// before listening.
    #[arg(long)]
    pub(crate) validate: bool,

    /// Refuse a change of the files after which a reference would lead nowhere, as a route to a cluster that
    /// is not there: it is said, and what is served stays as it is. If that, or a broken file, is found at
    /// the start, exit with code 1 before listening. Otherwise it is only said, before it is served.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Refuse a change of the files that removes a larger share of the served resources, which stay as they
    /// are. By default any share may be removed.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) max_removal: Option<u8>,

    /// In what order a change goes to a client. With ack-gated each type waits until the client has accepted
    /// what it refers to, but no longer than 5 s for what the client has asked for and never received.
    #[arg(long, value_name = "POLICY", default_value = "order")]
    pub(crate) ordering: Ordering,

    /// How to say what happens.
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ServeOutput,

    /// Stop by itself after this time, as in 500ms, 20s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) lifetime: Option<Duration>,

    #[command(flatten)]
    pub(crate) elsewhere: ElsewhereArgs,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,

    // Last: its heading is that of all flags behind it, too.
    #[command(flatten)]
    pub(crate) tls: ServerTlsArgs,
}

/// How connections are secured.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS (files are read again when they change)")]
pub(crate) struct ServerTlsArgs {
    /// Speak TLS, and show clients this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Take only clients whose certificates the root certificates in this file vouch for (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) client_ca: Option<PathBuf>,
}

impl ServerTlsArgs {
    /// The flag that names the file that something is wrong with, to stand before what is.
    pub(crate) fn flag_of(&self, why: &CredentialsError) -> String {
        flag_of(
            why,
            [
                ("--tls-cert", &self.tls_cert),
                ("--tls-key", &self.tls_key),
                ("--client-ca", &self.client_ca),
            ],
        )
    }
}

/// In what order the types of one stream are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ordering {
    /// As they become due.
    Off,
    /// Clusters, endpoints, listeners, routes, one right behind the other; what is deleted last.
    Order,
    /// Make before break: listeners and routes once the client has accepted the clusters, endpoints and secrets that
    /// they refer to, as far as it subscribes to them. Deleted resources stay until nothing that the client has
    /// accepted refers to them.
    AckGated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeOutput {
    /// A table of nodes and types whenever something changed.
    Table,
    /// One JSON object for each event.
    Ndjson,
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected permissions in octal, as in 600 or 660")]
pub(crate) struct InvalidMode;

fn parse_mode(text: &str) -> Result<u32, InvalidMode> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).ok_or(InvalidMode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_octal() {
        assert_eq!(parse_mode("660"), Ok(0o660));
        for text in ["", "8", "rw", "1777", "-1"] {
            assert_eq!(parse_mode(text), Err(InvalidMode), "{text}");
        }
    }
}
