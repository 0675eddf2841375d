//! Messages on the wire are judged by the oracles of the pure worlds.

use core::time::Duration;

use prost::Message as _;
use tokio::time::sleep;
use xds_core::{server::ServerConfig, service::Variant, types::CLUSTER};
use xds_grpc::ServerOptions;
use xds_sim::stack::Stage;

use crate::{
    raw::open,
    worlds::{request, serve},
};

/// Returns the rule that a client's requests break. Each has the nonce and the version that `answer`
/// returns for its number.
fn broken(answer: impl Fn(usize) -> (&'static str, &'static str)) -> Option<&'static str> {
    let report = Stage::run(1, async |stage| {
        let (far, _server) = serve(stage, ServerConfig::default(), ServerOptions::default());
        let near = stage.host("client");
        stage.judge_messages(core::slice::from_ref(&near), &[far], Variant::StateOfTheWorld);
        let mut call = open(&near, 1).await.pop().expect("a call");
        for number in 0..3 {
            let mut request = request("client", &["web"]);
            if number > 0 {
                request.node = None;
                request.resource_names.push(format!("other-{number}"));
            }
            let (nonce, version) = answer(number);
            (request.response_nonce, request.version_info) = (nonce.into(), version.into());
            request.type_url = CLUSTER.into();
            call.message(&request.encode_to_vec());
            sleep(Duration::from_secs(1)).await;
        }
    });
    report.trace.violation.map(|violation| violation.invariant)
}

#[test]
fn requests_of_a_wrong_client_break_rules() {
    assert_eq!(broken(|_| ("", "")), None);
    assert_eq!(broken(|number| (if number == 1 { "never sent" } else { "" }, "")), Some("IC6"));
    assert_eq!(broken(|number| ("", if number == 2 { "7" } else { "" })), Some("IC7"));
    assert_eq!(broken(|number| (if number == 0 { "first" } else { "" }, "")), Some("IC5"));
}
