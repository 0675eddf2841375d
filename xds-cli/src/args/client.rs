//! Arguments that the commands acting as a client share: servers, variant of the protocol, TLS.

use core::time::Duration;
use std::path::PathBuf;

use clap::{Args, builder::NonEmptyStringValueParser};
use xds_tokio::credentials::CredentialsError;

use super::{DescriptorArgs, NodeArgs, flag_of, parse_duration};

/// Arguments of a command that acts as a client.
///
/// Flatten it last: the heading of its last options also applies to all options after it.
#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,

    #[command(flatten)]
    pub(crate) source: SourceArgs,

    #[command(flatten)]
    pub(crate) node: NodeArgs,

    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
}

/// Sources of the resources.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub(crate) struct SourceArgs {
    /// Address of the management server, such as 127.0.0.1:18000 or unix:/run/xds.sock
    /// [default: the environment variable XDS_SERVER, or 127.0.0.1:18000].
    ///
    /// The prefix https:// selects TLS.
    #[arg(long, value_name = "ADDR")]
    pub(crate) server: Option<String>,

    /// Fallback server, used while the servers before it fail. May be given several times.
    #[arg(long, value_name = "ADDR")]
    pub(crate) fallback: Vec<String>,

    /// Take servers, authorities, credentials and node from a gRPC bootstrap file (JSON), and
    /// behave like a gRPC client.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "fallback", "tls", "ca", "cert", "key", "server_name", "token_file"])]
    pub(crate) bootstrap: Option<PathBuf>,

    /// Subscribe like a proxy with this Envoy bootstrap file (JSON or YAML).
    ///
    /// Listeners and clusters come from the sources that the bootstrap names, other types come over
    /// the aggregated stream, and static resources are printed first. Connections to clusters with
    /// a transport socket use the TLS options below; the transport socket itself is not read.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "bootstrap", "file", "fallback", "delta", "per_type", "poll"])]
    pub(crate) proxy_bootstrap: Option<PathBuf>,

    /// Read resources from a file instead of a server.
    ///
    /// The suffix selects the format: JSON, YAML, protobuf text or protobuf binary.
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["server", "bootstrap", "fallback", "delta", "per_type", "poll"])]
    pub(crate) file: Option<String>,

    /// Use the incremental (delta) variant of the protocol instead of state of the world.
    #[arg(long)]
    pub(crate) delta: bool,

    /// Open one stream for each type, to its own discovery service, instead of one aggregated
    /// stream.
    #[arg(long)]
    pub(crate) per_type: bool,

    /// Poll each type over REST-JSON instead of using a stream. The value is the pause after each
    /// response, such as 5s; at least 10ms.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with_all = ["bootstrap", "delta", "per_type"])]
    pub(crate) poll: Option<Duration>,
}

/// Environment variable with the address of the server.
const SERVER_VARIABLE: &str = "XDS_SERVER";
/// Address of the server if none is given: the one that the documentation of `serve` uses.
const DEFAULT_SERVER: &str = "127.0.0.1:18000";

impl SourceArgs {
    /// Returns the environment variable with the server, if it has one.
    pub(crate) fn server_place(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        let is_set = variable(SERVER_VARIABLE).is_some_and(|server| !server.is_empty());
        (self.server.is_none() && is_set).then(|| SERVER_VARIABLE.to_owned())
    }

    /// Returns the server of the flag, of the environment variable, or the default, and for the
    /// last two a note about the choice.
    ///
    /// `variable` looks up an environment variable.
    pub(crate) fn server(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> (String, Option<String>) {
        if let Some(server) = &self.server {
            return (server.clone(), None);
        }
        match variable(SERVER_VARIABLE).filter(|server| !server.is_empty()) {
            Some(server) => {
                let note = format!("using the server {server} ({SERVER_VARIABLE})");
                (server, Some(note))
            }
            None => {
                let note = format!(
                    "using the server {DEFAULT_SERVER} (default; --server or {SERVER_VARIABLE} \
                     selects another)"
                );
                (DEFAULT_SERVER.to_owned(), Some(note))
            }
        }
    }
}

/// TLS options of connections to the servers given on the command line.
#[derive(Args, Debug)]
#[command(next_help_heading = "TLS (each of these options enables it, and so does https://)")]
pub(crate) struct ChannelArgs {
    /// Use TLS, and verify the server with the system's root certificates.
    #[arg(long)]
    pub(crate) tls: bool,

    /// Verify the server with the root certificates in this file (PEM) instead.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// Client certificate to present to the server (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,

    /// Private key of the client certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,

    /// Name expected in the server's certificate, instead of the host in the address.
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,

    /// Send the JWT in this file with each call. The file is read again for each call.
    #[arg(long, value_name = "FILE")]
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        client: ClientArgs,
    }

    #[test]
    fn server_is_the_flag_then_the_variable_then_the_default() {
        let server = |args: &[&str], variable: Option<&str>| {
            let args = ["xds"].iter().chain(args);
            let source = Only::try_parse_from(args).unwrap().client.source;
            source.server(|name| variable.filter(|_| name == "XDS_SERVER").map(str::to_owned))
        };
        assert_eq!(server(&["--server", "a:1"], Some("b:2")), ("a:1".to_owned(), None));
        let (of_variable, note) = server(&[], Some("b:2"));
        assert_eq!((&*of_variable, &*note.unwrap()), ("b:2", "using the server b:2 (XDS_SERVER)"));
        for unset in [None, Some("")] {
            let (default, note) = server(&[], unset);
            assert_eq!(default, "127.0.0.1:18000");
            assert!(note.unwrap().contains("127.0.0.1:18000 (default"));
        }
    }
}
