//! What client status discovery tells of a client (gRFC A40, B31).
//!
//! The answer is made of what watchers hold at that moment (S3.057, IC32): the resource in use as the
//! server sent it, and beside it what is wrong with the newest version. It is made in two steps, so
//! that a client of a hundred thousand resources is not held up by somebody who looks at it: a
//! snapshot, which shares everything with the client, and from it, anywhere, the message. Whoever asks
//! sees wall time, of which a core knows nothing; the caller brings a [`WallClock`].

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
            status::{EntryState, FailedUpdate, ResourceStatus},
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

/// How much is told of what is inside resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Everything, private keys too.
    All,
    /// Everything but the contents of secrets (SDS).
    #[default]
    WithoutSecrets,
    /// Nothing: names, versions and states only, as `exclude_resource_contents` asks.
    None,
}

/// What a wall clock shows when a client's own clock shows [`Time::ZERO`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallClock {
    /// Nanoseconds since the start of 1970 in UTC.
    at_zero: i128,
}

impl WallClock {
    /// A clock that shows `since_1970` at the moment that the client calls `now`.
    #[must_use]
    pub fn new(since_1970: core::time::Duration, now: Time) -> Self {
        let shown = i128::try_from(since_1970.as_nanos()).unwrap_or(i128::MAX);
        Self { at_zero: shown.saturating_sub(i128::from(now.as_nanos())) }
    }

    /// What the clock shows at `time`.
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
    /// All that the client holds, for client status discovery.
    #[must_use]
    pub fn snapshot(&self) -> ClientSnapshot {
        ClientSnapshot {
            node: self.node(),
            resources: self.status().map(|status| Held::new(&status)).collect(),
        }
    }

    /// The node as the client states it to servers.
    #[must_use]
    pub fn node(&self) -> proto::Node {
        self.config.node.to_message(&self.config.profile)
    }
}

impl From<EntryState> for ClientResourceStatus {
    /// The states map one to one (S3.069).
    fn from(state: EntryState) -> Self {
        match state {
            EntryState::Requested => Self::Requested,
            EntryState::DoesNotExist => Self::DoesNotExist,
            EntryState::Acked => Self::Acked,
            EntryState::Nacked => Self::Nacked,
            EntryState::ReceivedError => Self::ReceivedError,
            EntryState::Timeout => Self::Timeout,
        }
    }
}

/// What a client held at one moment. Payloads and names are shared with it, not copied.
#[derive(Clone, Debug)]
pub struct ClientSnapshot {
    node: proto::Node,
    resources: Vec<Held>,
}

/// A [`ResourceStatus`] that stands on its own.
#[derive(Clone, Debug)]
struct Held {
    type_url: TypeUrl,
    name: ResourceName,
    state: EntryState,
    bytes: Option<Bytes>,
    version: Version,
    updated: Option<Time>,
    error: Option<WatchError>,
    failed: Option<FailedUpdate>,
}

impl ClientSnapshot {
    /// The message by which client status discovery tells it. `scope` is what the client was made
    /// for, as a gRPC target; it tells the clients of one process apart (A71).
    #[must_use]
    pub fn into_message(
        self,
        scope: impl Into<String>,
        contents: Contents,
        clock: WallClock,
    ) -> proto::ClientConfig {
        let config = |held: Held| held.into_config(contents, clock);
        proto::ClientConfig {
            node: Some(self.node),
            generic_xds_configs: self.resources.into_iter().map(config).collect(),
            client_scope: scope.into(),
            ..proto::ClientConfig::default()
        }
    }
}

impl Held {
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
        let is_told = match contents {
            Contents::All => true,
            Contents::WithoutSecrets => self.type_url != types::SECRET,
            Contents::None => false,
        };
        // The resource itself, not the wrapper it may have come in (CM-06).
        let any = |bytes: Option<Bytes>| {
            let value = bytes.filter(|_| is_told)?;
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
            // What the server has beyond what it sent is not for a client to know.
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

    use super::*;

    #[test]
    fn a_wall_clock_counts_on_from_where_it_was_read() {
        let second = |nanos: u64| Time::from_nanos(nanos * 1_000_000_000);
        let clock = WallClock::new(Duration::from_millis(1_500), second(1));
        assert_eq!(clock.timestamp(second(1)), proto::Timestamp { seconds: 1, nanos: 500_000_000 });
        assert_eq!(clock.timestamp(second(0)), proto::Timestamp { seconds: 0, nanos: 500_000_000 });
        assert_eq!(clock.timestamp(second(9)).seconds, 9);
    }

    #[test]
    fn before_1970_nanos_still_count_up() {
        let clock = WallClock::new(Duration::ZERO, Time::from_nanos(1));
        let before = proto::Timestamp { seconds: -1, nanos: 999_999_999 };
        assert_eq!(clock.timestamp(Time::ZERO), before);
        let late = WallClock::new(Duration::MAX, Time::ZERO).timestamp(Time::from_nanos(u64::MAX));
        assert_eq!(late.seconds, i64::MAX);
    }
}
