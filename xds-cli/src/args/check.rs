//! What can be said of what is looked at before it is used: resources and schemas.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thiserror::Error;
use xds_format::Axis;

use super::{DescriptorArgs, ElsewhereArgs};

/// Look at the resources in a directory before they are served.
///
/// Tells which files are broken, which resources refer to others that are missing, and which nothing
/// refers to; with --validate also which of them proxies would reject. With an error the exit code is 1; warnings are for what
/// may be on purpose. Files are as for `xds serve`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The directory.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Hold resources against the constraints that the API states (validate.rules): what breaks one,
    /// proxies reject.
    #[arg(long)]
    pub(crate) validate: bool,

    /// How to say what was found.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: CheckOutput,

    #[command(flatten)]
    pub(crate) elsewhere: ElsewhereArgs,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckOutput {
    /// A line for each finding, and one with how many there are.
    Text,
    /// One JSON object for each finding.
    Ndjson,
}

/// Tell what breaks between two versions of a schema.
///
/// Whoever has the one version meets those who have the other: on the wire, in JSON and YAML, by the
/// type URL of an "Any", at the path of a service, in generated code. Each change is told with the
/// rule that it breaks and where. With a break the exit code is 1. The schemas are descriptor sets,
/// from protoc --include_imports --descriptor_set_out=FILE or buf build -o FILE.
#[derive(Args, Debug)]
pub(crate) struct CompatArgs {
    /// The descriptor set that is out there.
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,

    /// The one that is to follow it.
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,

    /// What may break: binary, text, type-url, service-path, rest-path, validation, code (the
    /// programs that use generated code) or policy (removed without a deprecation, a number left
    /// free). May be given several times.
    #[arg(long, value_name = "AXIS", value_parser = parse_axis)]
    pub(crate) ignore: Vec<Axis>,

    /// How to say what was found.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: CheckOutput,
}

fn parse_axis(text: &str) -> Result<Axis, InvalidAxis> {
    Axis::ALL.into_iter().find(|axis| axis.id() == text).ok_or(InvalidAxis)
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected binary, text, type-url, service-path, rest-path, validation, code or policy")]
pub(crate) struct InvalidAxis;
