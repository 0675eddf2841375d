//! Decisions compared with a naive evaluation of the schema.

use proptest::{collection::vec, prelude::*};
use xds_routing::proto::envoy::{
    config::rbac::v3::permission::Set, r#type::matcher::v3::MetadataMatcher,
};

use super::*;

/// Permissions that depend only on the port of the server.
fn permissions() -> impl Strategy<Value = Permission> {
    let leaf = prop_oneof![
        Just(Rule::Any(true)),
        (0..3u32).prop_map(Rule::DestinationPort),
        any::<bool>().prop_map(|invert| {
            Rule::Metadata(MetadataMatcher { filter: String::new(), invert })
        }),
    ];
    leaf.prop_map(permission).prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 1..4).prop_map(|rules| Rule::AndRules(Set { rules })),
            vec(inner.clone(), 1..4).prop_map(|rules| Rule::OrRules(Set { rules })),
            inner.prop_map(|rule| Rule::NotRule(Box::new(rule))),
        ]
        .prop_map(permission)
    })
}

fn matches(permission: &Permission, port: u32) -> bool {
    match permission.rule.as_ref().expect("set") {
        Rule::AndRules(set) => set.rules.iter().filter(|it| !matches(it, port)).count() == 0,
        Rule::OrRules(set) => set.rules.iter().filter(|it| matches(it, port)).count() > 0,
        Rule::NotRule(inverted) => !matches(inverted, port),
        Rule::DestinationPort(expected) => *expected == port,
        Rule::Metadata(metadata) => metadata.invert,
        Rule::Any(_) => true,
        other => panic!("{other:?} is not generated"),
    }
}

proptest! {
    #[test]
    fn decision_is_that_of_a_naive_evaluation(
        policies in vec(vec(permissions(), 1..3), 0..3),
        port in 0..3u32,
        denies in any::<bool>(),
    ) {
        let is_matched = policies.iter().flatten().any(|it| matches(it, port));
        let policy = |permissions| {
            Policy { permissions, principals: vec![principal(Identifier::Any(true))], ..Policy::default() }
        };
        let mut config = rules(if denies { Action::Deny } else { Action::Allow }, []);
        let named = policies.into_iter().enumerate();
        config.rules.as_mut().expect("set").policies =
            named.map(|(index, it)| (index.to_string(), policy(it))).collect();
        let server = format!("10.0.0.1:{port}");
        let request = Request { connection: connection(&server, "10.1.2.3:5000"), ..request() };
        prop_assert_eq!(request.is_allowed(&config), is_matched != denies);
    }
}
