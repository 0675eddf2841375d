//! Calls that reach the services of a server.

use xds_core::{
    StatusCode, Time,
    client::Profile,
    server::{ServerConfig, Variant},
    types,
};
use xds_routing::{
    Random,
    proto::envoy::{
        config::{
            rbac::v3::{self as rules, Permission, Policy, Principal},
            route::v3::{NonForwardingAction, Route, RouteConfiguration, route::Action},
        },
        extensions::filters::{
            http::rbac::v3::{Rbac, RbacPerRoute},
            network::http_connection_manager::v3::{
                HttpConnectionManager, HttpFilter, http_connection_manager::RouteSpecifier,
                http_filter,
            },
        },
    },
    serving::{Connection, IncomingCall, ServerConfiguration},
};

use super::{chain_with, updates::serving};
use crate::{support::*, validation::servers::server};

/// Returns the status of a call with these headers, or OK.
fn status(
    configuration: &ServerConfiguration,
    authority: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, String) {
    let connection =
        Connection::new("10.0.0.1:443".parse().unwrap(), "10.0.0.2:5000".parse().unwrap());
    let chain = configuration.socket().unwrap().filter_chain(&connection).expect("a chain");
    let call = IncomingCall::new(authority, path, headers);
    let routes = configuration.routes();
    match routes.admit(chain, &connection, &call, &mut Random::new(1)) {
        Ok(()) => (StatusCode::Ok, String::new()),
        Err(refused) => (refused.code(), refused.to_string()),
    }
}

fn for_servers(path: &str) -> Route {
    Route {
        r#match: Some(prefix(path)),
        action: Some(Action::NonForwardingAction(NonForwardingAction {})),
        ..Route::default()
    }
}

/// Returns rules that deny calls of this path.
fn deny(path: &str) -> Rbac {
    let permission = Permission {
        rule: Some(rules::permission::Rule::UrlPath(xds_routing::proto::envoy::r#type::matcher::v3::PathMatcher {
            rule: Some(
                xds_routing::proto::envoy::r#type::matcher::v3::path_matcher::Rule::Path(
                    xds_core::proto::StringMatcher {
                        match_pattern: Some(
                            xds_core::proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern::Exact(path.into()),
                        ),
                        ..Default::default()
                    },
                ),
            ),
        })),
    };
    let anybody = Principal { identifier: Some(rules::principal::Identifier::Any(true)) };
    let policy =
        Policy { permissions: vec![permission], principals: vec![anybody], ..Policy::default() };
    let mut denied = rules::Rbac { action: rules::rbac::Action::Deny as i32, ..Default::default() };
    denied.policies.insert("no".into(), policy);
    Rbac { rules: Some(denied), ..Rbac::default() }
}

fn rbac_filter(name: &str, config: &Rbac) -> HttpFilter {
    HttpFilter {
        name: name.into(),
        config_type: Some(http_filter::ConfigType::TypedConfig(packed(config))),
        ..HttpFilter::default()
    }
}

/// Returns a configuration with these inline routes, and with these filters before the router.
fn configured(routes: RouteConfiguration, filters: Vec<HttpFilter>) -> ServerConfiguration {
    let mut manager = manager(RouteSpecifier::RouteConfig(routes));
    manager.http_filters.splice(0..0, filters);
    configured_by(&manager)
}

fn configured_by(manager: &HttpConnectionManager) -> ServerConfiguration {
    let listener = server(vec![chain_with(manager, None)]);
    let mut rig = serving(Variant::Incremental, Profile::grpc(), ServerConfig::default());
    rig.set(types::LISTENER, "s", &listener);
    rig.said.pop_back().expect("a configuration").expect("a valid listener")
}

#[test]
fn call_needs_a_route_for_servers() {
    // Redirects and other actions are not part of the schema.
    let other = Route { action: None, ..for_servers("/redirected/") };
    let table = routes(
        "r",
        vec![
            host(
                &["shop", "shop:443"],
                vec![route(prefix("/forwarded/"), cluster("c")), other, for_servers("/shop.Cart/")],
            ),
            host(&["*"], vec![for_servers("/public.")]),
        ],
    );
    let configuration = configured(table, vec![]);
    let status = |authority, path| status(&configuration, authority, path, &[]);
    assert_eq!(status("shop", "/shop.Cart/Add").0, StatusCode::Ok);
    assert_eq!(status("SHOP:443", "/shop.Cart/Add").0, StatusCode::Ok);
    assert_eq!(status("other", "/public.Info/Get").0, StatusCode::Ok);
    for (authority, path, message) in [
        ("shop", "/public.Info/Get", "no route of virtual host"),
        ("other", "/shop.Cart/Add", "no route of virtual host"),
        ("shop", "/forwarded/Call", "the matching route is not for servers"),
        ("shop", "/redirected/Call", "the matching route is not for servers"),
    ] {
        let (code, why) = status(authority, path);
        assert_eq!(code, StatusCode::Unavailable, "{authority}{path}");
        assert!(why.contains(message), "{why}");
    }
    let configuration = configured(routes("r", vec![host(&["a"], vec![for_servers("")])]), vec![]);
    assert_eq!(
        super::admission::status(&configuration, "b", "/s/m", &[]),
        (StatusCode::Unavailable, "no virtual host of route configuration `r` matches `b`".into())
    );
}

#[test]
fn each_access_filter_must_allow_a_call() {
    let table = || routes("r", vec![host(&["*"], vec![for_servers("")])]);
    let filters = vec![rbac_filter("one", &deny("/s/one")), rbac_filter("two", &deny("/s/two"))];
    let configuration = configured(table(), filters.clone());
    let denied = (StatusCode::PermissionDenied, "unauthorized RPC rejected".into());
    assert_eq!(status(&configuration, "a", "/s/one", &[]), denied);
    assert_eq!(status(&configuration, "a", "/s/two", &[]), denied);
    assert_eq!(status(&configuration, "a", "/s/three", &[]).0, StatusCode::Ok);

    // An override without rules disables the filter, one with rules replaces them. The most specific
    // one counts.
    let mut overridden = table();
    let packed_override = |rbac| packed(&RbacPerRoute { rbac });
    let of_all = packed_override(Some(deny("/s/three")));
    overridden.typed_per_filter_config.insert("two".into(), of_all);
    let host = &mut overridden.virtual_hosts[0];
    host.typed_per_filter_config.insert("one".into(), packed_override(Some(deny("/s/four"))));
    host.routes[0].typed_per_filter_config.insert("one".into(), packed_override(None));
    let configuration = configured(overridden, filters);
    assert_eq!(status(&configuration, "a", "/s/one", &[]).0, StatusCode::Ok);
    assert_eq!(status(&configuration, "a", "/s/two", &[]).0, StatusCode::Ok);
    assert_eq!(status(&configuration, "a", "/s/three", &[]), denied);
    assert_eq!(status(&configuration, "a", "/s/four", &[]).0, StatusCode::Ok);
}

#[test]
fn calls_fail_without_the_routes_of_their_chain() {
    let variant = Variant::StateOfTheWorld;
    let mut rig = serving(variant, Profile::grpc(), ServerConfig::default());
    rig.set(types::LISTENER, "s", &server(vec![chain_with(&manager(rds("absent")), None)]));
    rig.advance(core::time::Duration::from_secs(20));
    let configuration = rig.said.pop_back().expect("a configuration").expect("a valid listener");
    let (code, why) = status(&configuration, "a", "/s/m", &[]);
    assert_eq!(code, StatusCode::Unavailable);
    assert!(why.starts_with("no routes: ") && why.contains("absent"), "{why}");
    assert!(rig.now > Time::ZERO);
}
