//! Clients of one proxy, and application code called when one of them is created.

use core::convert::Infallible;
use std::sync::{Arc, OnceLock, Weak};

use crate::support::{Deaf, soon};
use serde_json::json;
use xds_bootstrap::envoy::{EnvoyBootstrap, Target};
use xds_core::types;
use xds_tokio::{
    ClientOptions, Credentials,
    client::{Service, Sources},
};

/// The application's function for services can list the clients and request another one.
#[tokio::test]
async fn service_callback_may_list_and_request_clients() {
    let nobody = Deaf::new();
    let address = nobody.address();
    let api = |cluster: &str| {
        json!({ "api_config_source": {
            "api_type": "GRPC",
            "transport_api_version": "V3",
            "grpc_services": [{ "envoy_grpc": { "cluster_name": cluster } }],
        } })
    };
    let text = json!({
        "node": { "id": "n", "cluster": "c" },
        "dynamic_resources": { "cds_config": api("first") },
    });
    let bootstrap = EnvoyBootstrap::from_json(&text.to_string()).expect("it is right");
    let cluster = json!({
        "name": "c",
        "type": "EDS",
        "eds_cluster_config": { "eds_config": api("second") },
    });
    let mut references = bootstrap.references(None, types::CLUSTER, "c", &cluster).expect("sound");
    let reference = references.pop().expect("that to the endpoints");

    let known = Arc::new(OnceLock::<Weak<Sources>>::new());
    let (back, to) = (Arc::clone(&known), reference.clone());
    let places = move |_: Target<'_>| -> Result<_, Infallible> {
        if let Some(sources) = back.get().and_then(Weak::upgrade) {
            sources.release(&to);
        }
        Ok(Service::new(format!("http://{address}"), Credentials::insecure()))
    };
    let sources = Sources::connect(bootstrap, ClientOptions::default(), |it| it, places);
    let sources = Arc::new(sources.expect("the core can do that"));
    known.set(Arc::downgrade(&sources)).expect("once");
    let (asked, again) = (Arc::clone(&sources), reference.clone());
    let asking = tokio::task::spawn_blocking(move || asked.client_of(&again));
    let client = soon(asking).await.expect("no panic").expect("there is room");
    client.stats().await.expect("it is there");

    // Equal sources share a client.
    let twice = sources.client_of(&reference).expect("it is known");
    sources.shut_down();
    soon(client.ended()).await;
    soon(twice.ended()).await;
}
