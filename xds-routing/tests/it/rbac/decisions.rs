//! Actions, policies and overrides.

use xds_core::{StatusCode, proto::Any};
use xds_routing::{
    filters::{FilterOverrides, HttpFilter},
    proto::envoy::extensions::filters::http::{fault::v3::HttpFault, rbac::v3::RbacPerRoute},
};

use super::*;

const ANYTHING: Rule = Rule::Any(true);
const ANYONE: Identifier = Identifier::Any(true);

#[test]
fn allow_admits_matching_requests_and_deny_rejects_them() {
    let of_port = |port| policy(Rule::DestinationPort(port), ANYONE);
    let denied = |action, policies: [(&str, Policy); 2]| {
        request().decide(&valid(&rules(action, policies))).map_err(|it| it.to_string())
    };
    let (allow, deny) = (Action::Allow, Action::Deny);
    assert_eq!(denied(allow, [("a", of_port(1)), ("b", of_port(443))]), Ok(()));
    assert_eq!(
        denied(allow, [("a", of_port(1)), ("b", of_port(2))]),
        Err("not allowed by any RBAC policy".into())
    );
    assert_eq!(denied(deny, [("a", of_port(1)), ("b", of_port(2))]), Ok(()));
    assert_eq!(
        denied(deny, [("a", of_port(1)), ("b", of_port(443))]),
        Err("denied by the RBAC policy `b`".into())
    );
    // The first one in the order of names.
    assert_eq!(
        denied(deny, [("z", of_port(443)), ("b", of_port(443))]),
        Err("denied by the RBAC policy `b`".into())
    );
    assert!(!request().is_allowed(&rules(allow, [])));
    assert!(request().is_allowed(&rules(deny, [])));
}

#[test]
fn client_learns_the_status_but_not_the_policy() {
    let denied = request().decide(&valid(&rules(Action::Deny, [("p", policy(ANYTHING, ANYONE))])));
    let denied = denied.expect_err("denied");
    assert_eq!(denied, AccessDenied::ByPolicy("p".into()));
    assert_eq!(denied.code(), StatusCode::PermissionDenied);
    assert_eq!(AccessDenied::MESSAGE, "unauthorized RPC rejected");
}

#[test]
fn policy_requires_one_permission_and_one_principal() {
    let (yes, no) = (Rule::DestinationPort(443), Rule::DestinationPort(1));
    let (me, you) =
        (Identifier::RemoteIp(range("10.0.0.0", 8)), Identifier::RemoteIp(range("11.0.0.0", 8)));
    for (permissions, principals, expected) in [
        (vec![&yes], vec![&me], true),
        (vec![&yes], vec![&you], false),
        (vec![&no], vec![&me], false),
        (vec![&no, &yes], vec![&you, &me], true),
        (vec![&no, &no], vec![&me, &me], false),
    ] {
        let policy = Policy {
            permissions: permissions.into_iter().cloned().map(permission).collect(),
            principals: principals.into_iter().cloned().map(principal).collect(),
            ..Policy::default()
        };
        let config = rules(Action::Allow, [("p", policy)]);
        assert_eq!(request().is_allowed(&config), expected, "{config:?}");
    }
}

/// The policies of the action LOG are ignored, valid or not, as if there were no rules.
#[test]
fn without_rules_and_with_the_action_log_all_requests_are_allowed() {
    assert_eq!(valid(&Config::default()), Rbac::Disabled);
    assert_eq!(
        valid(&rules(Action::Log, [("p", policy(ANYTHING, ANYONE)), ("q", Policy::default())])),
        Rbac::Disabled
    );
    assert_eq!(request().decide(&Rbac::default()), Ok(()));
}

fn overrides(config: Any) -> FilterOverrides {
    let mut table = table(vec![route(prefix(""), cluster("c"))]);
    table.typed_per_filter_config.insert("rbac".into(), config);
    validated(&table).expect("valid").overrides().clone()
}

#[test]
fn nearest_override_replaces_the_rules_of_the_listener() {
    let denying = rules(Action::Allow, []);
    let allowing = rules(Action::Deny, []);
    let of_route = |rbac: Option<&Config>| overrides(packed(&RbacPerRoute { rbac: rbac.cloned() }));
    let none = FilterOverrides::new();
    let listener: HttpFilter = in_listener(&denying).expect("valid");
    let is_allowed = |overrides: [&FilterOverrides; 2]| {
        let FilterConfig::Rbac(rbac) = listener.effective(overrides) else { panic!("RBAC") };
        request().decide(rbac).is_ok()
    };
    assert!(!is_allowed([&none, &none]));
    assert!(is_allowed([&of_route(Some(&allowing)), &none]));
    assert!(is_allowed([&none, &of_route(Some(&allowing))]));
    assert!(!is_allowed([&of_route(Some(&denying)), &of_route(Some(&allowing))]));
    // Without rules, the filter is disabled.
    assert!(is_allowed([&of_route(None), &of_route(Some(&denying))]));
    assert!(is_allowed([&of_route(Some(&Config::default())), &none]));
    // An override of another kind of filter does not disable the rules.
    assert!(!is_allowed([&overrides(packed(&HttpFault::default())), &none]));
    println!("covers: B28");
}
