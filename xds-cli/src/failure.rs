//! Errors of commands, and their exit codes.

use core::time::Duration;
use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use thiserror::Error;
use xds_bootstrap::BootstrapError;
use xds_format::FormatError;
use xds_tokio::{client::InvalidAddress, credentials::CredentialsError};

use crate::text::{count, escaped};

#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// Wrong usage that depends on more than one argument.
    #[error("{0}")]
    Usage(String),
    /// Input that cannot be converted. The message names the file.
    #[error("{0}")]
    Convert(String),
    /// Input that is not a dump. The message names the file.
    #[error("{0}")]
    Dump(String),
    #[error("cannot listen on {address}: {why}")]
    Listen { address: String, why: io::Error },
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    #[error("cannot resolve {address}: {why}")]
    Resolve { address: String, why: io::Error },
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// Error in a proxy bootstrap, with the file and, if one field is at fault, its position.
    #[error("{place}: {why}")]
    ProxyBootstrap { place: String, why: String },
    #[error("{place}: {why}")]
    Server { place: String, why: Box<Self> },
    /// Error of credentials, with the field and a separator.
    #[error("{field}{why}")]
    Credentials { field: String, why: CredentialsError },
    #[error("cannot read the directory {}: {}", shown(.directory), reason(.directory, .why))]
    Directory { directory: PathBuf, why: io::Error },
    /// Invalid files at the start. Each error has already been printed.
    #[error(
        "{} is not served: {}; with --strict or --validate everything must be valid at the start",
        shown(.directory), count(*.errors, "error")
    )]
    NotValid { directory: PathBuf, errors: u32 },
    /// Invalid file of views at the start. Each error has already been printed.
    #[error("{} is not used: {}", shown(.file), count(*.errors, "error"))]
    InvalidViews { file: PathBuf, errors: u32 },
    /// Invalid policy of rollouts. Each error has already been printed.
    #[error("{} is not used: {}", shown(.file), count(*.errors, "error"))]
    InvalidPolicy { file: PathBuf, errors: u32 },
    /// Rollouts that cannot continue, or a command for them that is not possible.
    #[error("{0}")]
    Rollout(String),
    /// Change that was not written to etcd.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "of commands that write to etcd"))]
    #[error("nothing was written: {0}")]
    NotWritten(String),
    #[error("cannot export to {}: {why}", shown(.directory))]
    Export { directory: PathBuf, why: io::Error },
    /// Errors found by a check. Each has already been printed.
    #[error("{}", count(*.0, "error"))]
    Found(u32),
    #[error("cannot read {}: {why}", shown(.file))]
    Unreadable { file: PathBuf, why: io::Error },
    #[error("{}: the descriptor set is empty", shown(.file))]
    EmptyDescriptors { file: PathBuf },
    /// Error in a schema. It names the file.
    #[error(transparent)]
    Schema(#[from] FormatError),
    /// Incompatible changes of a schema. Each has already been printed.
    #[error("{}", count(*.0, "break"))]
    Incompatible(u32),
    #[error("cannot reach {address}: {why}")]
    Unreached { address: String, why: String },
    /// Server that was reached and refuses the credentials, or what they permit.
    #[error("{address} denies access: {why}")]
    Denied { address: String, why: String },
    /// Request that a server has received and that failed there.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "of commands that use etcd"))]
    #[error("the request to {address} failed: {why}")]
    Request { address: String, why: String },
    #[error("cannot read the status of {address}: {why}")]
    Status { address: String, why: String },
    /// Differences between two addresses, or from what was expected. Each has already been printed.
    #[error("{}", count(*.0, "difference"))]
    Different(u32),
    /// Replicas that cannot be read or differ. The details have already been printed.
    #[error("{0}")]
    Replicas(String),
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error("the server stopped: {0}")]
    Serving(String),
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// Failed simulation. The details have already been printed.
    #[error("{0}")]
    Simulated(String),
    /// Failed simulations. The verdict has already been printed.
    #[error("failed")]
    Verdict,
    /// Resources that were not fetched. The reason for each has already been printed.
    #[error("not all resources were fetched")]
    NotFetched(Shortfall),
    /// Request without an answer. The reason has already been printed.
    #[error("the request fails")]
    NotRouted,
    /// Command that a signal has ended.
    #[error("interrupted")]
    Interrupted,
    #[error("cannot write {}: {why}", shown(.file))]
    Artifact { file: PathBuf, why: io::Error },
    /// Reason for which the load could not be applied or measured.
    #[error("{0}")]
    Load(String),
    #[error("the demo failed: {0}")]
    Demo(#[from] DemoFailure),
}

