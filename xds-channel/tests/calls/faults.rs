//! Fault injection (gRFC A33): delayed and aborted calls.

use prost::Message as _;
use tonic::Code;
use xds_core::types;
use xds_routing::proto::envoy::{
    extensions::filters::{
        common::fault::v3::{FaultDelay, fault_delay::FaultDelaySecifier},
        http::fault::v3::{FaultAbort, HttpFault, fault_abort::ErrorType},
        network::http_connection_manager::v3::{HttpFilter, http_filter::ConfigType},
    },
    r#type::v3::FractionalPercent,
};

use crate::{
    support::*,
    world::{Backend, Change, World, check},
};

/// Adds HTTP filters before the router filter.
pub(crate) fn filtered(mut change: Change, filters: Vec<HttpFilter>) -> Change {
    let mut manager = manager(rds("routes"));
    manager.http_filters.splice(0..0, filters);
    let listener = api_listener("shop", &manager).encode_to_vec();
    change.0.set(types::LISTENER, "shop", listener);
    change
}

#[tokio::test]
async fn fault_filter_delays_and_aborts_calls_by_their_headers() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let all = Some(FractionalPercent { numerator: 100, denominator: 0 });
    let delay = FaultDelaySecifier::HeaderDelay(Default::default());
    let fault = HttpFault {
        delay: Some(FaultDelay { fault_delay_secifier: Some(delay), percentage: all }),
        abort: Some(FaultAbort {
            error_type: Some(ErrorType::HeaderAbort(Default::default())),
            percentage: all,
        }),
        max_active_faults: None,
    };
    let filter = HttpFilter {
        name: "fault".into(),
        config_type: Some(ConfigType::TypedConfig(packed(&fault))),
        ..HttpFilter::default()
    };
    let change =
        Change::new().routes(vec![route(prefix(""), cluster("c"))]).at("c", &[backend.address]);
    world.apply(filtered(change, vec![filter]).0).await;
    let mut client = world.health();
    check(&mut client, &[]).await.expect("an answer");
    // The delay is longer than the timeout.
    let held_up = [("x-envoy-fault-delay-request", "3600000"), ("grpc-timeout", "100m")];
    let late = check(&mut client, &held_up).await.expect_err("it is held up");
    assert_eq!(late.code(), Code::DeadlineExceeded);
    let failed = check(&mut client, &[("x-envoy-fault-abort-grpc-request", "9")]).await;
    assert_eq!(failed.expect_err("on purpose").code(), Code::FailedPrecondition);
    assert_eq!(backend.calls(), 1, "neither is sent");
    println!("covers: B28");
}

/// gRFC A39: a listener with an unsupported HTTP filter is rejected.
#[tokio::test]
async fn listener_with_an_unsupported_http_filter_is_rejected() {
    let world = World::new().await;
    let backend = Backend::new().await;
    let change =
        Change::new().routes(vec![route(prefix(""), cluster("c"))]).at("c", &[backend.address]);
    world.apply(filtered(change, vec![filter("other", "type.googleapis.com/a.Filter")]).0).await;
    let failed = check(&mut world.health(), &[]).await.expect_err("there are no routes");
    assert_eq!(failed.code(), Code::Unavailable);
    assert!(failed.message().contains("is not known"), "{failed}");
}
