//! Incremental validation of an updated route configuration gives the same result as full
//! validation.

use bytes::Bytes;
use proptest::{collection::vec, prelude::*};
use prost::Message as _;
use xds_core::{
    client::{
        CachedResource, Profile, ResourceType as _, ServerAddress, ServerFeature, ServerFeatures,
        ValidationContext, Value,
    },
    proto::{BoolValue, UInt32Value, envoy::r#type::matcher::v3::RegexMatcher},
};
use xds_routing::{
    RouteConfigurations, Rules,
    proto::envoy::{
        config::route::v3::{
            ClusterSpecifierPlugin, QueryParameterMatcher, RetryPolicy, Route, RouteAction,
            RouteConfiguration as Schema, RouteMatch, VirtualHost,
            route_action::{ClusterSpecifier, HashPolicy, HostRewriteSpecifier, hash_policy},
        },
        r#type::matcher::v3::RegexMatchAndSubstitute,
    },
    route::RouteConfiguration,
};

use crate::support::*;

/// Random route: valid, skipped, with expressions, or invalid.
fn any_route() -> impl Strategy<Value = Route> {
    prop_oneof![
        6 => (0..4_u8).prop_map(|it| route(path(&format!("/s/{it}")), cluster("a"))),
        2 => (0..3_u32).prop_map(|it| route(prefix("/"), weighted(&[("a", it + 1), ("b", 1)]))),
        2 => (0..4_u8).prop_map(|it| route(safe_regex(&format!("/{it}.*")), cluster("a"))),
        1 => Just(Route {
            r#match: Some(RouteMatch {
                query_parameters: vec![QueryParameterMatcher::default()],
                ..prefix("/")
            }),
            ..route(prefix("/"), cluster("a"))
        }),
        1 => Just(renamed()),
        1 => (0..4_u8).prop_map(hashed),
        // Invalid, but skipped because no call has such a path.
        1 => Just(route(prefix("nowhere"), cluster(""))),
        1 => Just(route(prefix("/"), plugin("p"))),
        1 => Just(route(RouteMatch::default(), cluster("a"))),
    ]
}

/// Route with authority rewriting, which requires a trusted server.
fn renamed() -> Route {
    let name = HostRewriteSpecifier::AutoHostRewrite(BoolValue { value: true });
    let named = RouteAction { host_rewrite_specifier: Some(name), ..action(cluster("a")) };
    route_to(path("/s/named"), named)
}

/// Route with a hash policy that rewrites a header.
fn hashed(which: u8) -> Route {
    let pattern = RegexMatcher { regex: format!("{which}+"), ..RegexMatcher::default() };
    let header = hash_policy::Header {
        header_name: "user".into(),
        regex_rewrite: Some(RegexMatchAndSubstitute {
            pattern: Some(pattern),
            substitution: "x".into(),
        }),
    };
    let policy = HashPolicy {
        policy_specifier: Some(hash_policy::PolicySpecifier::Header(header)),
        ..HashPolicy::default()
    };
    let hashed = RouteAction { hash_policy: vec![policy], ..action(cluster("a")) };
    route_to(path("/s/hashed"), hashed)
}

fn any_server() -> impl Strategy<Value = ServerAddress> {
    any::<bool>().prop_map(|is_trusted| {
        let server = ServerAddress::new("server");
        let trusted = ServerFeatures::NONE.with(ServerFeature::TrustedXdsServer);
        if is_trusted { server.with_features(trusted) } else { server }
    })
}

fn plugin(name: &str) -> ClusterSpecifier {
    ClusterSpecifier::ClusterSpecifierPlugin(name.into())
}

fn any_host() -> impl Strategy<Value = VirtualHost> {
    (vec(any_route(), 0..6), 0..4_u32).prop_map(|(routes, retries)| VirtualHost {
        retry_policy: (retries > 0).then(|| RetryPolicy {
            retry_on: "unavailable".into(),
            num_retries: Some(UInt32Value { value: retries }),
            ..RetryPolicy::default()
        }),
        ..host(&["*"], routes)
    })
}

