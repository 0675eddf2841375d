//! Missing and invalid resources, and the errors of calls.

use std::time::Duration;

use xds_core::{
    client::{
        AuthorityConfig, DataErrorPolicy, Profile, ServerAddress, ServerFeature, ServerFeatures,
    },
    server::{AbsenceDelay, ServerConfig, StatusCode},
    types,
};
use xds_routing::dependencies::{Children, ConfigurationError, Endpoints};

use crate::dependencies::rig::{Rig, VARIANTS, client_config, client_of};

const WAIT: Duration = Duration::from_secs(15);

pub(crate) fn dropping() -> Profile {
    let mut profile = Profile::grpc();
    profile.data_errors = DataErrorPolicy::DropCached;
    profile
}

#[test]
fn missing_listener_or_routes_is_an_error() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.advance(WAIT);
        let text = "lds l: does not exist: not received within 15 s (node node-1, server server)";
        assert_eq!(rig.told(), [format!("error: {text}")]);
        rig.set(|it| {
            it.listener("r");
        });
        rig.advance(WAIT);
        let text = "rds r: does not exist: not received within 15 s (node node-1, server server)";
        assert_eq!(rig.told(), [format!("error: {text}")]);
        rig.set(|it| {
            it.routes("r", &["a"]);
        });
        assert!(rig.told().is_empty(), "the cluster may come");
        rig.set(|it| {
            it.whole("a", &[1]);
        });
        assert_eq!(rig.told(), ["[a] a=1"]);
        // The listener names routes that do not exist.
        rig.set(|it| {
            it.listener("nowhere");
        });
        assert!(rig.told().is_empty(), "the old ones serve until then");
        rig.advance(WAIT);
        assert!(rig.last().starts_with("error: rds nowhere: does not exist"));
        assert_eq!(rig.watched(), "lds:l rds:nowhere");
    }
    println!("covers: B44 S3.098");
}

#[test]
fn missing_virtual_host_is_an_error() {
    let mut rig = Rig::new(VARIANTS[0]);
    rig.set(|it| {
        let mut table = crate::dependencies::resources::table_of("r", &["a"]);
        table.virtual_hosts[0].domains = vec!["elsewhere".into()];
        it.listener("r");
        it.raw(types::ROUTE_CONFIGURATION, "r", prost::Message::encode_to_vec(&table));
    });
    let error = ConfigurationError::NoVirtualHost {
        routes: "r".into(),
        name: "shop.example.com".into(),
        note: "xDS node ID: node-1".into(),
    };
    assert_eq!(rig.said, [Err(error)]);
    rig.told();
    rig.set(|it| {
        it.routes("r", &["a"]).whole("a", &[1]);
    });
    assert_eq!(rig.last(), "[a] a=1");
}

#[test]
fn missing_cluster_does_not_affect_other_clusters() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.inline(&["a", "b", "c"]).whole("a", &[1]).cluster("c");
        });
        assert!(rig.told().is_empty());
        rig.advance(WAIT);
        let told = rig.last();
        assert!(told.starts_with("[a b c] a=1 b=(cds b: does not exist: not received"), "{told}");
        assert!(told.ends_with(" c=none"), "{told}");
        assert!(rig.note("c").starts_with("eds c: does not exist: not received"));
        let in_use = rig.follower.manager().configuration().unwrap().unwrap();
        let failure = in_use.cluster(&"b".into()).unwrap_err();
        assert_eq!(failure.code(), StatusCode::Unavailable, "though it was not found: {failure}");
        assert!(failure.to_string().contains("cds b: does not exist"), "{failure}");
        let failure = rig.cluster("c").failure("there is none");
        assert_eq!(failure.code(), StatusCode::Unavailable);
        assert!(failure.to_string().contains("there is none (resolution note: eds c: does not"));
        assert_eq!(in_use.cluster(&"d".into()).unwrap_err().code(), StatusCode::Internal, "a bug");
        rig.set(|it| {
            it.whole("b", &[2]).endpoints("c", &[3]);
        });
        assert_eq!(rig.last(), "[a b c] a=1 b=2 c=3");
    }
    println!("covers: S3.031 S3.034 S3.096 S3.097 S3.098 DE-25 B26 B44");
}

