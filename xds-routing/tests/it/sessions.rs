//! Cookies of sessions: which calls have a session, their cluster, and the cookie of the response
//! (gRFC A55, A60).

use std::{collections::BTreeSet, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use xds_core::proto::Duration as DurationSchema;
use xds_routing::{
    Call, Random, Rules,
    filters::Session,
    listener::Listener,
    proto::envoy::{
        config::{core::v3::TypedExtensionConfig, route::v3::Route},
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
    },
    router::{CallTarget, Router},
};

use crate::support::*;

fn cookie(name: &str, path: &str, milliseconds: Option<i64>) -> Cookie {
    let ttl = milliseconds.map(|it| DurationSchema {
        seconds: it / 1000,
        nanos: i32::try_from(it % 1000 * 1_000_000).expect("less than a second"),
    });
    Cookie { name: name.into(), ttl, path: path.into() }
}

fn filter(cookie: Option<Cookie>) -> StatefulSession {
    let session_state = cookie.map(|cookie| TypedExtensionConfig {
        name: "cookie".into(),
        typed_config: Some(packed(&CookieBasedSessionState { cookie: Some(cookie) })),
    });
    StatefulSession { session_state }
}

/// Returns a router with these filters, named `0`, `1` and so on.
fn router(filters: &[StatefulSession], routes: Vec<Route>) -> Router {
    let mut manager = manager(rds("routes"));
    for (index, config) in filters.iter().enumerate() {
        let config_type = Some(ConfigType::TypedConfig(packed(config)));
        let filter = HttpFilter { name: index.to_string(), config_type, ..HttpFilter::default() };
        manager.http_filters.insert(index, filter);
    }
    let listener = Listener::from_schema(&api_listener("l", &manager), &Rules::default()).unwrap();
    Router::new(Arc::new(valid(routes)), "name", listener.api().unwrap()).unwrap()
}

fn to_cluster() -> Vec<Route> {
    vec![route(prefix(""), cluster("c"))]
}

/// Returns the cluster and the session of a call with this `cookie` header.
fn joined(
    router: &Router,
    path: &str,
    header: Option<&str>,
    seed: u64,
) -> (String, Option<Session>) {
    let headers: Vec<_> = header.into_iter().map(|value| ("cookie", value)).collect();
    let call = Call::new(path, &headers[..]);
    let decision = router.decide(&call, None, &mut Random::new(seed)).expect("a route");
    let CallTarget::Cluster { name, .. } = decision.target else { panic!("a cluster") };
    (name.to_string(), decision.session)
}

fn session(router: &Router, header: Option<&str>) -> Option<Session> {
    joined(router, "/s/m", header, 0).1
}

fn encoded(value: &str) -> String {
    STANDARD.encode(value)
}

/// Paths match as in RFC 6265, section 5.1.4.
#[test]
fn session_needs_a_path_that_the_cookie_applies_to() {
    for (of_cookie, matching, others) in [
        ("", &["/s/m", "/"][..], &[][..]),
        ("/", &["/s/m", "/"], &[]),
        ("/s", &["/s", "/s/m"], &["/", "/st/m", "/S/m"]),
        ("/s/", &["/s/", "/s/m"], &["/s", "/st/m"]),
        ("/s/m", &["/s/m", "/s/m/n"], &["/s", "/s/mn", "/t/s/m"]),
    ] {
        let router = router(&[filter(Some(cookie("k", of_cookie, None)))], to_cluster());
        let has_session = |path: &&&str| joined(&router, path, None, 0).1.is_some();
        assert_eq!(matching.iter().find(|path| !has_session(path)), None, "{of_cookie}");
        assert_eq!(others.iter().find(has_session), None, "{of_cookie}");
    }
    println!("covers: B39a");
}

#[test]
fn cookie_of_the_request_is_the_first_with_the_name() {
    let router = router(&[filter(Some(cookie("k", "", None)))], to_cluster());
    let [one, two] = ["10.0.0.1:1;c", "10.0.0.2:2;c"].map(encoded);
    let bare = one.trim_end_matches('=');
    let addresses = |header: &str| {
        let session = session(&router, Some(header)).expect("a session");
        session.addresses().to_owned()
    };
    for header in [
        format!("k={one}"),
        format!("k={bare}"),
        format!("a=b; k={one}; c=d"),
        format!("a=b;k={one}"),
        format!("k={one}; k={two}"),
        // Several headers.
        format!("a=b,k={one}"),
        format!("a=b=c; k={one}"),
    ] {
        assert_eq!(addresses(&header), "10.0.0.1:1", "{header}");
    }
    for header in
        ["", "k", "k=", "k=*", "K=eA==", "ak=eA==", "k =eA==", "k=/w==", "a=k=eA==", "k=*; k=eA=="]
    {
        assert_eq!(addresses(header), "", "{header}");
    }
    // Without a cluster, as before A60.
    assert_eq!(addresses(&format!("k={}", encoded("10.0.0.1:1"))), "10.0.0.1:1");
    assert_eq!(session(&router, None).expect("a session").addresses(), "");
}

#[test]
fn response_has_a_cookie_if_that_of_the_request_is_not_correct() {
    let router = router(&[filter(Some(cookie("k", "", None)))], to_cluster());
    let actual = "10.0.0.1:1,10.0.0.1:2";
    let set = |value: Option<&str>| {
        let header = value.map(|value| format!("k={}", encoded(value)));
        session(&router, header.as_deref()).expect("a session").set_cookie(actual)
    };
    assert_eq!(set(Some("10.0.0.1:1,10.0.0.1:2;c")), None);
    let expected = format!("k={}; HttpOnly", encoded("10.0.0.1:1,10.0.0.1:2;c"));
    for value in [
        None,
        Some("10.0.0.1:1,10.0.0.1:2"),
        Some("10.0.0.1:1,10.0.0.1:2;d"),
        Some("10.0.0.1:2,10.0.0.1:1;c"),
        Some("10.0.0.1:1;c"),
        Some(";c"),
    ] {
        assert_eq!(set(value), Some(expected.clone()), "{value:?}");
    }
}

#[test]
fn cookie_has_the_attributes_of_its_configuration() {
    let value = encoded("a:1;c");
    for (path, ttl, attributes) in [
        ("", None, ""),
        ("", Some(0), ""),
        ("/", Some(120_000), "; Path=/; Max-Age=120"),
        ("/s", None, "; Path=/s"),
        ("", Some(1_999), "; Max-Age=1"),
        ("", Some(1), "; Max-Age=0"),
    ] {
        let router = router(&[filter(Some(cookie("k", path, ttl)))], to_cluster());
        let session = session(&router, None).expect("a session");
        let expected = format!("k={value}; HttpOnly{attributes}");
        assert_eq!(session.set_cookie("a:1"), Some(expected));
    }
}

/// A cookie moves the call to its cluster only if the route can choose it (A60).
#[test]
fn cluster_of_the_cookie_is_used_if_the_route_has_it() {
    let weights = weighted(&[("a", 1), ("b", 1), ("none", 0)]);
    let routes = vec![route(path("/s/one"), cluster("a")), route(prefix(""), weights)];
    let router = router(&[filter(Some(cookie("k", "", None)))], routes);
    let clusters = |path: &str, stated: &str| -> BTreeSet<String> {
        let header = format!("k={}", encoded(&format!("10.0.0.1:1;{stated}")));
        let all = (0..20).map(|seed| joined(&router, path, Some(&header), seed));
        let all = all.inspect(|(cluster, session)| {
            let session = session.as_ref().expect("a session");
            assert_eq!(session.cluster().as_str(), cluster);
            assert_eq!(session.set_cookie("10.0.0.1:1").is_none(), stated == cluster);
        });
        all.map(|(cluster, _)| cluster).collect()
    };
    let names = |names: &[&str]| names.iter().map(|&it| it.into()).collect::<BTreeSet<String>>();
    assert_eq!(clusters("/s/m", "a"), names(&["a"]));
    assert_eq!(clusters("/s/m", "b"), names(&["b"]));
    for other in ["", "none", "c", "cluster:a", "a;b"] {
        assert_eq!(clusters("/s/m", other), names(&["a", "b"]), "{other}");
        assert_eq!(clusters("/s/one", other), names(&["a"]), "{other}");
    }
    assert_eq!(clusters("/s/one", "b"), names(&["a"]));
}

/// An override replaces the filter of the listener or disables it (A39).
#[test]
fn overrides_replace_or_disable_the_cookie() {
    let other = Override::StatefulSession(filter(Some(cookie("other", "/x", None))));
    let empty = Override::StatefulSession(filter(None));
    for (of_route, path, expected) in [
        (None, "/s/m", Some("k=")),
        (Some(other), "/x/m", Some("other=")),
        (Some(Override::Disabled(true)), "/s/m", None),
        (Some(Override::Disabled(false)), "/s/m", None),
        (Some(empty), "/s/m", None),
    ] {
        let mut routes = to_cluster();
        let config = of_route.map(|it| packed(&StatefulSessionPerRoute { r#override: Some(it) }));
        routes[0].typed_per_filter_config.extend(config.map(|it| ("0".into(), it)));
        let router = router(&[filter(Some(cookie("k", "", None)))], routes);
        let (_, session) = joined(&router, path, None, 0);
        let header = session.and_then(|it| it.set_cookie("a:1"));
        assert_eq!(header.is_some(), expected.is_some());
        assert!(header.unwrap_or_default().starts_with(expected.unwrap_or_default()));
    }
    // A filter without a state can be enabled by a route.
    let mut routes = to_cluster();
    let of_route = Override::StatefulSession(filter(Some(cookie("k", "", None))));
    let config = packed(&StatefulSessionPerRoute { r#override: Some(of_route) });
    routes[0].typed_per_filter_config.insert("0".into(), config);
    assert!(session(&router(&[filter(None)], routes), None).is_some());
    assert!(session(&router(&[filter(None)], to_cluster()), None).is_none());
}

#[test]
fn last_filter_that_applies_is_used() {
    let [first, second] = [("a", "/s"), ("b", "/s/m")];
    let filters = [first, second].map(|(name, path)| filter(Some(cookie(name, path, None))));
    let router = router(&filters, to_cluster());
    for (path, name) in [("/s/m", "b="), ("/s/n", "a=")] {
        let session = joined(&router, path, None, 0).1.expect("a session");
        assert!(session.set_cookie("a:1").expect("a cookie").starts_with(name));
    }
}

proptest! {
    /// The cookie that a response sets is correct in the next request.
    #[test]
    fn set_cookie_is_read_back(addresses in "[0-9a-f.:\\[\\],]{1,40}", name in "[a-zA-Z_-]{1,8}") {
        let router = router(&[filter(Some(cookie(&name, "", None)))], to_cluster());
        let first = session(&router, None).expect("a session");
        let set = first.set_cookie(&addresses).expect("a cookie");
        let pair = set.split_once(';').expect("attributes").0;
        let next = session(&router, Some(pair)).expect("a session");
        prop_assert_eq!(next.addresses(), &addresses);
        prop_assert_eq!(next.set_cookie(&addresses), None);
    }

    /// Any header is accepted, and changes neither the cluster nor the call.
    #[test]
    fn any_cookie_header_is_harmless(header in "\\PC{0,60}", value in prop::collection::vec(any::<u8>(), 0..40)) {
        let router = router(&[filter(Some(cookie("k", "", None)))], to_cluster());
        for header in [header, format!("k={}", STANDARD.encode(value))] {
            let (cluster, session) = joined(&router, "/s/m", Some(&header), 0);
            prop_assert_eq!(cluster, "c");
            let session = session.expect("a session");
            prop_assert!(session.set_cookie("10.0.0.1:1").is_none_or(|it| it.is_ascii()));
        }
    }
}
