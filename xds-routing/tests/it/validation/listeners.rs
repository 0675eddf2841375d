//! Validation of API listeners.

use xds_routing::{
    Rules,
    listener::{Listener, Routes},
    proto::envoy::config::listener::v3 as listeners,
};

use crate::{support::*, validation::why};

pub(crate) fn listener(schema: &listeners::Listener) -> Result<Listener, String> {
    Listener::from_schema(schema, &Rules::default()).map_err(|it| it.to_string())
}

#[test]
fn api_listener_has_named_or_inline_routes() {
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
    // A management server may set both for one listener. The API listener takes precedence.
    let mut both = api_listener("l", &manager(rds("r")));
    both.address = Some(address("127.0.0.1", 1));
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