#[test]
fn resolution_note_has_the_errors_that_affect_its_cluster() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.listener("r").routes("r", &["a", "b", "d"]).whole("a", &[1]).whole("b", &[2]);
            it.dns("d", "d.example.com");
        });
        for cluster in ["a", "b", "d"] {
            assert_eq!(rig.note(cluster), "xDS node ID: node-1");
        }
        let place = "(node node-1, server server)";
        // An error of one resource appears in the notes of the affected clusters.
        rig.set(|it| {
            it.raw(types::CLUSTER, "a", crate::dependencies::resources::aggregate("a", &[]));
        });
        let of_a = rig.note("a");
        assert!(of_a.starts_with("cds a: invalid: "), "{of_a}");
        assert_eq!(rig.note("b"), "xDS node ID: node-1");
        rig.set(|it| {
            it.error(types::CLUSTER_LOAD_ASSIGNMENT, "a", StatusCode::NotFound);
        });
        let of_endpoints = format!("eds a: the server reports status 5: said so {place}");
        assert_eq!(rig.note("a"), format!("{of_a}; {of_endpoints}"));
        rig.set(|it| {
            it.error(types::LISTENER, "l", StatusCode::PermissionDenied);
            it.error(types::ROUTE_CONFIGURATION, "r", StatusCode::Unavailable);
        });
        let above = format!(
            "lds l: the server reports status 7: said so {place}; \
             rds r: the server reports status 14: said so {place}"
        );
        assert_eq!(rig.note("a"), format!("{above}; {of_a}; {of_endpoints}"));
        assert_eq!((rig.note("b"), rig.note("d")), (above.clone(), above.clone()));
        assert_eq!(rig.last(), "[a b d] a=1 b=2 d=d.example.com:443", "all stays in use");
        // The note of a logical DNS cluster contains its own errors too.
        rig.set(|it| {
            it.error(types::CLUSTER, "d", StatusCode::Unavailable);
        });
        let of_d = format!("cds d: the server reports status 14: said so {place}");
        assert_eq!(rig.note("d"), format!("{above}; {of_d}"));
        assert_eq!(rig.note("b"), above, "it is nobody else's");
        // All errors are cleared.
        rig.set(|it| {
            it.listener("r").routes("r", &["a", "b", "d", "a"]).whole("a", &[7]);
            it.dns("d", "e.example.com");
        });
        assert_eq!(rig.note("b"), "xDS node ID: node-1");
        assert_eq!(rig.note("a"), "xDS node ID: node-1");
        assert_eq!(rig.note("d"), "xDS node ID: node-1");
        // The endpoints resource exists but has no localities.
        rig.set(|it| {
            it.eds("a", "nobody").raw(
                types::CLUSTER_LOAD_ASSIGNMENT,
                "nobody",
                crate::dependencies::resources::no_endpoints("nobody"),
            );
        });
        assert_eq!(rig.note("a"), "EDS resource `nobody` has no localities");
        assert_eq!(rig.note("b"), "xDS node ID: node-1");
    }
    println!("covers: S3.022 S3.091 S3.092 S3.093 S3.094 S3.095");
}

/// An aggregate without usable members has no note of its own, so its failure contains the ambient
/// errors.
#[test]
fn aggregate_without_leaves_reports_ambient_errors() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.listener("r").routes("r", &["a", "b"]).aggregate("a", &["a"]).whole("b", &[2]);
        });
        let failure = |rig: &Rig| {
            let in_use = rig.follower.manager().configuration().unwrap().unwrap();
            in_use.cluster(&"a".into()).unwrap_err().to_string()
        };
        let why = "cluster `a` cannot be used: no leaf cluster of the aggregate is available";
        assert_eq!(failure(&rig), format!("{why} (resolution note: xDS node ID: node-1)"));
        rig.told();
        rig.set(|it| {
            it.raw(types::CLUSTER, "a", crate::dependencies::resources::aggregate("a", &[]));
        });
        assert_eq!(rig.told().len(), 1, "who sends calls is told");
        let of_cluster = failure(&rig);
        assert!(of_cluster.starts_with(&format!("{why} (resolution note: cds a: invalid: ")));
        assert_eq!(rig.note("b"), "xDS node ID: node-1");
        rig.set(|it| {
            it.error(types::ROUTE_CONFIGURATION, "r", StatusCode::Unavailable);
        });
        let both = failure(&rig);
        assert!(both.contains("(resolution note: rds r: the server reports status 14"), "{both}");
        assert!(both.contains("; cds a: invalid: "), "{both}");
        rig.set(|it| {
            it.aggregate("a", &["a", "a"]).routes("r", &["a", "b", "a"]);
        });
        assert!(failure(&rig).ends_with("(resolution note: xDS node ID: node-1)"));
    }
    println!("covers: S3.091 S3.092 S3.093");
}

