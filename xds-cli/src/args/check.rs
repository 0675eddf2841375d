//! Arguments of `xds check` and `xds compat`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use thiserror::Error;
use xds_format::Axis;

use super::{DescriptorArgs, ExternalArgs, GuardArgs};

/// Check the resources in a directory without serving them, or a bootstrap and the files it names.
///
/// Reports broken files, dangling references, resources that nothing refers to and deprecated
/// fields. With --validate it also reports resources that proxies would reject. The exit code is 1
/// if there is an error; warnings do not change it. Files are read as by `xds serve`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("checked").required(true).args(["directory", "bootstrap", "proxy_bootstrap"]))]
pub(crate) struct CheckArgs {
    /// Directory with the resource files.
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// Check a bootstrap instead of a directory, and all files that it names: certificates, keys,
    /// tokens, and files of resources with everything in them.
    ///
    /// A file with `xds_servers` is a gRPC bootstrap (JSON). A file with `static_resources`,
    /// `dynamic_resources` or other parts of Envoy's bootstrap is one of Envoy (JSON or YAML); the
    /// constraints of the API are checked, too, because Envoy checks them. Relative paths in the
    /// bootstrap start at the working directory.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["validate", "external", "guard"])]
    pub(crate) bootstrap: Option<PathBuf>,

    /// Check an Envoy bootstrap, like --bootstrap without detecting its kind.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["validate", "external", "guard"])]
    pub(crate) proxy_bootstrap: Option<PathBuf>,

    /// Check this file of views too, as `xds serve` reads it, and the references within each view
    /// that clients can have. The files of a subdirectory belong to the view of the same name.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bootstrap", "proxy_bootstrap"])]
    pub(crate) views: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) guards: GuardArgs,

    /// Check resources against the constraints of the API, too (validate.rules). Proxies reject a
    /// resource that violates one.
    #[arg(long)]
    pub(crate) validate: bool,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: CheckOutput,

    #[command(flatten)]
    pub(crate) external: ExternalArgs,

    #[command(flatten)]
    pub(crate) descriptors: DescriptorArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckOutput {
    /// One line per finding, and a summary line with the counts.
    Text,
    /// One JSON object per finding.
    Ndjson,
    /// Annotations of GitHub Actions, and a summary line.
    Github,
    /// A SARIF 2.1.0 log, as code review tools read it.
    Sarif,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompatOutput {
    /// One line per finding, and a summary line with the counts.
    Text,
    /// One JSON object per finding.
    Ndjson,
}

/// Compare two versions of a protobuf schema and report incompatible changes.
///
/// A change can break the binary encoding, JSON and YAML, the type URL of an Any, service and REST
/// paths, validation, or programs that use generated code. Each finding names the changed element
/// and the rule that it breaks. The exit code is 1 if there is an incompatible change.
///
/// OLD and NEW are descriptor sets, created with
/// `protoc --include_imports --descriptor_set_out=FILE` or `buf build -o FILE`.
#[derive(Args, Debug)]
pub(crate) struct CompatArgs {
    /// Descriptor set of the version in use.
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,

    /// Descriptor set of the next version.
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,

    /// Do not report breaks of this kind. May be given several times.
    ///
    /// AXIS is binary, text, type-url, service-path, rest-path, validation, code (programs that use
    /// generated code) or policy (a field removed without deprecation, or its number not reserved).
    #[arg(long, value_name = "AXIS", value_parser = parse_axis)]
    pub(crate) ignore: Vec<Axis>,

    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: CompatOutput,
}

fn parse_axis(text: &str) -> Result<Axis, InvalidAxis> {
    Axis::ALL.into_iter().find(|axis| axis.id() == text).ok_or(InvalidAxis)
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected binary, text, type-url, service-path, rest-path, validation, code or policy")]
pub(crate) struct InvalidAxis;
