//! Warming of a proxy's listeners and clusters on a client core that is connected to a server core.

mod changes;
#[cfg(feature = "handle")]
mod handle;
mod rig;

use std::time::Duration;

use crate::dependencies::resources;
use prost::Message as _;
use rig::Rig;
use xds_core::{
    Client, Frame, Time,
    client::{ChannelEvent, ClientConfig, InvalidWatch, Node, OpaqueType, Output, ServerAddress},
    proto,
    server::{StatusCode, Variant},
    types,
};
use xds_routing::{proto::envoy::config::cluster::v3::Cluster, warming::ClientWarming};

const VARIANTS: [Variant; 2] = [Variant::StateOfTheWorld, Variant::Incremental];

fn with_timeout(name: &str, seconds: i64) -> Vec<u8> {
    let mut cluster = Cluster::decode(&*resources::eds(name, "")).unwrap();
    let source = cluster.eds_cluster_config.as_mut().unwrap().eds_config.as_mut().unwrap();
    source.initial_fetch_timeout = Some(proto::Duration { seconds, nanos: 0 });
    cluster.encode_to_vec()
}

#[test]
fn all_listeners_and_clusters_are_watched() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        assert!(!rig.follower.warming().is_initialized());
        rig.settle();
        assert!(rig.follower.warming().is_initialized(), "there is nothing, and that is known");
        assert_eq!(rig.watched(), "", "routes and endpoints only as something names them");
        rig.set(|it| {
            it.set(types::CLUSTER, "a", resources::eds("a", "of-a"));
            it.set(types::CLUSTER, "d", resources::dns("d", "d.example.com"));
            it.set(types::LISTENER, "l", resources::listener("l", "r"));
            it.set(types::LISTENER, "m", resources::listener_with("m", &["a"]));
            it.set(
                types::ROUTE_CONFIGURATION,
                "unrelated",
                resources::route_table("unrelated", &["a"]),
            );
        });
        assert_eq!(rig.watched(), "rds:r eds:of-a");
        assert_eq!(rig.told(), ["cds:d", "lds:m"], "the others have to warm");
        assert!(!rig.follower.warming().is_initialized());
        rig.set(|it| {
            it.set(types::CLUSTER_LOAD_ASSIGNMENT, "of-a", resources::endpoints("of-a", &[1]));
        });
        assert_eq!(rig.told(), ["cds:a of-a"]);
        assert!(!rig.follower.warming().is_initialized());
        rig.set(|it| {
            it.set(types::ROUTE_CONFIGURATION, "r", resources::route_table("r", &["a"]));
        });
        assert_eq!(rig.told(), ["lds:l r"]);
        assert!(rig.follower.warming().is_initialized());
        // An update of a dependency needs no warming.
        rig.set(|it| {
            it.set(types::ROUTE_CONFIGURATION, "r", resources::route_table("r", &["d"]));
        });
        assert_eq!(rig.told(), ["lds:l r"]);
        // Dependencies of removed resources are released.
        rig.set(|it| {
            it.remove(types::LISTENER, "l");
            it.remove(types::CLUSTER, "a");
        });
        assert_eq!(rig.told(), ["cds:a gone", "lds:l gone"]);
        assert_eq!(rig.watched(), "");
    }
    println!(
        "covers: S0.021 S0.023 S0.024 S0.025 S0.107 S0.123 S0.153 S0.155 S0.156 S0.158 S0.168"
    );
}