#[test]
fn call_failure_mentions_the_lost_management_server() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.listener("r").routes("r", &["a"]).whole("a", &[1]);
        });
        rig.told();
        rig.set_network(false);
        rig.advance(Duration::from_secs(5));
        assert_eq!(rig.last(), "[a] a=1", "calls go on");
        let failure = rig.cluster("a").failure("all endpoints are unreachable");
        assert_eq!(failure.code(), StatusCode::Unavailable);
        let text = failure.to_string();
        let start =
            "no endpoint of cluster `a`: all endpoints are unreachable (resolution note: lds l: ";
        assert!(text.starts_with(start), "{text}");
        for kind in ["lds l: ", "rds r: ", "cds a: ", "eds a: "] {
            assert!(text.contains(kind), "{kind} in {text}");
        }
        rig.set_network(true);
        rig.advance(Duration::from_secs(200));
        rig.set(|it| {
            it.listener("r").routes("r", &["a", "a"]).endpoints("a", &[2]);
        });
        assert_eq!(rig.note("a"), "xDS node ID: node-1");
        assert_eq!(rig.last(), "[a] a=2");
    }
    println!("covers: S3.090 S3.091 S3.098");
}

#[test]
fn data_errors_that_drop_a_resource_remove_it() {
    for variant in VARIANTS {
        let mut rig = Rig::with_profile(variant, dropping());
        rig.set(|it| {
            it.listener("r").routes("r", &["a", "b"]).whole("a", &[1]).whole("b", &[2]);
        });
        assert_eq!(rig.last(), "[a b] a=1 b=2");
        rig.set(|it| {
            it.remove(types::CLUSTER, "b");
        });
        let told = rig.last();
        assert!(told.starts_with("[a b] a=1 b=(cds b: does not exist: deleted"), "{told}");
        assert_eq!(rig.watched(), "lds:l rds:r cds:a cds:b eds:a");
        rig.set(|it| {
            it.error(types::CLUSTER_LOAD_ASSIGNMENT, "a", StatusCode::NotFound);
        });
        let Children::Leaf(leaf) = &rig.cluster("a").children else { panic!("no aggregate") };
        assert_eq!(leaf.endpoints, Endpoints::Missing);
        assert!(rig.note("a").starts_with("eds a: the server reports status 5"));
        rig.told();
        rig.set(|it| {
            it.remove(types::LISTENER, "l");
        });
        assert!(rig.last().starts_with("error: lds l: does not exist: deleted"));
        assert_eq!(rig.watched(), "lds:l");
        rig.set(|it| {
            it.listener("r").whole("a", &[4]).whole("b", &[5]);
        });
        assert_eq!(rig.last(), "[a b] a=4 b=5");
    }
    println!("covers: B44");
}

#[test]
fn transient_error_of_new_routes_keeps_the_old_ones() {
    let mut rig = Rig::new(VARIANTS[0]);
    rig.set(|it| {
        it.listener("r").routes("r", &["a"]).whole("a", &[1]);
    });
    rig.told();
    rig.set(|it| {
        it.routes("r", &["b"]);
    });
    assert_eq!(rig.watched(), "lds:l rds:r cds:a cds:b eds:a");
    rig.set_network(false);
    rig.advance(Duration::from_secs(60));
    assert_eq!(rig.last(), "[a] a=1", "b is not known to be missing");
    rig.set(|it| {
        it.whole("b", &[2]);
    });
    rig.set_network(true);
    rig.advance(Duration::from_secs(200));
    assert_eq!(rig.last(), "[b] b=2");
    // Without a previous version, the error is reported at once.
    let mut rig = Rig::new(VARIANTS[0]);
    rig.set_network(false);
    rig.advance(Duration::from_secs(60));
    assert!(rig.told()[0].starts_with("error: lds l: "));
}

/// While renamed routes or endpoints are transiently unavailable, the old ones stay in use, and the
/// notes contain the error. If they do not exist, the error takes effect.
#[test]
fn transient_error_of_a_renamed_resource_keeps_the_old_and_is_noted() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.set(|it| {
            it.listener("r").routes("r", &["a", "b"]).whole("a", &[1]).whole("b", &[2]);
        });
        assert_eq!(rig.last(), "[a b] a=1 b=2");
        rig.set(|it| {
            it.eds("a", "elsewhere");
            it.error(types::CLUSTER_LOAD_ASSIGNMENT, "elsewhere", StatusCode::Unavailable);
        });
        let place = "(node node-1, server server)";
        let of_next = format!("eds elsewhere: the server reports status 14: said so {place}");
        assert_eq!(rig.last(), "[a b] a=1 b=2");
        assert_eq!(rig.note("a"), of_next);
        assert_eq!(rig.note("b"), "xDS node ID: node-1", "it is nobody else's");
        rig.set(|it| {
            it.listener("other").error(
                types::ROUTE_CONFIGURATION,
                "other",
                StatusCode::Unavailable,
            );
        });
        let of_routes = format!("rds other: the server reports status 14: said so {place}");
        assert_eq!(rig.last(), "[a b] a=1 b=2");
        assert_eq!(rig.note("a"), format!("{of_routes}; {of_next}"));
        assert_eq!(rig.note("b"), of_routes);
        // The endpoints arrive, and the routes do not exist.
        rig.set(|it| {
            it.endpoints("elsewhere", &[3]);
        });
        assert_eq!(rig.last(), "[a b] a=3 b=2");
        assert_eq!(rig.note("a"), of_routes);
        rig.set(|it| {
            it.error(types::ROUTE_CONFIGURATION, "other", StatusCode::NotFound);
        });
        let told = rig.last();
        assert!(told.starts_with("error: rds other: "), "{told}");
    }
    println!("covers: S3.020 S3.092 S3.093 B44");
}

