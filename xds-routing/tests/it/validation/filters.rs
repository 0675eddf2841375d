//! HTTP filters and their overrides in routes (gRFC A39).

use core::time::Duration;

use bytes::Bytes;
use prost::Message;
use xds_core::proto::{Any, Duration as DurationSchema};
use xds_routing::{
    Rules,
    filters::{AbortStatus, DelayLength, FaultInjection, FilterConfig},
    listener::Listener,
    proto::envoy::{
        config::{core::v3::TypedExtensionConfig, route::v3::FilterConfig as Wrapper},
        extensions::{
            filters::{
                common::fault::v3::{FaultDelay, fault_delay::FaultDelaySecifier},
                http::{
                    fault::v3::{FaultAbort, HttpFault, fault_abort::ErrorType},
                    stateful_session::v3::StatefulSession,
                },
                network::http_connection_manager::v3::{HttpFilter, http_filter::ConfigType},
            },
            http::stateful_session::cookie::v3::CookieBasedSessionState,
        },
        r#type::{http::v3::Cookie, v3::FractionalPercent},
    },
    route::RouteConfiguration,
    rules::ROUTER,
};

use crate::{
    support::*,
    validation::{listeners::listener, servers, why},
};

const FAULT: &str = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";
const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
const RBAC_OVERRIDE: &str =
    "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute";
const SESSION: &str =
    "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession";
const SESSION_OVERRIDE: &str =
    "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute";
const PLACE: &str = "api_listener.api_listener.http_filters";

fn any(type_url: &str, value: impl Into<Bytes>) -> Any {
    Any { type_url: type_url.into(), value: value.into() }
}

