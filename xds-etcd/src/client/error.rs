//! Errors of calls.

use core::{error::Error, iter};

use tonic::{Code, Status};
use xds_source::SourceError;

/// Failure of a call to an etcd cluster.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// No member of the cluster can be reached.
    #[error("no member of the etcd cluster can be reached: {0}")]
    Unreachable(String),
    /// The cluster rejects the user or the password, or the user lacks a permission.
    #[error("etcd denies access: {0}")]
    Denied(String),
    /// A member rejected the call, or the call was interrupted. Unless the status shows a
    /// rejection, it is unknown whether a write was applied.
    #[error("etcd {member}: {} ({:?})", .status.message(), .status.code())]
    Call {
        /// Address of the member.
        member: String,
        /// Status of the call.
        status: Status,
    },
    /// A member sent a malformed or unexpected answer.
    #[error("etcd {member}: {why}")]
    Malformed {
        /// Address of the member.
        member: String,
        /// Description of the fault.
        why: String,
    },
}

impl EtcdError {
    /// Returns whether the fault may lie with the member, so that another member may succeed: the
    /// member is unreachable, has no leader, or is overloaded.
    #[must_use]
    pub fn is_of_member(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Call { status, .. } => {
                let codes = [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled];
                codes.contains(&status.code()) || status.code() == Code::Unknown
            }
            Self::Denied(_) | Self::Malformed { .. } => false,
        }
    }

    /// Whether the token of the user has expired.
    pub(crate) fn is_expired_token(&self) -> bool {
        let of_token = |status: &Status| {
            status.code() == Code::Unauthenticated
                || status.message().contains("revision of auth store is old")
        };
        matches!(self, Self::Call { status, .. } if of_token(status))
    }

    /// Whether the requested revision is no longer known.
    pub(crate) fn is_compacted(&self) -> bool {
        let of_revision = |status: &Status| status.message().contains("has been compacted");
        matches!(self, Self::Call { status, .. } if of_revision(status))
    }

    /// Returns the error for a status. A status with a source was not sent by the member: the
    /// connection broke.
    pub(crate) fn of_status(member: &str, status: Status) -> Self {
        let status = match status.source() {
            Some(source) => {
                Status::unavailable(format!("the connection broke: {}", causes(source)))
            }
            None => status,
        };
        let message = status.message();
        match status.code() {
            Code::PermissionDenied => Self::Denied(format!("{member}: {message}")),
            Code::InvalidArgument if message.contains("authentication failed") => {
                Self::Denied(format!("{member}: {message}"))
            }
            Code::InvalidArgument if message.contains("user name is empty") => {
                Self::Denied(format!("{member}: the cluster requires a user with a password"))
            }
            _ => Self::Call { member: member.to_owned(), status },
        }
    }
}

/// Returns an error followed by its causes.
fn causes(error: &(dyn Error + 'static)) -> String {
    let chain = iter::successors(Some(error), |&error| error.source());
    let mut texts: Vec<_> = chain.map(ToString::to_string).collect();
    texts.dedup();
    texts.join(": ")
}

impl From<EtcdError> for SourceError {
    fn from(error: EtcdError) -> Self {
        let text = error.to_string();
        match error {
            EtcdError::Denied(_) => Self::Denied(text),
            EtcdError::Malformed { .. } => Self::Failed(text),
            EtcdError::Unreachable(_) | EtcdError::Call { .. } => Self::Unavailable(text),
        }
    }
}
