//! Client status discovery (CSDS).
//!
//! See [gRFC A40](https://github.com/grpc/proposal/blob/master/A40-csds-support.md).
//!
//! The report contains the cache as watchers see it: the resource in use as sent by the server, and
//! the error of the newest version. It is created in two steps, so that a client with many
//! resources is not blocked: [`Client::snapshot`] shares all payloads with the client, and
//! [`ClientSnapshot::into_message`] builds the message, on any thread. Reports contain wall-clock
//! times, which the client does not know; the caller supplies a [`WallClock`].
// B31, S3.057, IC32

use alloc::{
    string::{String, ToString as _},
    vec::Vec,
};

use bytes::Bytes;

use crate::{
    client::{
        Client,
        event::{
            error::WatchError,
            status::{FailedUpdate, ResourceState, ResourceStatus},
        },
    },
    proto::{
        self, ClientResourceStatus, ConfigStatus, UpdateFailureState,
        client_config::GenericXdsConfig,
    },
    text::{ResourceName, TypeUrl, Version},
    time::Time,
    types,
};

/// Parts of resources that a report contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contents {
    /// Complete resources, including private keys.
    All,
    /// Resources except secrets (SDS); the default.
    #[default]
    WithoutSecrets,
    /// No resources, only names, versions and states, as with `exclude_resource_contents`.
    None,
}

/// Wall-clock time at which a client's own clock shows [`Time::ZERO`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallClock {
    /// Nanoseconds since the start of 1970 in UTC.
    at_zero: i128,
}

impl WallClock {
    /// Creates a clock that shows `since_1970` when the client's clock shows `now`.
    #[must_use]
    pub fn new(since_1970: core::time::Duration, now: Time) -> Self {
        let shown = i128::try_from(since_1970.as_nanos()).unwrap_or(i128::MAX);
        Self { at_zero: shown.saturating_sub(i128::from(now.as_nanos())) }
    }

    /// Returns the wall-clock time at `time`.
    #[must_use]
    pub fn timestamp(self, time: Time) -> proto::Timestamp {
        const SECOND: i128 = 1_000_000_000;
        let shown = self.at_zero.saturating_add(i128::from(time.as_nanos()));
        proto::Timestamp {
            seconds: i64::try_from(shown.div_euclid(SECOND)).unwrap_or(i64::MAX),
            nanos: i32::try_from(shown.rem_euclid(SECOND)).unwrap_or(0),
        }
    }
}

impl Client {
    /// Returns a snapshot of all cached resources for client status discovery.
    #[must_use]
    pub fn snapshot(&self) -> ClientSnapshot {
        ClientSnapshot {
            node: self.node(),
            resources: self.status().map(|status| OwnedResourceStatus::new(&status)).collect(),
        }
    }

    /// Returns the node as sent to servers.
    #[must_use]
    pub fn node(&self) -> proto::Node {
        self.config.node.to_message(&self.config.profile)
    }
}

impl From<ResourceState> for ClientResourceStatus {
    /// Converts each state to its CSDS counterpart.
    // S3.069
    fn from(state: ResourceState) -> Self {
        match state {
            ResourceState::Requested => Self::Requested,
            ResourceState::DoesNotExist => Self::DoesNotExist,
            ResourceState::Acked => Self::Acked,
            ResourceState::Nacked => Self::Nacked,
            ResourceState::ReceivedError => Self::ReceivedError,
            ResourceState::Timeout => Self::Timeout,
        }
    }
}

/// Snapshot of a client's resources. Payloads and names are shared with the client, not copied.
#[derive(Clone, Debug)]
pub struct ClientSnapshot {
    node: proto::Node,
    resources: Vec<OwnedResourceStatus>,
}

/// Owned [`ResourceStatus`].
#[derive(Clone, Debug)]
struct OwnedResourceStatus {
    type_url: TypeUrl,
    name: ResourceName,
    state: ResourceState,
    bytes: Option<Bytes>,
    version: Version,
    updated: Option<Time>,
    error: Option<WatchError>,
    failed: Option<FailedUpdate>,
}

impl ClientSnapshot {
    /// Converts the snapshot to a CSDS message. `scope` is the gRPC target of the client; it
    /// distinguishes the clients of one process, see
    /// [gRFC A71](https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md).
    #[must_use]
    pub fn into_message(
        self,
        scope: impl Into<String>,
        contents: Contents,
        clock: WallClock,
    ) -> proto::ClientConfig {
        let config = |held: OwnedResourceStatus| held.into_config(contents, clock);
        proto::ClientConfig {
            node: Some(self.node),
            generic_xds_configs: self.resources.into_iter().map(config).collect(),
            client_scope: scope.into(),
            ..proto::ClientConfig::default()
        }
    }
}

impl OwnedResourceStatus {
    fn new(status: &ResourceStatus<'_>) -> Self {
        Self {
            type_url: status.type_url.clone(),
            name: status.name.clone(),
            state: status.state,
            bytes: status.bytes.cloned(),
            version: status.version.clone(),
            updated: status.updated,
            error: status.error.cloned(),
            failed: status.failed.cloned(),
        }
    }

    fn into_config(self, contents: Contents, clock: WallClock) -> GenericXdsConfig {
        let is_included = match contents {
            Contents::All => true,
            Contents::WithoutSecrets => self.type_url != types::SECRET,
            Contents::None => false,
        };
        // CM-06: the resource itself, without its wrapper.
        let any = |bytes: Option<Bytes>| {
            let value = bytes.filter(|_| is_included)?;
            Some(proto::Any { type_url: self.type_url.to_string(), value })
        };
        let (failed_bytes, failed_at, failed_version) = match self.failed {
            Some(FailedUpdate { bytes, received, version }) => {
                (bytes, Some(clock.timestamp(received)), version.to_string())
            }
            None => (None, None, String::new()),
        };
        let error_state = self.error.map(|error| UpdateFailureState {
            failed_configuration: any(failed_bytes),
            last_update_attempt: failed_at,
            details: error.to_string(),
            version_info: failed_version,
        });
        GenericXdsConfig {
            type_url: self.type_url.to_string(),
            name: self.name.to_string(),
            version_info: self.version.to_string(),
            xds_config: any(self.bytes),
            last_updated: self.updated.map(|updated| clock.timestamp(updated)),
            // A client does not know whether the server has sent its newest configuration.
            config_status: ConfigStatus::Unknown.into(),
            client_status: ClientResourceStatus::from(self.state).into(),
            error_state,
            is_static_resource: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::client::report::csds::*;

    #[test]
    fn wall_clock_extrapolates_from_its_reference_time() {
        let second = |nanos: u64| Time::from_nanos(nanos * 1_000_000_000);
        let clock = WallClock::new(Duration::from_millis(1_500), second(1));
        assert_eq!(clock.timestamp(second(1)), proto::Timestamp { seconds: 1, nanos: 500_000_000 });
        assert_eq!(clock.timestamp(second(0)), proto::Timestamp { seconds: 0, nanos: 500_000_000 });
        assert_eq!(clock.timestamp(second(9)).seconds, 9);
    }

    #[test]
    fn timestamp_before_1970_has_nonnegative_nanos() {
        let clock = WallClock::new(Duration::ZERO, Time::from_nanos(1));
        let before = proto::Timestamp { seconds: -1, nanos: 999_999_999 };
        assert_eq!(clock.timestamp(Time::ZERO), before);
        let late = WallClock::new(Duration::MAX, Time::ZERO).timestamp(Time::from_nanos(u64::MAX));
        assert_eq!(late.seconds, i64::MAX);
    }
}
