//! Arguments of `xds convert`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use xds_format::Format;

use super::DescriptorArgs;

/// Convert resources and discovery messages between YAML, JSON, proto text and binary.
///
/// Reads a resource (an object with `@type`), a list of resources, a DiscoveryResponse (an object
/// with `resources`), or a YAML stream of these, as `xds serve` does. Binary input and output are a
/// DiscoveryResponse. With --type, any other message can be converted.
///
/// The result has the same meaning. What the output format cannot express is an error, so nothing
/// is lost, except comments and the order of fields. Secrets are not hidden.
#[derive(Args, Debug)]
pub(crate) struct ConvertArgs {
    /// File to convert, or - for standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) input: PathBuf,

    /// Format of the output [default: selected by the suffix of the -o file].
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<ConvertFormat>,

    /// Format of the input [default: selected by the suffix of FILE: .json, .yaml, .yml, .pb_text,
    /// .textproto, .txtpb or .pb].
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<ConvertFormat>,

    /// Type of messages that do not state one: JSON and YAML without `@type`, proto text without a
    /// header, and binary that is not a DiscoveryResponse.
    ///
    /// TYPE is lds, rds, srds, vhds, cds, eds, sds, ecds, rtds, a type URL, or the name of a message
    /// such as envoy.config.bootstrap.v3.Bootstrap or, if no other message has the same last part,
    /// Bootstrap.
    ///
    /// Binary output is then one message of this type, and not a DiscoveryResponse. JSON and YAML
    /// have `@type` only if it is the type of a discovery service.
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) message_type: Option<String>,

    /// Write to this file instead of standard output, which `-` means too. The file is replaced atomically, after the
    /// conversion has succeeded. If it contains secrets, only its owner can read it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write nothing. Convert, convert back, and compare: the exit code is 1 if the output format
    /// cannot express the input.
    #[arg(long, conflicts_with = "output")]
    pub(crate) check: bool,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConvertFormat {
    #[value(alias = "yml")]
    Yaml,
    Json,
    #[value(aliases = ["text", "txtpb", "pb_text"])]
    Textproto,
    #[value(alias = "pb")]
    Binary,
}

impl From<ConvertFormat> for Format {
    fn from(format: ConvertFormat) -> Self {
        match format {
            ConvertFormat::Yaml => Self::Yaml,
            ConvertFormat::Json => Self::Json,
            ConvertFormat::Textproto => Self::Text,
            ConvertFormat::Binary => Self::Binary,
        }
    }
}
