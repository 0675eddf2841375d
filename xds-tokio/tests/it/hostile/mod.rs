//! Misbehaving clients on real connections. In each case the server keeps running, other clients
//! are served without delay, and the offender's stream ends with a descriptive status.
//!
//! | file | misbehaviour |
//! |---|---|
//! | `cases.rs`, `messages.rs` | invalid, oversized and nonsensical messages |
//! | `frames.rs` | invalid frames |
//! | `silence.rs` | not reading, not answering, disconnecting |
//! | `floods.rs` | endless repetition |
//! | `limits.rs` | exceeding limits |

mod cases;
mod floods;
mod frames;
mod limits;
mod messages;
mod silence;

use crate::support::{
    CLUSTER, DELTA_AGGREGATED, ENDPOINTS, RawClient, SECRET,
    server::{Running, set, start_with},
};
use xds_core::{
    server::{ServerConfig, ServerLimits},
    types,
};
use xds_tokio::{ServerHandle, ServerOptions};

/// Limits below what some offenders request.
const NAMES: usize = 120_000;
const TYPES: usize = 16;

async fn start() -> Running {
    let mut limits = ServerLimits::default();
    limits.names_per_stream = NAMES;
    limits.types_per_stream = TYPES;
    let config = ServerConfig::default().with_limits(limits);
    let options = ServerOptions::default().with_max_request_bytes(4 << 20);
    let running = start_with(config, options).await;
    running.handle.apply(set(&[(CLUSTER, "c", "1"), (ENDPOINTS, "e", "1")])).await.unwrap();
    running
}

/// Two conforming clients, one in each variant.
struct Witnesses {
    handle: ServerHandle,
    whole: RawClient,
    changes: RawClient,
    rounds: usize,
}

impl Witnesses {
    async fn of(running: &Running) -> Self {
        let handle = running.handle.clone();
        let whole = RawClient::open(running.address).await;
        whole.subscribe(SECRET, &["witness"]);
        let changes = RawClient::call(running.address, DELTA_AGGREGATED).await.unwrap();
        changes.subscribe_delta(types::RUNTIME, &["witness"]);
        let mut witnesses = Self { handle, whole, changes, rounds: 0 };
        let missing = witnesses.changes.delta_response().await;
        witnesses.changes.ack_delta(&missing);
        witnesses
    }

    /// Asserts that a change reaches both clients.
    async fn are_served(&mut self, after: &str) {
        self.rounds += 1;
        let content = self.rounds.to_string();
        let change = set(&[(SECRET, "witness", &content), (types::RUNTIME, "witness", &content)]);
        self.handle.apply(change).await.unwrap();
        let response = self.whole.response().await;
        assert!(response.resources[0].value.ends_with(content.as_bytes()), "{after}");
        self.whole.answer(&response, &["witness"], None);
        let response = self.changes.delta_response().await;
        let resource = response.resources[0].resource.as_ref().unwrap();
        assert!(resource.value.ends_with(content.as_bytes()), "{after}");
        self.changes.ack_delta(&response);
    }
}
