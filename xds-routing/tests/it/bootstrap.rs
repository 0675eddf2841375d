//! Validation rules from a bootstrap.
#![cfg(feature = "bootstrap")]

use crate::support::*;
use xds_bootstrap::{Bootstrap, FeatureSwitches};
use xds_routing::{Rules, route::RouteConfiguration};

const BOOTSTRAP: &str = r#"{
    "xds_servers": [{ "server_uri": "xds.example:443", "channel_creds": [{ "type": "insecure" }] }],
    "certificate_providers": { "p": { "plugin_name": "file_watcher", "config": {} } }
}"#;

fn rules(routing: Option<&str>) -> Rules {
    let switches = FeatureSwitches::from_variables(|name| match name {
        FeatureSwitches::ROUTING => routing.map(Into::into),
        _ => None,
    });
    let bootstrap = Bootstrap::from_json_with(BOOTSTRAP, switches).expect("a bootstrap");
    Rules::from_bootstrap(&bootstrap)
}

/// With routing turned off, a split is invalid, and only the last route is used.
#[test]
fn disabled_routing_switch_uses_only_the_last_route() {
    let split = table(vec![route(prefix(""), weighted(&[("a", 1), ("b", 1)]))]);
    let earlier = table(vec![
        route(path("/s/m"), weighted(&[("a", 1), ("b", 1)])),
        route(prefix(""), cluster("last")),
    ]);
    let validator = |schema, rules: &Rules| {
        let validated = RouteConfiguration::from_schema(schema, rules);
        validated
            .map(|it| it.virtual_hosts()[0].routes().len())
            .map_err(|invalid| invalid.to_string())
    };
    for on in [None, Some("true"), Some("of no meaning")] {
        assert_eq!(validator(&split, &rules(on)), Ok(1), "{on:?}");
        assert_eq!(validator(&earlier, &rules(on)), Ok(2), "{on:?}");
    }
    let off = rules(Some("false"));
    let why = "virtual_hosts[0].routes[0].route.cluster: must be set, because calls are not split";
    assert_eq!(validator(&split, &off), Err(why.into()));
    assert_eq!(validator(&earlier, &off), Ok(1));
    println!("covers: S2.065 S2.066");
}

#[test]
fn certificate_providers_come_from_the_bootstrap() {
    assert_eq!(rules(None).certificate_providers, Some(vec!["p".into()]));
}
