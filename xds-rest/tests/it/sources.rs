//! An Envoy bootstrap with polled clusters and streamed listeners, from different servers in one
//! client.

use core::{convert::Infallible, time::Duration};

use crate::support::{cluster, listening, serving, set};
use serde_json::json;
use tokio::{net::TcpListener, time::timeout};
use xds_bootstrap::envoy::{EnvoyBootstrap, Target};
use xds_core::{
    client::{Notice, OpaqueType, Resource},
    server::{ServerConfig, Transaction},
    types,
};
use xds_tokio::{
    ClientOptions, Credentials, ManagementServer, ServerOptions, Watch, client, client::Service,
};

async fn value(watch: &mut Watch) -> Resource {
    let notice = timeout(Duration::from_secs(10), watch.next()).await.expect("soon");
    watch.handled();
    match notice.expect("the client is there").expect("a sound watch") {
        Notice::Changed(Ok(resource)) => resource,
        other => panic!("{other:?} is no value"),
    }
}

#[tokio::test]
async fn each_type_comes_from_its_source_over_its_transport() {
    // Clusters over REST.
    let (polled, gateway) = serving();
    set(&polled, "a", "1s").await;
    let polled_at = listening(gateway).await;
    // Listeners over the aggregated stream of another server, which has a cluster of the same name.
    let streamed = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    set(&streamed, "a", "9s").await;
    let mut change = Transaction::new();
    change.set(types::LISTENER, "l", &b""[..]);
    streamed.handle().apply(change).await.expect("a sound change");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let streamed_at = listener.local_addr().expect("it is bound");
    let serving = tokio::spawn(streamed.serve(listener));

    let text = json!({
        "node": { "id": "n", "cluster": "c" },
        "dynamic_resources": {
            "lds_config": { "ads": {} },
            "cds_config": { "api_config_source": {
                "api_type": "REST",
                "cluster_names": ["nobody", "polled"],
                "refresh_delay": "0.02s",
                "request_timeout": "5s",
            } },
            "ads_config": {
                "api_type": "DELTA_GRPC",
                "grpc_services": [{ "envoy_grpc": { "cluster_name": "streamed" } }],
            },
        },
    });
    let bootstrap = EnvoyBootstrap::from_json(&text.to_string()).expect("it is right");
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let nobody_at = nobody.local_addr().expect("it is bound");
    drop(nobody);
    let service = |target: Target<'_>| -> Result<_, Infallible> {
        let address = match target.name() {
            "polled" => polled_at,
            "streamed" => streamed_at,
            _ => nobody_at,
        };
        Ok(Service::new(format!("http://{address}"), Credentials::insecure()))
    };
    let Ok(options) = ClientOptions::default().with_envoy_bootstrap(&bootstrap, service);
    let config = bootstrap.client_config().expect("the core can do that");
    let config = config
        .with_type(OpaqueType::new(types::CLUSTER))
        .with_type(OpaqueType::new(types::LISTENER));
    let client = client::connect(config, options);
    let mut clusters = client.watch_untyped(types::CLUSTER, "a");
    let mut listeners = client.watch_untyped(types::LISTENER, "l");
    assert_eq!(&*value(&mut clusters).await.bytes, &*cluster("a", "1s"));
    assert_eq!(value(&mut listeners).await.name.as_str(), "l");
    set(&polled, "a", "2s").await;
    assert_eq!(&*value(&mut clusters).await.bytes, &*cluster("a", "2s"));
    println!("covers: B18 S0.001 S0.052 S0.053");
    serving.abort();
}
