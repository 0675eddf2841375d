//! Clients that do what no client should, on real connections. Whatever one of them does, the server
//! stays up, others are served without delay, and the offender's stream ends with a status that says why.
//!
//! | file | what clients do |
//! |---|---|
//! | `cases.rs`, `messages.rs` | they say what is wrong, or too long, or nonsense |
//! | `frames.rs` | they send what is no message |
//! | `silence.rs` | they do not read, do not answer, do not stay |
//! | `floods.rs` | they do any of it without end |
//! | `limits.rs` | they want more than one client may have |

mod cases;
mod floods;
mod frames;
mod limits;
mod messages;
mod silence;
#[path = "../support/mod.rs"]
mod support;

use support::{
    CLUSTER, DELTA_AGGREGATED, ENDPOINTS, RawClient, SECRET,
    server::{Running, set, start_with},
};
use xds_core::{
    server::{ServerConfig, ServerLimits},
    types,
};
use xds_tokio::{ServerHandle, ServerOptions};

/// More than a client may have.
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

/// Two clients that keep to the protocol, one in each variant.
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

    /// A change reaches both.
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
