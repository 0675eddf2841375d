//! Findings: missing resources, and resources that nothing refers to.

use xds_core::{
    references::{
        ConfigSource, Consistency, Finding, Reference, ReferenceExtractor, ReferenceTarget,
        Severity,
    },
    types,
};

use super::resources;

fn check_with(consistency: &Consistency<'_>, yaml: &str) -> Vec<String> {
    let resources = resources(yaml);
    let set = resources.iter().map(|it| (it.type_url.as_str(), it.name.as_str(), &it.bytes));
    let findings = consistency.check(set.clone());
    // The order of the resources does not matter.
    assert_eq!(findings, consistency.check(set.rev()));
    findings
        .iter()
        .map(|finding| match finding.severity() {
            Severity::Error => format!("error: {finding}"),
            Severity::Warning => format!("warning: {finding}"),
            other => panic!("{other:?}: {finding}"),
        })
        .collect()
}

#[track_caller]
fn expect(cases: &[(&str, &[&str])]) {
    for (yaml, expected) in cases {
        assert_eq!(check_with(&Consistency::default(), yaml), *expected, "{yaml}");
    }
}

const CLUSTER: &str = "- { $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $ADS, service_name: s } }\n";
const ENDPOINTS: &str = "- { $ENDPOINTS, cluster_name: s }\n";
const ROUTES: &str = "- { $ROUTES, name: r, virtual_hosts: [{ name: v, domains: ['*'], routes: [{ match: { prefix: / }, route: { cluster: c } }] }] }\n";
const LISTENER: &str = "- { $LISTENER, name: l, api_listener: { api_listener: { $HCM, rds: { route_config_name: r, config_source: $ADS } } } }\n";
const SECOND: &str = "- { $LISTENER, name: m, api_listener: { api_listener: { $HCM, rds: { route_config_name: r, config_source: $ADS } } } }\n";
const SCOPED: &str = "- { $LISTENER, name: l, api_listener: { api_listener: { $HCM, scoped_routes: { name: any, rds_config_source: $ADS, scoped_rds: { scoped_rds_config_source: $ADS } } } } }\n";
const SCOPE: &str = "- { $SCOPE, name: scope, route_configuration_name: r }\n";
const INLINE: &str = "- { $LISTENER, name: l, api_listener: { api_listener: { $HCM, scoped_routes: { name: any, rds_config_source: $ADS, scoped_route_configurations_list: { scoped_route_configurations: [{ name: scope, route_configuration_name: r }] } } } } }\n";

#[test]
fn resolved_references_have_no_findings() {
    for set in [
        vec![],
        vec![CLUSTER, ENDPOINTS],
        vec![CLUSTER, ENDPOINTS, ROUTES, LISTENER],
        vec![CLUSTER, ENDPOINTS, ROUTES, LISTENER, SECOND],
        vec![CLUSTER, ENDPOINTS, ROUTES, SCOPED, SCOPE],
        vec![CLUSTER, ENDPOINTS, ROUTES, INLINE],
        vec![CLUSTER, ENDPOINTS, ROUTES, INLINE, SECOND],
        // A cluster without a reference is not reported, because a filter or a header
        // may select it.
        vec!["- { $CLUSTER, name: free }\n"],
    ] {
        let yaml = if set.is_empty() { "[]".to_owned() } else { set.concat() };
        assert_eq!(check_with(&Consistency::default(), &yaml), [""; 0], "{yaml}");
    }
    println!("covers: M205 B56");
}

#[test]
fn cluster_without_its_endpoints_is_an_error() {
    expect(&[
        (CLUSTER, &["error: cds `c` refers to eds `s`, which is missing"]),
        (
            &[CLUSTER, "- { $ENDPOINTS, cluster_name: c }\n"].concat(),
            &[
                "error: cds `c` refers to eds `s`, which is missing",
                "warning: nothing refers to eds `c`",
            ],
        ),
        // Names are compared in their canonical form.
        (
            "- { $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $ADS, service_name: 'xdstp://a/t/x?q=1&p=2' } }\n- { $ENDPOINTS, cluster_name: 'xdstp://a/t/x?p=2&q=1' }\n",
            &[],
        ),
    ]);
    println!("covers: M206");
}

#[test]
fn unreferenced_resource_is_a_warning() {
    expect(&[
        (ENDPOINTS, &["warning: nothing refers to eds `s`"]),
        (
            "- { $ROUTES, name: r }\n- { $HOST, name: r/host, domains: [a] }\n- { $SCOPE, name: s, route_configuration: { name: i } }\n",
            &[
                "warning: nothing refers to rds `r`",
                "warning: nothing refers to srds `s`",
                "warning: nothing refers to vhds `r/host`",
            ],
        ),
        // Virtual hosts are found by the name of their route configuration.
        (
            "- { $ROUTES, name: r, vhds: { config_source: $ADS } }\n- { $HOST, name: r/a/b, domains: [a] }\n- { $HOST, name: r2/a, domains: [a] }\n- { $SCOPE, name: s, route_configuration_name: r }\n",
            &["warning: nothing refers to srds `s`", "warning: nothing refers to vhds `r2/a`"],
        ),
    ]);
    println!("covers: M207");
}