#[test]
fn absence_reported_by_the_server_takes_effect_at_once() {
    let [_, incremental] = VARIANTS;
    let mut rig = Rig::with_server(incremental, Profile::grpc(), ServerConfig::default());
    rig.set(|it| {
        it.inline(&["a", "b"]).whole("a", &[1]);
    });
    assert!(
        rig.last()
            .starts_with("[a b] a=1 b=(cds b: does not exist: reported missing by the server")
    );
}

#[test]
fn unwatchable_name_is_an_error_of_its_cluster() {
    let mut rig = Rig::new(VARIANTS[0]);
    let long = "x".repeat(5_000_000);
    rig.set(|it| {
        it.inline(&["a", "*"]).whole("a", &[1]);
        it.aggregate("a", &[&long, "b"]).whole("b", &[2]);
    });
    let told = rig.last();
    assert!(told.contains("*=(cannot be watched: \"*\" is not a resource name)"), "{told}");
}

/// A server's error for one cluster, or a timeout, does not delay other clusters or routes.
#[test]
fn any_error_of_a_cluster_ends_the_wait_for_it() {
    let feature: ServerFeatures =
        [ServerFeature::ResourceTimerIsTransientError].into_iter().collect();
    for variant in VARIANTS {
        let server = ServerAddress::new("server").with_variant(variant).with_features(feature);
        let mut config = ServerConfig::default();
        config.type_defaults.full_state.absence_delay = AbsenceDelay::Never;
        config.type_defaults.others.absence_delay = AbsenceDelay::Never;
        let mut rig = Rig::with_client(variant, client_of(server, Profile::grpc()), config);
        rig.set(|it| {
            it.listener("r").routes("r", &["a"]).whole("a", &[1]);
        });
        assert_eq!(rig.last(), "[a] a=1");
        rig.set(|it| {
            it.routes("r", &["a", "typo"]);
        });
        assert!(rig.told().is_empty(), "it may come");
        rig.advance(WAIT * 2);
        let told = rig.last();
        assert!(told.starts_with("[a typo] a=1 typo=(cds typo: no answer within 30 s"), "{told}");

        // Endpoints, and members of aggregates.
        rig.set(|it| {
            it.routes("r", &["a", "lost"]).cluster("lost");
        });
        rig.advance(WAIT * 2);
        assert_eq!(rig.last(), "[a lost] a=1 lost=none");
        rig.set(|it| {
            it.routes("r", &["a", "all"]).aggregate("all", &["typo", "a"]);
        });
        rig.advance(WAIT * 2);
        let told = rig.last();
        assert!(told.starts_with("[a all] a=1 all=<a> typo=(cds typo: no answer"), "{told}");

        // An error from the server counts as an answer.
        rig.set(|it| {
            it.routes("r", &["a", "b"]).error(types::CLUSTER, "b", StatusCode::Unavailable);
        });
        let told = rig.last();
        assert!(told.starts_with("[a b] a=1 b=(cds b: the server reports status 14"), "{told}");
    }
    println!("covers: B44");
}

/// An unreachable authority does not delay routes of another authority.
#[test]
fn unreachable_authority_does_not_delay_other_clusters() {
    for variant in VARIANTS {
        let dead = AuthorityConfig::new("dead")
            .with_server(ServerAddress::new("nobody").with_variant(variant));
        let client = client_config(variant, Profile::grpc()).with_authority(dead);
        let mut rig = Rig::with_client(variant, client, ServerConfig::default());
        rig.set(|it| {
            it.listener("r").routes("r", &["a"]).whole("a", &[1]);
        });
        assert_eq!(rig.last(), "[a] a=1");
        let lost = "xdstp://dead/envoy.config.cluster.v3.Cluster/c";
        rig.set(|it| {
            it.routes("r", &["a", lost]);
        });
        rig.advance(WAIT);
        let told = rig.last();
        assert!(told.starts_with(&format!("[a {lost}] a=1 {lost}=(cds {lost}: ")), "{told}");
        rig.set(|it| {
            it.routes("r", &["a", "b", lost]).whole("b", &[2]);
        });
        assert!(rig.last().starts_with(&format!("[a b {lost}] a=1 b=2 ")));
    }
    println!("covers: B44");
}
