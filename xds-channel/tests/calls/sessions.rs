//! Session affinity by cookies (gRFC A55, A60).

use std::{collections::BTreeSet, net::SocketAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::Message as _;
use tonic::{Code, Status, metadata::MetadataMap};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use xds_channel::XdsChannel;
use xds_core::{proto::Duration as DurationSchema, types};
use xds_routing::proto::envoy::{
    config::{
        cluster::v3::{Cluster, cluster::CommonLbConfig},
        core::v3::{HealthStatus, HealthStatusSet, TypedExtensionConfig},
        route::v3::Route,
    },
    extensions::{
        filters::{
            http::stateful_session::v3::{
                StatefulSession, StatefulSessionPerRoute, stateful_session_per_route::Override,
            },
            network::http_connection_manager::v3::{HttpFilter, http_filter::ConfigType},
        },
        http::stateful_session::cookie::v3::CookieBasedSessionState,
    },
    r#type::http::v3::Cookie,
};

use crate::{
    faults::filtered,
    retries::{Reply, Scripted, retried},
    support::*,
    world::{Backend, Change, World, assignment, eds, nobody, soon},
};

/// Returns the filter with the cookie `session`.
fn sessions(path: &str, seconds: i64) -> HttpFilter {
    let ttl = Some(DurationSchema { seconds, nanos: 0 });
    let cookie = Some(Cookie { name: "session".into(), ttl, path: path.into() });
    let state = TypedExtensionConfig {
        name: "cookie".into(),
        typed_config: Some(packed(&CookieBasedSessionState { cookie })),
    };
    let config = StatefulSession { session_state: Some(state) };
    HttpFilter {
        name: "sessions".into(),
        config_type: Some(ConfigType::TypedConfig(packed(&config))),
        ..HttpFilter::default()
    }
}

/// Creates a world with the filter, and a client of it.
async fn serve(filter: HttpFilter, change: Change) -> (World, HealthClient<XdsChannel>) {
    let world = World::new().await;
    world.apply(filtered(change, vec![filter]).0).await;
    let client = world.health();
    (world, client)
}

fn to_cluster() -> Vec<Route> {
    vec![route(prefix(""), cluster("c"))]
}

/// Returns the text of the `cookie` header for a session.
fn cookie_for(value: &str) -> String {
    format!("session={}", STANDARD.encode(value))
}

/// Makes a health check. Returns the value of `set-cookie` in the response, even if the call fails.
async fn call_service(
    client: &mut HealthClient<XdsChannel>,
    service: &str,
    cookie: Option<&str>,
) -> Result<Option<String>, Status> {
    let mut request = tonic::Request::new(HealthCheckRequest { service: service.into() });
    if let Some(cookie) = cookie {
        request.metadata_mut().append("cookie", cookie.parse().unwrap());
    }
    let set = |metadata: &MetadataMap| {
        let all: Vec<_> = metadata.get_all("set-cookie").iter().collect();
        assert!(all.len() < 2, "{all:?}");
        all.first().map(|it| it.to_str().unwrap().to_owned())
    };
    match soon(client.check(request)).await {
        Ok(response) => Ok(set(response.metadata())),
        Err(status) if status.code() == Code::NotFound => Ok(set(status.metadata())),
        Err(status) => Err(status),
    }
}

async fn call(client: &mut HealthClient<XdsChannel>, cookie: Option<&str>) -> Option<String> {
    call_service(client, "", cookie).await.expect("an answer")
}

/// Returns the cookie for the next request, and the endpoint and cluster in it.
fn read(set: &str) -> (String, String) {
    let pair = set.split("; ").next().expect("a pair");
    let value = STANDARD.decode(pair.strip_prefix("session=").expect("the name")).unwrap();
    (pair.to_owned(), String::from_utf8(value).unwrap())
}

#[tokio::test]
async fn calls_of_a_session_go_to_one_endpoint() {
    let backends = [Backend::new().await, Backend::new().await, Backend::new().await];
    let addresses = [0, 1, 2].map(|index: usize| backends[index].address);
    let change = Change::new().routes(to_cluster()).at("c", &addresses);
    let (_world, mut client) = serve(sessions("/", 120), change).await;
    let mut found = BTreeSet::new();
    for _ in 0..20 {
        let set = call(&mut client, None).await.expect("a new session");
        let (pair, value) = read(&set);
        assert_eq!(set, format!("{pair}; HttpOnly; Path=/; Max-Age=120"));
        let address: SocketAddr = value.strip_suffix(";c").expect("a cluster").parse().unwrap();
        let backend = backends.iter().find(|it| it.address == address).expect("an endpoint");
        let before = backend.calls();
        for _ in 0..5 {
            // The cookie is correct, so it is not set again.
            assert_eq!(call(&mut client, Some(&format!("a=b; {pair}"))).await, None);
        }
        assert_eq!(backend.calls(), before + 5);
        found.insert(address);
    }
    assert_eq!(found, addresses.into(), "sessions are spread over the endpoints");
    println!("covers: B39a");
}

#[tokio::test]
async fn unknown_or_unreachable_endpoint_gets_a_new_cookie() {
    let (backend, down) = (Backend::new().await, nobody().await);
    let change = Change::new().routes(to_cluster()).at("c", &[backend.address, down]);
    let (_world, mut client) = serve(sessions("", 0), change).await;
    let expected = format!("{}; HttpOnly", cookie_for(&format!("{};c", backend.address)));
    for value in [format!("{down};c"), "127.0.0.1:1;c".into(), "no address".into(), ";".into()] {
        assert_eq!(call(&mut client, Some(&cookie_for(&value))).await, Some(expected.clone()));
    }
    assert_eq!(call(&mut client, Some("session=*")).await, Some(expected));
}

#[tokio::test]
async fn session_needs_a_matching_path() {
    let backend = Backend::new().await;
    for (path, is_set) in [
        ("/grpc.health.v1.Health/Check", true),
        ("/grpc.health.v1.Health", true),
        ("/grpc.health.v1.Health/Watch", false),
        ("/grpc.health", false),
    ] {
        let change = Change::new().routes(to_cluster()).at("c", &[backend.address]);
        let (_world, mut client) = serve(sessions(path, 0), change).await;
        assert_eq!(call(&mut client, None).await.is_some(), is_set, "{path}");
    }
}

/// A failure without messages has its headers in the trailers.
#[tokio::test]
async fn cookie_is_set_in_a_response_of_trailers_only() {
    let backend = Backend::new().await;
    let change = Change::new().routes(to_cluster()).at("c", &[backend.address]);
    let (_world, mut client) = serve(sessions("", 0), change).await;
    let set = call_service(&mut client, "unknown", None).await.unwrap().expect("a cookie");
    let (pair, value) = read(&set);
    assert_eq!(value, format!("{};c", backend.address));
    assert_eq!(call_service(&mut client, "unknown", Some(&pair)).await.unwrap(), None);
}

#[tokio::test]
async fn override_of_a_route_disables_sessions() {
    let backend = Backend::new().await;
    let config = StatefulSessionPerRoute { r#override: Some(Override::Disabled(true)) };
    let mut routes = to_cluster();
    routes[0].typed_per_filter_config.insert("sessions".into(), packed(&config));
    let change = Change::new().routes(routes).at("c", &[backend.address]);
    let (_world, mut client) = serve(sessions("", 0), change).await;
    assert_eq!(call(&mut client, None).await, None);
}

/// A60: the cookie names the cluster, too.
#[tokio::test]
async fn session_keeps_its_cluster_among_weighted_ones() {
    let (a, b) = (Backend::new().await, Backend::new().await);
    let routes = vec![route(prefix(""), weighted(&[("a", 1), ("b", 1)]))];
    let change = Change::new().routes(routes).at("a", &[a.address]).at("b", &[b.address]);
    let (_world, mut client) = serve(sessions("", 0), change).await;
    let mut found = BTreeSet::new();
    for _ in 0..30 {
        let set = call(&mut client, None).await.expect("a new session");
        found.insert(read(&set).1);
    }
    let all = [format!("{};a", a.address), format!("{};b", b.address)];
    assert_eq!(found, all.clone().into());
    for (value, backend) in all.iter().zip([&a, &b]) {
        let before = backend.calls();
        for _ in 0..10 {
            assert_eq!(call(&mut client, Some(&cookie_for(value))).await, None);
        }
        assert_eq!(backend.calls(), before + 10);
    }
    // The cluster is not one of the route.
    let other = cookie_for(&format!("{};other", a.address));
    let set = call(&mut client, Some(&other)).await.expect("another cluster");
    assert!(all.contains(&read(&set).1), "{set}");
}

/// Returns a cluster whose sessions can use draining endpoints.
fn keeping_draining() -> Cluster {
    let statuses = [HealthStatus::Healthy, HealthStatus::Unknown, HealthStatus::Draining];
    let statuses = statuses.map(|status| status as i32).to_vec();
    let override_host_status = Some(HealthStatusSet { statuses });
    let common_lb_config = Some(CommonLbConfig { override_host_status });
    Cluster { common_lb_config, ..eds("c") }
}

/// Returns the endpoints of the cluster, the last of which is draining.
fn draining(addresses: &[SocketAddr]) -> Change {
    let mut endpoints = assignment("c", addresses);
    let last = endpoints.endpoints[0].lb_endpoints.last_mut().expect("an endpoint");
    last.health_status = HealthStatus::Draining as i32;
    let mut change = Change::new();
    change.0.set(types::CLUSTER_LOAD_ASSIGNMENT, "c", endpoints.encode_to_vec());
    change
}

#[tokio::test]
async fn draining_endpoint_serves_only_its_sessions_if_the_cluster_allows_it() {
    for (cluster, is_kept) in [(keeping_draining(), true), (eds("c"), false)] {
        let backends = [Backend::new().await, Backend::new().await];
        let addresses = [backends[0].address, backends[1].address];
        let change = Change::new().routes(to_cluster()).cluster_as(cluster);
        let (world, mut client) = serve(sessions("", 0), change.endpoints("c", &addresses)).await;
        let of_last = cookie_for(&format!("{};c", addresses[1]));
        assert_eq!(call(&mut client, Some(&of_last)).await, None);
        world.apply(draining(&addresses).0).await;
        // Until the channel uses the change.
        soon(async {
            let mut without = 0;
            while without < 5 {
                let before = backends[1].calls();
                call(&mut client, None).await;
                without = if backends[1].calls() == before { without + 1 } else { 0 };
            }
        })
        .await;
        let before = backends[1].calls();
        for _ in 0..5 {
            let set = call(&mut client, Some(&of_last)).await;
            assert_eq!(set.is_none(), is_kept);
        }
        assert_eq!(backends[1].calls(), before + if is_kept { 5 } else { 0 });
    }
}

/// All attempts of a call of a session go to its endpoint (A55).
#[tokio::test]
async fn retries_of_a_session_go_to_its_endpoint() {
    let failing = [Reply::Fails(Code::Unavailable); 3];
    let (of_session, address) = Scripted::serve(&failing).await;
    let (other, elsewhere) = Scripted::serve(&[]).await;
    let change = Change::new().routes(retried("unavailable", 3, 1));
    let change = change.at("c", &[elsewhere, address]);
    let (_world, mut client) = serve(sessions("", 0), change).await;
    let cookie = cookie_for(&format!("{address};c"));
    assert_eq!(call(&mut client, Some(&cookie)).await, None);
    assert_eq!((of_session.calls(), other.calls()), (4, 0));
}
