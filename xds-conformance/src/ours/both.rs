//! Tests of a client with a server of this repository.

use smol::future::yield_now;
use tonic::service::Routes;
use xds_core::{
    ViewName,
    proto::{ClientStatusRequest, ClientStatusResponse},
    types::CLUSTER,
};
use xds_grpc::{
    csds::{CsdsCaller, CsdsService, ServerCsdsService, VisibleClients},
    runtime::Listen,
};

use super::pair::{Certificates, NAME, RequestMode, Served, client, cluster};
use crate::{
    raw::{fetch, status_of},
    wait::{no_value, soon, value},
};

pub(super) async fn held_poll<C: Listen + Default, S: Listen + Default>() {
    let served = Served::<S>::start(None);
    served.set("a", "1s").await;
    let client = client::<C>(served.listen(RequestMode::Poll).await, RequestMode::Poll, None);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    assert_eq!(value(&mut watch).await.bytes, cluster("a", "1s"));
    soon("a request that is held", async {
        loop {
            let stats = served.handle.stats().await.expect("it runs");
            if (stats.requests, stats.fetches) == (2, 1) {
                return;
            }
            yield_now().await;
        }
    })
    .await;
    let stats = client.stats().await.expect("it runs");
    assert_eq!((stats.responses, stats.unchanged), (1, 0), "nothing has changed: {stats:?}");
    served.set("a", "2s").await;
    assert_eq!(value(&mut watch).await.bytes, cluster("a", "2s"));
    let stats = client.stats().await.expect("it runs");
    assert_eq!((stats.responses, stats.unchanged, stats.server_failures), (2, 0, 0));
    println!("covers: M185 M192 S0.205");
}

pub(super) async fn secured_stream<C: Listen + Default, S: Listen + Default>() {
    secured::<C, S>(RequestMode::Stream).await;
}

pub(super) async fn secured_polls<C: Listen + Default, S: Listen + Default>() {
    secured::<C, S>(RequestMode::Poll).await;
}

async fn secured<C: Listen + Default, S: Listen + Default>(mode: RequestMode) {
    let certificates = Certificates::new();
    let served = Served::<S>::start(Some(&certificates));
    served.set("a", "1s").await;
    let address = served.listen(mode).await;

    // The certificate is valid for a name, not for the address.
    let deceived = client::<C>(address, mode, Some(certificates.of_client()));
    let why = no_value(&mut deceived.watch_untyped(CLUSTER, "a")).await.to_string();
    assert!(why.contains("not valid for"), "{why}");

    let unknown = certificates.of_unknown_client().with_server_name(NAME).expect("it is one");
    let unknown = client::<C>(address, mode, Some(unknown));
    no_value(&mut unknown.watch_untyped(CLUSTER, "a")).await;

    // A client without TLS gets no resource.
    let open = client::<C>(address, mode, None);
    no_value(&mut open.watch_untyped(CLUSTER, "a")).await;

    let known = certificates.of_client().with_server_name(NAME).expect("it is one");
    let known = client::<C>(address, mode, Some(known));
    let mut watch = known.watch_untyped(CLUSTER, "a");
    assert_eq!(value(&mut watch).await.bytes, cluster("a", "1s"));
    served.set("a", "2s").await;
    assert_eq!(value(&mut watch).await.bytes, cluster("a", "2s"));
    println!("covers: B42");
}

const FETCH_STATUS: &str =
    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";

pub(super) async fn status_and_health<C: Listen + Default, S: Listen + Default>() {
    let served = Served::<S>::start(None);
    served.set("a", "1s").await;
    let client = client::<C>(served.listen(RequestMode::Stream).await, RequestMode::Stream, None);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    value(&mut watch).await;

    let own = CsdsService::<S>::new();
    own.register("xds:///a", &client);
    let of_client = served.listen_with(Routes::new(own)).await;
    let of_server = || ServerCsdsService::new(served.handle.clone());
    let nobody = served.listen_with(Routes::new(of_server())).await;
    let refused = status_of(nobody, FETCH_STATUS, &ClientStatusRequest::default()).await;
    assert_eq!(refused.as_deref(), Some("7"), "PERMISSION_DENIED");
    let elsewhere = |_: CsdsCaller| async { Ok(VisibleClients::views(["elsewhere"])) };
    let elsewhere = served.listen_with(Routes::new(of_server().with_authorizer(elsewhere))).await;
    let asked = ClientStatusRequest::default();
    let answer: ClientStatusResponse = fetch(elsewhere, FETCH_STATUS, &asked).await;
    assert_eq!(answer.config, [], "the client sees another view");
    let here = |_: CsdsCaller| async { Ok(VisibleClients::views([ViewName::default()])) };
    let of_server = served.listen_with(Routes::new(of_server().with_authorizer(here))).await;
    for address in [of_client, of_server] {
        let asked = ClientStatusRequest::default();
        let answer: ClientStatusResponse = fetch(address, FETCH_STATUS, &asked).await;
        let config = answer.config.first().expect("the client");
        assert_eq!(config.node.as_ref().map(|node| &*node.id), Some("node-1"));
        let resources: Vec<_> =
            config.generic_xds_configs.iter().map(|it| (&*it.type_url, &*it.name)).collect();
        assert_eq!(resources, [(CLUSTER, "a")], "{answer:?}");
        let health: Health = fetch(address, "/grpc.health.v1.Health/Check", &()).await;
        assert_eq!(health.status, 1, "SERVING");
    }
    println!("covers: M235");
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Health {
    #[prost(int32, tag = "1")]
    status: i32,
}
