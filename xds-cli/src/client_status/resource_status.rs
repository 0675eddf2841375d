//! Status of a resource in a client.

use xds_core::proto::{ClientResourceStatus, ConfigStatus};

/// Status of a resource, as a client, a management server or Envoy's admin interface reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResourceStatus {
    // Reported by clients.
    Acked,
    Nacked,
    Requested,
    DoesNotExist,
    ReceivedError,
    Timeout,
    // Reported by management servers.
    Synced,
    Stale,
    NotSent,
    Error,
    // Derived from the part of a dump in which a resource is.
    Static,
    Warming,
    Draining,
    Unknown,
}

/// Whether a client uses a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// The client has the resource.
    Accepted,
    /// The client rejected the newest version.
    Rejected,
    /// The client does not have the resource.
    Absent,
}

impl ResourceStatus {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Acked => "ACKED",
            Self::Nacked => "NACKED",
            Self::Requested => "REQUESTED",
            Self::DoesNotExist => "DOES_NOT_EXIST",
            Self::ReceivedError => "RECEIVED_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::Synced => "SYNCED",
            Self::Stale => "STALE",
            Self::NotSent => "NOT_SENT",
            Self::Error => "ERROR",
            Self::Static => "STATIC",
            Self::Warming => "WARMING",
            Self::Draining => "DRAINING",
            Self::Unknown => "UNKNOWN",
        }
    }

    pub(crate) const fn acceptance(self) -> Acceptance {
        match self {
            Self::Acked
            | Self::Synced
            | Self::Stale
            | Self::Static
            | Self::Warming
            | Self::Draining => Acceptance::Accepted,
            Self::Nacked | Self::Error => Acceptance::Rejected,
            Self::Requested
            | Self::DoesNotExist
            | Self::ReceivedError
            | Self::Timeout
            | Self::NotSent
            | Self::Unknown => Acceptance::Absent,
        }
    }

    /// Returns the status for the enum values of a message; `None` if they state nothing.
    ///
    /// Clients set `client`, management servers set `config`.
    pub(crate) fn of(client: ClientResourceStatus, config: ConfigStatus) -> Option<Self> {
        let of_client = match client {
            ClientResourceStatus::Unknown => None,
            ClientResourceStatus::Requested => Some(Self::Requested),
            ClientResourceStatus::DoesNotExist => Some(Self::DoesNotExist),
            ClientResourceStatus::Acked => Some(Self::Acked),
            ClientResourceStatus::Nacked => Some(Self::Nacked),
            ClientResourceStatus::ReceivedError => Some(Self::ReceivedError),
            ClientResourceStatus::Timeout => Some(Self::Timeout),
        };
        of_client.or(match config {
            ConfigStatus::Unknown => None,
            ConfigStatus::Synced => Some(Self::Synced),
            ConfigStatus::NotSent => Some(Self::NotSent),
            ConfigStatus::Stale => Some(Self::Stale),
            ConfigStatus::Error => Some(Self::Error),
        })
    }
}