#[test]
fn old_version_serves_until_the_new_one_is_warm() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.set(types::CLUSTER, "a", resources::eds("a", "one"));
            it.set(types::CLUSTER_LOAD_ASSIGNMENT, "one", resources::endpoints("one", &[1]));
            it.set(types::LISTENER, "l", resources::listener("l", "r"));
            it.set(types::ROUTE_CONFIGURATION, "r", resources::route_table("r", &["a"]));
        });
        assert_eq!(rig.told(), ["cds:a one", "lds:l r"]);
        rig.set(|it| {
            it.set(types::CLUSTER, "a", resources::eds("a", "two"));
            it.set(types::LISTENER, "l", resources::listener("l", "s"));
        });
        assert!(rig.told().is_empty());
        assert!(rig.is_warming(types::CLUSTER, "a") && rig.is_warming(types::LISTENER, "l"));
        assert_eq!(rig.watched(), "rds:r rds:s eds:one eds:two");
        // The version in use is still updated.
        rig.set(|it| {
            it.set(types::CLUSTER_LOAD_ASSIGNMENT, "one", resources::endpoints("one", &[2]));
        });
        assert_eq!(rig.told(), ["cds:a one"]);
        // A third version arrives before the second is warm.
        rig.set(|it| {
            it.set(types::CLUSTER, "a", resources::eds("a", "three"));
            it.set(types::CLUSTER_LOAD_ASSIGNMENT, "two", resources::endpoints("two", &[3]));
        });
        assert!(rig.told().is_empty());
        assert_eq!(rig.watched(), "rds:r rds:s eds:one eds:three");
        rig.set(|it| {
            let endpoints = resources::endpoints("three", &[4]);
            it.set(types::CLUSTER_LOAD_ASSIGNMENT, "three", endpoints);
            it.set(types::ROUTE_CONFIGURATION, "s", resources::route_table("s", &["a"]));
        });
        assert_eq!(rig.told(), ["cds:a three", "lds:l s"]);
        assert_eq!(rig.watched(), "rds:s eds:three");
        // An update without new dependencies is used at once.
        rig.set(|it| {
            it.set(types::CLUSTER, "a", with_timeout("a", 3));
            it.set(types::CLUSTER_LOAD_ASSIGNMENT, "a", resources::endpoints("a", &[5]));
        });
        assert_eq!(rig.told(), ["cds:a a"]);
        rig.set(|it| {
            it.set(types::CLUSTER, "a", with_timeout("a", 4));
        });
        assert_eq!(rig.told(), ["cds:a a"]);
    }
    println!("covers: S0.022 S0.153 S0.154 S0.155 S0.156 S0.158 S0.168 S0.169");
}

#[test]
fn warming_ends_after_the_initial_fetch_timeout() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.set(types::CLUSTER, "short", with_timeout("short", 3));
            it.set(types::CLUSTER, "default", resources::eds("default", ""));
            it.set(types::CLUSTER, "endless", with_timeout("endless", 0));
            it.set(types::LISTENER, "l", resources::listener("l", "r"));
        });
        rig.advance(Duration::from_secs(2));
        assert!(rig.told().is_empty());
        // A lost connection does not stop the timeouts.
        rig.set_network(false);
        rig.advance(Duration::from_secs(1));
        assert_eq!(rig.told(), ["cds:short without short"]);
        rig.advance(Duration::from_millis(11_999));
        assert!(rig.told().is_empty());
        rig.advance(Duration::from_millis(1));
        assert_eq!(rig.told(), ["cds:default without default", "lds:l without r"]);
        rig.advance(Duration::from_secs(1000));
        assert!(rig.told().is_empty());
        assert!(!rig.follower.warming().is_initialized());
        rig.set_network(true);
        rig.set(|it| {
            for name in ["short", "endless"] {
                let endpoints = resources::endpoints(name, &[1]);
                it.set(types::CLUSTER_LOAD_ASSIGNMENT, name, endpoints);
            }
        });
        rig.advance(Duration::from_secs(200));
        assert_eq!(rig.told(), ["cds:short short", "cds:endless endless"]);
        assert!(rig.follower.warming().is_initialized());
    }
    println!("covers: S0.130 S0.158");
}

