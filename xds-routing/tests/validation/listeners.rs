//! The listeners of clients, and the HTTP filters of all.

use xds_core::proto::Any;
use xds_routing::{
    Rules,
    listener::{Listener, Routes},
    proto::envoy::config::listener::v3 as listeners,
    rules::ROUTER,
};

use crate::{support::*, why};

const FAULT: &str = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault";
const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";

pub(crate) fn listener(schema: &listeners::Listener) -> Result<Listener, String> {
    Listener::from_schema(schema, &Rules::default()).map_err(|it| it.to_string())
}

#[test]
fn a_client_listener_leads_to_routes() {
    let named = listener(&api_listener("l", &manager(rds("r")))).unwrap();
    assert_eq!(named.api().unwrap().routes, Routes::Named("r".into()));
    assert_eq!(named.api().unwrap().filters[0].name, "router");

    let inline = manager(
        xds_routing::proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier::RouteConfig(
            table(vec![route(prefix(""), cluster("c"))]),
        ),
    );
    let inline = listener(&api_listener("l", &inline)).unwrap();
    assert!(
        matches!(&inline.api().unwrap().routes, Routes::Inline(it) if it.virtual_hosts().len() == 1)
    );

    let place = "api_listener.api_listener.";
    let neither = listener(&listeners::Listener::default());
    assert!(why(neither).starts_with("api_listener: must be set"));
    let mut both = api_listener("l", &manager(rds("r")));
    both.address = Some(address("127.0.0.1", 1));
    // Servers that have one listener for clients and servers state both: it is for whom it has an API.
    assert_eq!(listener(&both), listener(&api_listener("l", &manager(rds("r")))));
    assert_eq!(
        why(listener(&api_listener("l", &manager(rds(""))))),
        format!("{place}rds.route_config_name: must not be empty")
    );
    let mut sourceless = manager(rds("r"));
    sourceless.route_specifier = None;
    assert_eq!(
        why(listener(&api_listener("l", &sourceless))),
        format!("{place}route_specifier: must be rds or route_config")
    );
    let mut trusting = manager(rds("r"));
    trusting.xff_num_trusted_hops = 1;
    assert_eq!(
        why(listener(&api_listener("l", &trusting))),
        format!("{place}xff_num_trusted_hops: must be zero")
    );
    println!("covers: S0.019 S0.020 B23");
}

#[test]
fn filters_have_names_are_known_and_end_with_one_that_sends_on() {
    let with = |filters: Vec<_>| {
        let mut manager = manager(rds("r"));
        manager.http_filters = filters;
        listener(&api_listener("l", &manager))
    };
    let router = || filter("router", ROUTER);
    assert!(with(vec![filter("fault", FAULT), router()]).is_ok());
    let object = Any {
        type_url: "type.googleapis.com/xds.type.v3.TypedStruct".into(),
        value: [&[0x0a, FAULT.len() as u8], FAULT.as_bytes()].concat().into(),
    };
    let mut wrapped = filter("fault", FAULT);
    wrapped.config_type = Some(xds_routing::proto::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType::TypedConfig(object));
    let listener = with(vec![wrapped, router()]).unwrap();
    assert_eq!(listener.api().unwrap().filters[0].config.type_url, FAULT);

    let place = "api_listener.api_listener.http_filters";
    assert_eq!(why(with(vec![])), format!("{place}: must have one that sends requests on"));
    assert_eq!(
        why(with(vec![filter("f", FAULT)])),
        format!("{place}: the last one must send requests on")
    );
    assert_eq!(
        why(with(vec![router(), filter("r", ROUTER)])),
        format!("{place}: only the last one may send requests on")
    );
    assert_eq!(
        why(with(vec![filter("f", FAULT), filter("f", FAULT), router()])),
        format!("{place}[1].name: `f` is there twice")
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
    assert!(why(with(vec![filter("r", RBAC), router()])).ends_with("is not for this side"));
    // One that is made of others is not known, so that none can be inside of one another (A103).
    let composite = "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher";
    assert!(why(with(vec![filter("c", composite), router()])).ends_with("is not known"));
    println!("covers: B28");
}