/// Exit code of an interrupted command, as shells define it (128 + SIGINT).
pub(crate) const INTERRUPTED: u8 = 130;

impl Failure {
    /// Whether the error is not printed, because the reader of standard output has gone, as with
    /// `head`, or because the result has already been printed.
    pub(crate) fn is_silent(&self) -> bool {
        match self {
            Self::Output(why) => why.kind() == io::ErrorKind::BrokenPipe,
            Self::NotFetched(_) | Self::Verdict => true,
            _ => false,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Output(_) if self.is_silent() => ExitCode::SUCCESS,
            Self::Listen { .. } | Self::Address(_) | Self::Resolve { .. } => ExitCode::from(3),
            Self::NotFetched(Shortfall::NotReached) => ExitCode::from(4),
            Self::NotFetched(Shortfall::DoesNotExist) => ExitCode::from(5),
            Self::Usage(_) => ExitCode::from(2),
            Self::Unreached { .. } => ExitCode::from(4),
            Self::Interrupted => ExitCode::from(INTERRUPTED),
            Self::Server { why, .. } => why.exit_code(),
            Self::NotFetched(Shortfall::Other)
            | Self::Convert(_)
            | Self::Dump(_)
            | Self::Bootstrap(_)
            | Self::ProxyBootstrap { .. }
            | Self::Credentials { .. }
            | Self::Directory { .. }
            | Self::NotValid { .. }
            | Self::InvalidViews { .. }
            | Self::InvalidPolicy { .. }
            | Self::Rollout(_)
            | Self::Denied { .. }
            | Self::Request { .. }
            | Self::NotWritten(_)
            | Self::Export { .. }
            | Self::Found(_)
            | Self::Unreadable { .. }
            | Self::EmptyDescriptors { .. }
            | Self::Schema(_)
            | Self::Incompatible(_)
            | Self::Status { .. }
            | Self::Different(_)
            | Self::Replicas(_)
            | Self::Runtime(_)
            | Self::Serving(_)
            | Self::Output(_)
            | Self::Simulated(_)
            | Self::Verdict
            | Self::Artifact { .. }
            | Self::NotRouted
            | Self::Demo(_)
            | Self::Load(_) => ExitCode::from(1),
        }
    }
}

/// Reason why resources were not fetched, the least important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shortfall {
    /// A resource does not exist.
    DoesNotExist,
    /// The server was never reached.
    NotReached,
    /// A resource was rejected, or there was no answer in time.
    Other,
}

#[derive(Debug, Error)]
pub(crate) enum DemoFailure {
    #[error("cannot listen: {0}")]
    Listen(io::Error),
    #[error("the embedded configuration is invalid: {0}")]
    Configuration(String),
    #[error("the server rejects the configuration: {0}")]
    Refused(String),
    #[error("timed out after {} s: {what}", limit.as_secs())]
    TooLate { what: &'static str, limit: Duration },
    #[error("the server has sent {responses} responses instead of {expected}")]
    SentTooMuch { expected: u64, responses: u64 },
    #[error("the client or the server ended unexpectedly")]
    Ended,
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "of the demo with etcd"))]
    #[error(
        "there is no program `etcd` in the search path: install it, for example with `apt install \
         etcd-server`, or name it with --etcd"
    )]
    NoEtcd,
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "of the demo with etcd"))]
    #[error("cannot run {name}: {why}")]
    Process { name: String, why: io::Error },
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "of the demo with etcd"))]
    #[error("etcd: {0}")]
    Source(String),
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "of the demo with etcd"))]
    #[error("the client moved to another replica, and {what}")]
    Moved { what: &'static str },
}

/// Returns the result of a command that has printed its findings. A reader of standard output that
/// has gone, as with `head`, does not change the verdict.
pub(crate) fn judged(
    printed: Result<(), Failure>,
    verdict: Result<(), Failure>,
) -> Result<(), Failure> {
    match printed {
        Err(why) if !why.is_silent() => Err(why),
        _ => verdict,
    }
}

/// Returns a path for an error, on one line.
fn shown(path: &Path) -> String {
    escaped(&path.display().to_string())
}

/// Returns the reason of an error without the path at its beginning.
fn reason(path: &Path, why: &io::Error) -> String {
    if path.is_file() {
        return "it is a file: name the directory that contains it".to_owned();
    }
    let text = why.to_string();
    let own = format!("{}: ", path.display());
    text.strip_prefix(&own).map(str::to_owned).unwrap_or(text)
}
