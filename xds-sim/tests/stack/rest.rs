//! The REST-JSON gateway and its polling clients.

use core::time::Duration;

use tokio::time::{sleep, timeout};
use xds_core::{
    client::{ClientConfig, Node, OpaqueType, PollPolicy, ServerAddress},
    server::{ServerConfig, Transaction},
    types::CLUSTER,
};
use xds_format::Schema;
use xds_grpc::{ClientOptions, ManagementServer, ServerOptions, client::connect};
use xds_rest::GatewayOptions;
use xds_sim::{
    stack::{
        Conditions, DialOutcome, Host, Stage,
        check::{check, run_seed},
    },
    trace::Keep,
};

use crate::{
    pair::{cluster, value},
    two_processes,
};

const PORT: u16 = 18_080;

fn serve(host: &Host, text: &str) -> (ManagementServer<Host>, Transaction) {
    let options = ServerOptions::default();
    let server = ManagementServer::start_on(host.clone(), ServerConfig::default(), options);
    let gateway = GatewayOptions::default().with_hold(Duration::from_secs(20));
    let listener = host.listen((host.address(), PORT).into()).expect("a free port");
    let serving = server.serve_rest(listener, Schema::envoy(), gateway);
    host.start(async move { drop(serving.await) });
    let mut content = Transaction::new();
    content.set(CLUSTER, "web", cluster("web", text));
    (server, content)
}

/// A client polls a server, with long polling, while the network and the server fail.
async fn poll_through_faults(stage: &Stage) {
    let (near, far) = (stage.host("client"), stage.server_host("server"));
    let mut conditions = Conditions::default();
    conditions.latency = Duration::from_millis(stage.below("latency", 300).into());
    conditions.chunk = 1 + stage.below("chunk", 300) as usize;
    stage.set_conditions(&near, &far, conditions);
    stage.set_conditions(&far, &near, conditions);
    let (mut server, content) = serve(&far, "v0");
    server.handle().apply(content).await.expect("a sound change");

    let policy = PollPolicy::new(Duration::from_secs(5));
    let address = ServerAddress::new(format!("server:{PORT}")).with_polling(policy);
    let config =
        ClientConfig::new(Node::new("client"), address).with_type(OpaqueType::new(CLUSTER));
    let client = connect(near.clone(), config, ClientOptions::default());
    let mut watch = client.watch_untyped(CLUSTER, "web");
    let reach = (far.address(), PORT).into();
    let mut text = "v0".to_owned();
    for number in 0..stage.below("number of faults", 8) {
        stage.choices().begin_span();
        match stage.below("fault", 7) {
            0 => stage.reset(&near, &far),
            1 => stage.partition(&near, &far),
            2 => stage.heal(&near, &far),
            3 => stage.lose_connections(&near, &far),
            4 => stage.set_reach(reach, DialOutcome::Refused),
            5 => stage.set_reach(reach, DialOutcome::Silent),
            _ => stage.kill(&far),
        }
        if server.handle().stats().await.is_err() {
            server = serve(&far, &text).0;
        }
        if stage.below("change", 2) == 0 {
            text = format!("v{number}");
        }
        let mut change = Transaction::new();
        change.set(CLUSTER, "web", cluster("web", &text));
        server.handle().apply(change).await.expect("a sound change");
        let wait = stage.choices().pick("wait", &[0, 1, 50, 1_000, 8_000, 70_000]);
        sleep(Duration::from_millis(wait)).await;
        stage.choices().end_span();
    }
    stage.heal(&near, &far);
    stage.set_reach(reach, DialOutcome::Open);
    // The request timeout of 60 s, and the longest backoff.
    if timeout(Duration::from_secs(200), value(&mut watch, "web", &text)).await.is_err() {
        stage.violate("liveness", "a poll gets the newest value", format!("no {text} in 200 s"));
    }
    stage.kick().await;
}

#[test]
fn polling_client_gets_the_newest_value_after_faults() {
    assert_eq!(check(0..150, &poll_through_faults).runs, 150);
}

#[test]
fn runs_over_rest_are_equal_in_two_processes() {
    let hashes = || -> Vec<u64> {
        (10..16).map(|seed| run_seed(seed, &poll_through_faults, Keep::Hash).hash).collect()
    };
    two_processes("rest::runs_over_rest_are_equal_in_two_processes", hashes);
}