fn filter_of(config: Any) -> HttpFilter {
    HttpFilter {
        name: "f".into(),
        config_type: Some(ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    }
}

/// Validates a client listener with this filter before the router.
fn of_client(config: Any, rules: &Rules) -> Result<FilterConfig, String> {
    let mut manager = manager(rds("r"));
    manager.http_filters.insert(0, filter_of(config));
    let validated = Listener::from_schema(&api_listener("l", &manager), rules);
    let validated = validated.map_err(|it| it.to_string())?;
    Ok(validated.api().expect("of clients").filters[0].config.clone())
}

/// Validates a server listener with this filter before the router.
fn of_server(config: Any) -> Result<(), String> {
    let mut manager = manager(rds("r"));
    manager.http_filters.insert(0, filter_of(config));
    listener(&servers::server(vec![servers::chain_of(&manager)])).map(|_| ())
}

/// Validates a route with this override.
fn of_route(name: &str, config: Any, rules: &Rules) -> Result<(), String> {
    let mut route = route(prefix(""), cluster("c"));
    route.typed_per_filter_config.insert(name.into(), config);
    let validated = RouteConfiguration::from_schema(&table(vec![route]), rules);
    validated.map(|_| ()).map_err(|it| it.to_string())
}

fn object(type_url: &str) -> Any {
    let text = [&[0x0a, type_url.len() as u8], type_url.as_bytes()].concat();
    any("type.googleapis.com/xds.type.v3.TypedStruct", text)
}

#[test]
fn filters_must_be_named_known_and_end_with_a_terminal_one() {
    let with = |filters: Vec<_>| {
        let mut manager = manager(rds("r"));
        manager.http_filters = filters;
        listener(&api_listener("l", &manager))
    };
    let router = || filter("router", ROUTER);
    assert!(with(vec![filter("fault", FAULT), router()]).is_ok());
    let place = "api_listener.api_listener.http_filters";
    assert_eq!(why(with(vec![])), format!("{place}: must have a terminal filter"));
    assert_eq!(
        why(with(vec![filter("f", FAULT)])),
        format!("{place}: the last filter must be terminal")
    );
    assert_eq!(
        why(with(vec![router(), filter("r", ROUTER)])),
        format!("{place}: only the last filter may be terminal")
    );
    assert_eq!(
        why(with(vec![filter("f", FAULT), filter("f", FAULT), router()])),
        format!("{place}[1].name: duplicate name `f`")
    );
    assert!(
        why(with(vec![filter("", FAULT), router()]))
            .starts_with(&format!("{place}[0].name: must not be empty"))
    );
    let mut unknown = filter("u", "type.googleapis.com/a.Filter");
    assert_eq!(
        why(with(vec![unknown.clone(), router()])),
        format!(
            "{place}[0].typed_config: the HTTP filter `type.googleapis.com/a.Filter` is not known"
        )
    );
    unknown.is_optional = true;
    assert_eq!(with(vec![unknown, router()]).unwrap().api().unwrap().filters.len(), 1);
    assert!(
        why(with(vec![filter("r", RBAC), router()])).ends_with("is not supported on this side")
    );
    // The composite filter is unsupported, so filters cannot be nested (A103).
    let composite = "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher";
    assert!(why(with(vec![filter("c", composite), router()])).ends_with("is not known"));
    println!("covers: B28");
}

#[test]
fn filter_overrides_require_a_known_overridable_filter() {
    let rules = Rules::default();
    let set = |config: Any| of_route("f", config, &rules);
    let place = "virtual_hosts[0].routes[0].typed_per_filter_config[f]";
    let unknown = "type.googleapis.com/a.Filter";
    assert_eq!(set(any(FAULT, vec![])), Ok(()));
    assert_eq!(set(any(RBAC_OVERRIDE, vec![])), Ok(()));
    assert_eq!(
        set(any(unknown, vec![])),
        Err(format!("{place}: the HTTP filter `{unknown}` is not known"))
    );
    assert_eq!(
        set(any(ROUTER, vec![])),
        Err(format!("{place}: the HTTP filter `{ROUTER}` cannot be overridden in routes"))
    );
    let wrapped =
        |is_optional| packed(&Wrapper { config: Some(any(unknown, vec![])), is_optional });
    assert_eq!(set(wrapped(true)), Ok(()));
    assert!(why(set(wrapped(false))).ends_with("is not known"));
    assert!(
        why(set(any("nothing", vec![]))).contains("type_url: `nothing` is not a valid type URL")
    );
    // The name identifies the filter, so it must not be empty.
    assert_eq!(
        of_route("", any(FAULT, vec![]), &rules),
        Err("virtual_hosts[0].routes[0].typed_per_filter_config[]: the name of a filter must not be empty".into())
    );
}

/// An override type is no filter, even on the side that supports the filter.
#[test]
fn override_type_is_not_accepted_as_a_filter() {
    assert_eq!(of_server(any(RBAC, vec![])), Ok(()));
    assert!(why(of_server(any(RBAC_OVERRIDE, vec![]))).ends_with("is only valid in routes"));
    assert!(
        why(of_client(any(SESSION_OVERRIDE, vec![]), &Rules::default()))
            .ends_with("is only valid in routes")
    );
    let rules = Rules::default();
    assert!(
        why(of_route("f", any(RBAC, vec![]), &rules)).ends_with("cannot be overridden in routes")
    );
}

/// A client must not ignore a filter that it does not implement (gRFC A39).
#[test]
fn unimplemented_filter_is_unknown() {
    let mut rules = Rules::default();
    assert!(of_client(any(SESSION, vec![]), &rules).is_ok());
    assert!(of_route("f", any(SESSION_OVERRIDE, vec![]), &rules).is_ok());
    assert!(why(of_server(any(SESSION, vec![]))).ends_with("is not supported on this side"));
    for url in [SESSION, SESSION_OVERRIDE] {
        rules.http_filters.remove(url);
    }
    assert!(why(of_client(any(SESSION, vec![]), &rules)).ends_with("is not known"));
    assert!(why(of_route("f", any(SESSION_OVERRIDE, vec![]), &rules)).ends_with("is not known"));
}

#[test]
fn undecodable_filter_config_is_rejected() {
    let rules = Rules::default();
    let garbage = vec![0xff];
    let value = format!("{PLACE}[0].typed_config.value: ");
    for url in [FAULT, SESSION] {
        assert!(why(of_client(any(url, garbage.clone()), &rules)).starts_with(&value), "{url}");
    }
    let mut last = manager(rds("r"));
    last.http_filters = vec![filter_of(any(ROUTER, garbage.clone()))];
    let text = why(listener(&api_listener("l", &last)));
    assert!(text.starts_with(&value) && !text.contains(';'), "{text}");
    assert!(why(of_server(any(RBAC, garbage.clone()))).contains("typed_config.value: "));
    for url in [FAULT, RBAC_OVERRIDE, SESSION_OVERRIDE] {
        let text = why(of_route("f", any(url, garbage.clone()), &rules));
        assert!(text.contains("typed_per_filter_config[f].value: "), "{text}");
    }
    // Their configurations are messages. Only filters of the data plane may use a `TypedStruct`.
    let text = why(of_client(object(FAULT), &rules));
    assert!(text.ends_with("must not be an object"), "{text}");
    let own = "type.googleapis.com/a.Own";
    let mut rules = rules;
    let kind = xds_routing::rules::HttpFilterKind::new(
        xds_routing::rules::FilterPlace::Before,
        xds_routing::rules::FilterSides::Client,
    );
    rules.http_filters.insert(own.into(), kind);
    let config = of_client(object(own), &rules).unwrap();
    assert!(matches!(config, FilterConfig::Other(config) if config.type_url == own));
}

/// The cookie of a stateful session needs a name (gRFC A55).
#[test]
fn stateful_session_requires_a_named_cookie() {
    let rules = Rules::default();
    let with = |config: Option<Any>| {
        let state = TypedExtensionConfig { name: "s".into(), typed_config: config };
        of_client(packed(&StatefulSession { session_state: Some(state) }), &rules).map(|_| ())
    };
    let cookie = |name: &str, seconds| {
        let ttl = Some(DurationSchema { seconds, nanos: 0 });
        let cookie = Cookie { name: name.into(), ttl, path: String::new() };
        with(Some(packed(&CookieBasedSessionState { cookie: Some(cookie) })))
    };
    let place = format!("{PLACE}[0].typed_config.session_state.typed_config");
    assert_eq!(cookie("c", 0), Ok(()));
    assert_eq!(cookie("", 0), Err(format!("{place}.cookie.name: must not be empty")));
    assert!(why(cookie("c", -1)).starts_with(&format!("{place}.cookie.ttl: must be a duration")));
    assert_eq!(with(None), Err(format!("{place}: must be set")));
    let none = with(Some(packed(&CookieBasedSessionState { cookie: None })));
    assert_eq!(none, Err(format!("{place}.cookie: must be set")));
    let other = with(Some(any("type.googleapis.com/a.State", vec![])));
    assert!(why(other).starts_with(&format!("{place}.type_url: ")));
}

fn faults(schema: &HttpFault) -> Result<FaultInjection, String> {
    let config = any(FAULT, schema.encode_to_vec());
    match of_client(config, &Rules::default())? {
        FilterConfig::Faults(faults) => Ok(faults),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fault_filter_config_is_validated() {
    let delay = |delay| HttpFault {
        delay: Some(FaultDelay { fault_delay_secifier: Some(delay), percentage: None }),
        ..HttpFault::default()
    };
    let fixed = |seconds| FaultDelaySecifier::FixedDelay(DurationSchema { seconds, nanos: 0 });
    let read = faults(&delay(fixed(3))).unwrap().delay.unwrap();
    assert_eq!(read.length, DelayLength::Fixed(Duration::from_secs(3)));
    assert_eq!((read.share.numerator, read.share.denominator), (0, 100));
    let negative = why(faults(&delay(fixed(-1))));
    let place = format!("{PLACE}[0].typed_config");
    assert!(negative.starts_with(&format!("{place}.delay.fixed_delay: ")), "{negative}");

    let abort = |error, denominator| HttpFault {
        abort: Some(FaultAbort {
            error_type: Some(error),
            percentage: Some(FractionalPercent { numerator: 7, denominator }),
        }),
        ..HttpFault::default()
    };
    for (error, with) in [
        (ErrorType::GrpcStatus(16), AbortStatus::Status(16)),
        (ErrorType::GrpcStatus(0), AbortStatus::Status(0)),
        (ErrorType::HttpStatus(200), AbortStatus::Status(2)),
        (ErrorType::HttpStatus(400), AbortStatus::Status(13)),
        (ErrorType::HttpStatus(401), AbortStatus::Status(16)),
        (ErrorType::HttpStatus(403), AbortStatus::Status(7)),
        (ErrorType::HttpStatus(404), AbortStatus::Status(12)),
        (ErrorType::HttpStatus(503), AbortStatus::Status(14)),
        (ErrorType::HttpStatus(500), AbortStatus::Status(2)),
        (ErrorType::HeaderAbort(Default::default()), AbortStatus::Headers),
    ] {
        assert_eq!(faults(&abort(error, 0)).unwrap().abort.unwrap().with, with, "{error:?}");
    }
    // An unknown denominator counts as 100.
    for (denominator, whole) in [(0, 100), (1, 10_000), (2, 1_000_000), (9, 100)] {
        let read = faults(&abort(ErrorType::GrpcStatus(1), denominator)).unwrap().abort.unwrap();
        assert_eq!((read.share.numerator, read.share.denominator), (7, whole));
    }
    assert_eq!(
        why(faults(&abort(ErrorType::GrpcStatus(99), 0))),
        format!("{place}.abort.grpc_status: 99 is not a gRPC status code")
    );
    let limited = HttpFault { max_active_faults: number(3), ..HttpFault::default() };
    assert_eq!(faults(&limited).unwrap().max_active_faults, Some(3));
    assert_eq!(faults(&HttpFault::default()).unwrap(), FaultInjection::default());
}
