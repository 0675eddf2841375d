//! Arguments of `xds route`.

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use thiserror::Error;

use super::{ChannelArgs, DescriptorArgs, parse_duration};

/// Explain which route a request takes.
#[derive(Debug, Subcommand)]
pub(crate) enum RouteCommand {
    Explain(Box<ExplainArgs>),
}

/// Explain which route a request takes, and why no other.
///
/// Prints the listener, the virtual host, the first criterion that each earlier route does not meet,
/// the clusters with their shares, and their endpoints. With --expect it checks the routes of many
/// requests instead.
///
/// The exit code is 1 if the request fails (no virtual host, no route, a missing resource), or if a
/// request of --expect differs.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("resources").required(true).args(["directory", "server", "dump"]))]
pub(crate) struct ExplainArgs {
    /// Directory with the resource files.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// Fetch the resources from this management server, such as 127.0.0.1:18000 or
    /// unix:/run/xds.sock.
    ///
    /// The prefix https:// selects TLS.
    #[arg(long, value_name = "ADDR")]
    pub(crate) server: Option<String>,

    /// Read the resources from the JSON of Envoy's /config_dump?include_eds, or of a client status
    /// (CSDS). `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) dump: Option<PathBuf>,

    /// Host of the request (`:authority`), with or without a port.
    #[arg(long, value_name = "HOST", required_unless_present_any = ["target", "expect"])]
    pub(crate) host: Option<String>,

    /// Path of the request, with its query string.
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,

    /// HTTP method, or the full name of a gRPC method, such as /pkg.Service/Method
    /// [default: GET].
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Option<String>,

    /// Header of the request. May be given several times.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = parse_header)]
    pub(crate) headers: Vec<(String, String)>,

    /// Scheme of the request.
    #[arg(long, value_name = "SCHEME", default_value = "http")]
    pub(crate) scheme: Scheme,

    /// Target of a gRPC channel, such as xds:///greeter: its listener, and the host of its calls.
    /// Selects the rules of gRPC.
    #[arg(long, value_name = "URI", conflicts_with_all = ["host", "listener"])]
    pub(crate) target: Option<String>,

    /// Listener that receives the request [default: the only one with routes].
    #[arg(long, value_name = "NAME")]
    pub(crate) listener: Option<String>,

    /// Route configuration to use instead of the one that the listener names.
    #[arg(long, value_name = "NAME")]
    pub(crate) route_config: Option<String>,

    /// Rules of matching [default: grpc for --target and for listeners with an api_listener, else
    /// envoy].
    #[arg(long, value_name = "RULES")]
    pub(crate) rules: Option<RouteRules>,

    /// Check the requests in a file (YAML or JSON) instead. The file has this project's format or
    /// that of Envoy's router_check_tool.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["host", "path", "method", "headers", "target"])]
    pub(crate) expect: Option<PathBuf>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: RouteOutput,

    /// With --server: give up after this time.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "10s")]
    pub(crate) timeout: Duration,

    /// With --server: node id to send.
    #[arg(long, value_name = "ID", default_value = "xds-route")]
    pub(crate) node: String,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,

    // Must be last: its heading also applies to all options after it.
    #[command(flatten)]
    pub(crate) channel: ChannelArgs,
}

/// Rules of matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RouteRules {
    /// Envoy, as a proxy.
    Envoy,
    /// A gRPC client.
    Grpc,
}

impl RouteRules {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::Grpc => "grpc",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RouteOutput {
    /// Text for people; with --expect, one line per request.
    Text,
    /// One JSON object; with --expect, one per request and line.
    Json,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum InvalidHeader {
    #[error("expected NAME: VALUE")]
    Form,
    #[error("use {0} instead")]
    HasOption(&'static str),
}

/// Parses `NAME: VALUE`. Pseudo-headers, whose names begin with a colon, have options of their own.
fn parse_header(text: &str) -> Result<(String, String), InvalidHeader> {
    let colon = text.char_indices().skip(1).find(|(_, it)| *it == ':');
    let colon = colon.ok_or(InvalidHeader::Form)?.0;
    let (name, value) = (text.get(..colon), text.get(colon + 1..));
    let (name, value) = name.zip(value).ok_or(InvalidHeader::Form)?;
    let name = name.trim().to_ascii_lowercase();
    match &*name {
        ":path" => Err(InvalidHeader::HasOption("--path")),
        ":method" => Err(InvalidHeader::HasOption("--method")),
        ":scheme" => Err(InvalidHeader::HasOption("--scheme")),
        ":authority" => Err(InvalidHeader::HasOption("--host")),
        _ if name.is_empty() || name.contains(char::is_whitespace) => Err(InvalidHeader::Form),
        _ => Ok((name, value.trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_argument_is_a_name_and_a_value() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(parse_header("X-User: a:b "), pair("x-user", "a:b"));
        assert_eq!(parse_header(":protocol:websocket"), pair(":protocol", "websocket"));
        assert_eq!(parse_header(":Path: /x"), Err(InvalidHeader::HasOption("--path")));
        assert_eq!(parse_header("x:"), pair("x", ""));
        for text in ["", "x", ":x", " : x", "a b: c"] {
            assert_eq!(parse_header(text), Err(InvalidHeader::Form), "{text}");
        }
    }
}
