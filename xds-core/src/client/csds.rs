//! What client status discovery tells of a client (gRFC A40, B31).
//!
//! The answer is rendered from what watchers hold at that moment (S3.057, IC32): the resource in use
//! as the server sent it, and beside it what is wrong with the newest version. Whoever asks sees wall
//! time, of which a core knows nothing; the caller brings a [`WallClock`].

use alloc::string::{String, ToString as _};

use bytes::Bytes;

use super::{
    Client,
    status::{EntryState, ResourceStatus},
};
use crate::{
    proto::{
        self, ClientResourceStatus, ConfigStatus, UpdateFailureState,
        client_config::GenericXdsConfig,
    },
    text::TypeUrl,
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
    /// All that the client holds, as client status discovery tells it. `scope` is what the client
    /// was made for, as a gRPC target; it tells the clients of one process apart (A71).
    #[must_use]
    pub fn csds(&self, scope: &str, contents: Contents, clock: WallClock) -> proto::ClientConfig {
        proto::ClientConfig {
            node: Some(self.node()),
            generic_xds_configs: self
                .status()
                .map(|status| generic_config(&status, contents, clock))
                .collect(),
            client_scope: String::from(scope),
            ..proto::ClientConfig::default()
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
        }
    }
}

fn generic_config(
    status: &ResourceStatus<'_>,
    contents: Contents,
    clock: WallClock,
) -> GenericXdsConfig {
    let is_told = match contents {
        Contents::All => true,
        Contents::WithoutSecrets => status.type_url != types::SECRET,
        Contents::None => false,
    };
    let any = |bytes: Option<&Bytes>| bytes.filter(|_| is_told).map(|b| any(status.type_url, b));
    let error_state = status.error.map(|error| UpdateFailureState {
        failed_configuration: any(status.failed.and_then(|failed| failed.bytes.as_ref())),
        last_update_attempt: status.failed.map(|failed| clock.timestamp(failed.received)),
        details: error.to_string(),
        version_info: status.failed.map(|failed| failed.version.to_string()).unwrap_or_default(),
    });
    GenericXdsConfig {
        type_url: status.type_url.to_string(),
        name: status.name.to_string(),
        version_info: status.version.to_string(),
        xds_config: any(status.bytes),
        last_updated: status.updated.map(|updated| clock.timestamp(updated)),
        // What the server has beyond what it sent is not for a client to know.
        config_status: ConfigStatus::Unknown.into(),
        client_status: ClientResourceStatus::from(status.state).into(),
        error_state,
        is_static_resource: false,
    }
}

/// The resource itself, not the wrapper it may have come in (CM-06).
fn any(type_url: &TypeUrl, bytes: &Bytes) -> proto::Any {
    proto::Any { type_url: type_url.to_string(), value: bytes.clone() }
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