/// The newest version of a resource determines its timeout, independent of other resources.
#[test]
fn newest_version_sets_the_initial_fetch_timeout() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.set(types::CLUSTER, "a", with_timeout("a", 0));
        });
        rig.advance(Duration::from_secs(100));
        assert!(rig.told().is_empty());
        rig.set(|it| {
            it.set(types::CLUSTER, "a", with_timeout("a", 3));
        });
        rig.advance(Duration::from_millis(2_999));
        assert!(rig.told().is_empty(), "its time begins with what it says");
        rig.advance(Duration::from_millis(1));
        assert_eq!(rig.told(), ["cds:a without a"]);

        // From a limit to none. A version with the same timeout in between does not restart it.
        let mut rig = Rig::new(variant);
        let say = |rig: &mut Rig, seconds: i64, lb_policy: i32| {
            let mut cluster = Cluster::decode(&*with_timeout("b", seconds)).unwrap();
            cluster.lb_policy = lb_policy;
            rig.set(|it| {
                it.set(types::CLUSTER, "b", cluster.encode_to_vec());
            });
        };
        say(&mut rig, 5, 1);
        rig.advance(Duration::from_secs(3));
        say(&mut rig, 5, 2);
        rig.advance(Duration::from_secs(2));
        assert_eq!(rig.told(), ["cds:b without b"]);
        let mut rig = Rig::new(variant);
        say(&mut rig, 5, 1);
        rig.advance(Duration::from_secs(3));
        say(&mut rig, 0, 2);
        rig.advance(Duration::from_secs(1000));
        assert!(rig.told().is_empty());
    }
    println!("covers: S0.158");
}

/// Two clusters that share an EDS resource have separate timeouts.
#[test]
fn clusters_sharing_an_eds_resource_have_separate_timeouts() {
    let service = |name: &str, seconds| {
        let mut cluster = Cluster::decode(&*with_timeout(name, seconds)).unwrap();
        cluster.eds_cluster_config.as_mut().unwrap().service_name = "shared".into();
        cluster.encode_to_vec()
    };
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.set(types::CLUSTER, "a", service("a", 3));
            it.set(types::CLUSTER, "b", service("b", 0));
        });
        rig.advance(Duration::from_secs(3));
        assert_eq!(rig.told(), ["cds:a without shared"]);
        rig.advance(Duration::from_secs(1000));
        assert!(rig.told().is_empty());
        rig.set(|it| {
            let endpoints = resources::endpoints("shared", &[1]);
            it.set(types::CLUSTER_LOAD_ASSIGNMENT, "shared", endpoints);
        });
        assert_eq!(rig.told(), ["cds:b shared", "cds:a shared"]);
    }
    println!("covers: S0.158");
}

#[test]
fn known_missing_resource_is_not_awaited() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.set(types::CLUSTER, "a", resources::eds("a", ""));
            it.set_error(types::CLUSTER_LOAD_ASSIGNMENT, "a", StatusCode::NotFound, "no such");
        });
        rig.advance(Duration::from_secs(1));
        let told = rig.told();
        assert!(told == ["cds:a without a"] || told.is_empty(), "{told:?}");
        rig.advance(Duration::from_secs(14));
        rig.set(|it| {
            it.set(types::CLUSTER_LOAD_ASSIGNMENT, "a", resources::endpoints("a", &[1]));
        });
        assert_eq!(rig.told().last().map(String::as_str), Some("cds:a a"));
    }
}

#[test]
fn shutdown_leaves_no_watch() {
    let mut rig = Rig::new(VARIANTS[1]);
    rig.set(|it| {
        it.set(types::CLUSTER, "a", resources::eds("a", ""));
        it.set(types::LISTENER, "l", resources::listener("l", "r"));
    });
    assert_eq!(rig.client.watch_count(), 4);
    let Rig { follower, mut client, now, .. } = rig;
    follower.shut_down(&mut client, now);
    assert_eq!(client.watch_count(), 0);
}

/// A client that lacks one of the two types sends no subscription for the other.
#[test]
fn client_without_one_root_type_watches_nothing() {
    let config = ClientConfig::new(Node::new("proxy"), ServerAddress::new("server"))
        .with_type(OpaqueType::new(types::CLUSTER));
    let mut client = Client::new(config, 1, Time::ZERO);
    let refused = ClientWarming::new(&mut client, Time::ZERO);
    assert!(matches!(refused, Err(InvalidWatch::UnknownType(_))), "{refused:?}");
    if let Some(Output::Open(channel, _)) = client.poll_output() {
        client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
        let request = client.poll_transmit(channel, Time::ZERO, &mut Frame::default());
        assert!(request.is_none(), "{request:?}");
    }
}