#[test]
fn listener_without_its_routes_is_an_error() {
    expect(&[
        (LISTENER, &["error: lds `l` refers to rds `r`, which is missing"]),
        (
            &[LISTENER, SECOND, "- { $ROUTES, name: other }\n"].concat(),
            &[
                "error: lds `l` refers to rds `r`, which is missing",
                "error: lds `m` refers to rds `r`, which is missing",
                "warning: nothing refers to rds `other`",
            ],
        ),
        // A route without its cluster.
        (&[LISTENER, ROUTES].concat(), &["error: rds `r` refers to cds `c`, which is missing"]),
    ]);
    println!("covers: M208");
}

#[test]
fn scoped_routes_are_followed() {
    expect(&[
        (SCOPED, &["error: lds `l` refers to srds, but there are none"]),
        (&[SCOPED, SCOPE].concat(), &["error: srds `scope` refers to rds `r`, which is missing"]),
        (INLINE, &["error: lds `l` refers to rds `r`, which is missing"]),
    ]);
    println!("covers: M209");
}

#[test]
fn missing_resource_that_another_server_may_have_is_a_warning() {
    expect(&[
        (
            "- { $CLUSTER, name: c, type: EDS, eds_cluster_config: { eds_config: $API } }\n",
            &[
                "warning: cds `c` refers to eds `c`, which is missing, unless another server provides it",
            ],
        ),
        (
            "- { $LISTENER, name: l, default_filter_chain: { transport_socket: { name: t, typed_config: { '@type': $SOCKET/tls.v3.DownstreamTlsContext, common_tls_context: { tls_certificate_sds_secret_configs: [{ name: k, sds_config: $ADS }] } } } } }\n",
            &["error: lds `l` refers to sds `k`, which is missing"],
        ),
    ]);
}

#[test]
fn external_resources_are_not_missing() {
    let yaml = [ROUTES, "- { $SCOPE, name: s, route_configuration_name: r }\n", SCOPED].concat();
    let missing = ["error: rds `r` refers to cds `c`, which is missing"];
    assert_eq!(check_with(&Consistency::default(), &yaml), missing);
    let of_bootstrap = Consistency::default().with_external(types::CLUSTER, "c");
    assert_eq!(check_with(&of_bootstrap, &yaml), [""; 0]);
    let all = Consistency::default().with_all_external(types::CLUSTER);
    assert_eq!(check_with(&all, &yaml), [""; 0]);
    let other = Consistency::default().with_external(types::CLUSTER, "d");
    assert_eq!(check_with(&other, &yaml), missing);
    let scopes = Consistency::default().with_all_external(types::SCOPED_ROUTE_CONFIGURATION);
    assert_eq!(check_with(&scopes, SCOPED), [""; 0]);
}

#[test]
fn resource_that_does_not_decode_is_an_error() {
    let findings = Consistency::default().check([(types::CLUSTER, "c", b"\x0a\x7f")]);
    let [finding @ Finding::Malformed { .. }] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(finding.severity(), Severity::Error);
    assert_eq!(
        finding.to_string(),
        "cds `c` is not a message of its type: truncated in the field that starts at byte 0"
    );
}

/// Resources that contain the names of others.
#[derive(Debug)]
struct Lists;

const LIST: &str = "t/example.List";

impl ReferenceExtractor for Lists {
    fn references(
        &self,
        _: &str,
        resource: &[u8],
        found: &mut dyn FnMut(Reference<'_>),
    ) -> Result<(), xds_core::Malformed> {
        for name in resource.split(|&byte| byte == b' ').filter_map(|it| str::from_utf8(it).ok()) {
            found(
                Reference::new(LIST, ReferenceTarget::Name(name))
                    .with_source(ConfigSource::Aggregated),
            );
        }
        Ok(())
    }
}

#[test]
fn custom_types_use_a_custom_extractor() {
    let set = [(LIST, "a", "b b c"), (LIST, "b", "a"), (LIST, "d", "d b")];
    let shown = |consistency: Consistency<'_>| -> Vec<_> {
        consistency.check(set).iter().map(ToString::to_string).collect()
    };
    let missing = "t/example.List `a` refers to t/example.List `c`, which is missing";
    assert_eq!(shown(Consistency::new(&Lists)), [missing]);
    assert_eq!(shown(Consistency::new(&Lists).with_type_reached_by_reference(LIST)), [missing]);
    assert_eq!(shown(Consistency::default()), [""; 0]);
    let set = [(LIST, "a", "b"), (LIST, "b", "")];
    let findings = Consistency::new(&Lists).with_type_reached_by_reference(LIST).check(set);
    assert_eq!(findings[1].to_string(), "nothing refers to t/example.List `a`");
}