/// Change between two versions of a configuration.
#[derive(Clone, Debug)]
enum Edit {
    Replace(usize, usize, Route),
    Insert(usize, usize, Route),
    Remove(usize, usize),
    Host(usize, VirtualHost),
    Plugin,
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let at = || (0..3_usize, 0..6_usize);
    prop_oneof![
        3 => (at(), any_route()).prop_map(|((host, at), route)| Edit::Replace(host, at, route)),
        2 => (at(), any_route()).prop_map(|((host, at), route)| Edit::Insert(host, at, route)),
        2 => at().prop_map(|(host, at)| Edit::Remove(host, at)),
        1 => (0..3_usize, any_host()).prop_map(|(at, host)| Edit::Host(at, host)),
        1 => Just(Edit::Plugin),
    ]
}

fn apply(edit: Edit, schema: &mut Schema) {
    let hosts = &mut schema.virtual_hosts;
    match edit {
        Edit::Replace(host, at, route) => {
            if let Some(old) = hosts.get_mut(host).and_then(|it| it.routes.get_mut(at)) {
                *old = route;
            }
        }
        Edit::Insert(host, at, route) => {
            if let Some(host) = hosts.get_mut(host) {
                host.routes.insert(at.min(host.routes.len()), route);
            }
        }
        Edit::Remove(host, at) => {
            if let Some(host) = hosts.get_mut(host).filter(|it| at < it.routes.len()) {
                host.routes.remove(at);
            }
        }
        Edit::Host(at, host) => match hosts.get_mut(at) {
            Some(old) => *old = host,
            None => hosts.push(host),
        },
        // Optional and unsupported, so its routes are skipped.
        Edit::Plugin => schema.cluster_specifier_plugins.push(ClusterSpecifierPlugin {
            extension: Some(xds_routing::proto::envoy::config::core::v3::TypedExtensionConfig {
                name: "p".into(),
                typed_config: Some(xds_core::proto::Any {
                    type_url: "type.googleapis.com/unknown".into(),
                    ..xds_core::proto::Any::default()
                }),
            }),
            is_optional: true,
        }),
    }
}

proptest! {
    #[test]
    fn previous_version_does_not_affect_validation(
        hosts in vec(any_host(), 0..3),
        edits in vec(any_edit(), 0..4),
        flaw in proptest::option::of((any::<proptest::sample::Index>(), any::<u8>())),
        most_expressions in 1..4_usize,
        (before, now) in (any_server(), any_server()),
    ) {
        let mut rules = Rules::default();
        rules.expressions.count = most_expressions;
        let mut schema = routes("routes", hosts);
        let bytes = Bytes::from(schema.encode_to_vec());
        edits.into_iter().for_each(|edit| apply(edit, &mut schema));
        let mut next = schema.encode_to_vec();
        if let Some((at, byte)) = flaw {
            let at = at.index(next.len());
            next[at] = byte;
        }
        let next = Bytes::from(next);
        let Ok(held) = RouteConfiguration::from_bytes(&bytes, &rules) else { return Ok(()) };
        let expected = RouteConfiguration::from_bytes(&next, &rules);
        let found = RouteConfiguration::from_bytes_after((&bytes, &held), &next, &rules);
        prop_assert_eq!(&found, &expected);
        // As a client validates it, possibly from another server with a different trust.
        let (profile, known) = (Profile::grpc(), RouteConfigurations::new(rules));
        let (before, now) = (ValidationContext::new(&before, &profile), ValidationContext::new(&now, &profile));
        let held = known.validate(&bytes, &before).unwrap().unwrap();
        let value = |it: Option<Value>| it.and_then(|it| it.downcast::<RouteConfiguration>());
        let expected = known.validate(&next, &now).map(value);
        let found = known.validate_update(CachedResource::new(&bytes, &held), &next, &now).map(value);
        prop_assert_eq!(found.as_ref().ok(), expected.as_ref().ok());
    }
}
