//! `xds serve --csds`: client status over real connections.

use crate::support::{self, TempDir, Xds, clusters, eventually};
use http::uri::PathAndQuery;
use prost::Message as _;
use tokio::runtime::Builder;
use tonic::{Request, Status, client::Grpc, transport::Endpoint};
use xds_core::proto::{ClientStatusRequest, ClientStatusResponse, ConfigStatus};
use xds_tokio::RawCodec;

const FETCH: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";

fn ask(address: &str) -> Result<ClientStatusResponse, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let channel = endpoint.connect().await.map_err(|why| Status::unknown(why.to_string()))?;
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(|why| Status::unknown(why.to_string()))?;
        let request = Request::new(ClientStatusRequest::default().encode_to_vec().into());
        let path = PathAndQuery::from_static(FETCH);
        let response = grpc.unary(request, path, RawCodec).await?.into_inner();
        ClientStatusResponse::decode(response).map_err(|why| Status::internal(why.to_string()))
    })
}

// M234: CSDS reports the resources of each client, on its own address only.
#[test]
fn csds_is_served_on_its_own_address_only() {
    let directory = TempDir::new();
    directory.save("clusters.yaml", &clusters("a b"));
    let (_serve, discovery, csds) = Xds::serve_with_csds(directory.path());
    let csds = csds.as_str();
    assert_eq!(ask(csds).unwrap().config, [], "no client is there");

    let watch = Xds::watch(&discovery, &["cds"]);
    watch.wait_count("changed", 2);
    eventually("both clusters accepted", || {
        let answer = ask(csds).unwrap();
        let configs = answer.config.iter().flat_map(|client| &client.generic_xds_configs);
        let synced = configs.filter(|it| it.config_status() == ConfigStatus::Synced);
        let names: Vec<_> = synced.map(|it| &*it.name).collect();
        if names == ["a", "b"] { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    assert_eq!(ask(csds).unwrap().config[0].node.as_ref().unwrap().id, "test");

    // The discovery address does not serve CSDS, and the CSDS address does not serve discovery.
    assert_eq!(ask(&discovery).unwrap_err().code(), tonic::Code::Unimplemented);
    let stray = Xds::watch(csds, &["cds"]);
    stray.wait_event("refused", |event| event["event"] == "ambient" || event["event"] == "error");
    assert!(stray.events_of("changed").is_empty());
    println!("covers: M234");
}

#[test]
fn address_in_use_is_named() {
    let directory = TempDir::new();
    let (_serve, taken) = Xds::serve(directory.path());
    let directory = directory.path().to_str().unwrap();
    let flags = ["serve", directory, "--listen", "127.0.0.1:0", "--csds", &taken];
    let ended = support::run(&flags);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains(&taken), "{}", ended.stderr);
}
