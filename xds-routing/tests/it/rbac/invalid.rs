//! Invalid configurations, with the paths of their errors.

use xds_core::proto::{StringMatcher, envoy::r#type::matcher::v3::string_matcher::MatchPattern};
use xds_routing::{
    Rules,
    proto::envoy::{
        config::{
            core::v3::TypedExtensionConfig,
            rbac::v3::{
                SourcedMetadata, permission, principal,
                rbac::{AuditLoggingOptions, audit_logging_options::AuditLoggerConfig},
            },
            route::v3::header_matcher::HeaderMatchSpecifier,
        },
        extensions::filters::http::rbac::v3::RbacPerRoute,
        r#type::{
            matcher::v3::{FilterStateMatcher, PathMatcher, path_matcher},
            v3::Int32Range,
        },
    },
    route::RouteConfiguration,
};

use super::*;
use crate::validation::why;

const ANYTHING: Rule = Rule::Any(true);
const ANYONE: Identifier = Identifier::Any(true);
const FILTER: &str = "filter_chains[0].filters[0].typed_config.http_filters[0].typed_config";

fn assert_invalid(config: &Config, path: &str, problem: &str) {
    assert_eq!(why(in_listener(config)), format!("{FILTER}.{path}: {problem}"));
}

fn assert_invalid_policy(policy: Policy, path: &str, problem: &str) {
    let config = rules(Action::Allow, [("p", policy)]);
    assert_invalid(&config, &format!("rules.policies[p].{path}"), problem);
}

const UNSUPPORTED: &str = "not supported by gRPC";

fn present(name: &str) -> xds_routing::proto::envoy::config::route::v3::HeaderMatcher {
    header(name, Some(HeaderMatchSpecifier::PresentMatch(true)))
}

fn pattern(pattern: MatchPattern) -> StringMatcher {
    StringMatcher { match_pattern: Some(pattern), ignore_case: false }
}

#[test]
fn invalid_permission_is_rejected_with_its_path() {
    let ports = |start, end| Rule::DestinationPortRange(Int32Range { start, end });
    let path = |rule| Rule::UrlPath(PathMatcher { rule });
    let set = |rules| permission::Set { rules };
    let wrong_ports = "must be a non-empty range of ports";
    let extension = TypedExtensionConfig::default;
    for (rule, path, problem) in [
        (Rule::Any(false), "any", "must be true"),
        (Rule::AndRules(set(vec![])), "and_rules.rules", "must not be empty"),
        (Rule::OrRules(set(vec![])), "or_rules.rules", "must not be empty"),
        (
            Rule::OrRules(set(vec![permission(ANYTHING), permission(Rule::Any(false))])),
            "or_rules.rules[1].any",
            "must be true",
        ),
        (Rule::NotRule(Box::default()), "not_rule.rule", "must be one that gRPC supports"),
        (
            Rule::Header(present("grpc-timeout")),
            "header.name",
            "`grpc-timeout` must not be matched",
        ),
        (Rule::Header(present("GRPC-x")), "header.name", "`grpc-x` must not be matched"),
        (Rule::Header(present(":scheme")), "header.name", "`:scheme` must not be matched"),
        (
            Rule::Header(header("a", None)),
            "header.header_match_specifier",
            "must be one that gRPC supports",
        ),
        (path(None), "url_path.path", "must be set"),
        (
            path(Some(path_matcher::Rule::Path(StringMatcher::default()))),
            "url_path.path.match_pattern",
            "must be set",
        ),
        (
            Rule::DestinationIp(range("10.0", 8)),
            "destination_ip.address_prefix",
            "`10.0` is not an IP address",
        ),
        (Rule::DestinationPort(65_536), "destination_port", "must be a number up to 65535"),
        (ports(5, 5), "destination_port_range", wrong_ports),
        (ports(-1, 5), "destination_port_range", wrong_ports),
        (ports(1, 65_537), "destination_port_range", wrong_ports),
        (
            Rule::RequestedServerName(pattern(MatchPattern::Custom(Default::default()))),
            "requested_server_name.custom",
            UNSUPPORTED,
        ),
        (Rule::Matcher(extension()), "matcher", UNSUPPORTED),
        (Rule::UriTemplate(extension()), "uri_template", UNSUPPORTED),
        (Rule::SourcedMetadata(SourcedMetadata::default()), "sourced_metadata", UNSUPPORTED),
    ] {
        let policy = policy(rule, ANYONE);
        assert_invalid_policy(policy, &format!("permissions[0].{path}"), problem);
    }
}

#[test]
#[allow(deprecated, reason = "servers still send the field")]
fn invalid_principal_is_rejected_with_its_path() {
    let set = |ids| principal::Set { ids };
    let named =
        |name| Identifier::Authenticated(principal::Authenticated { principal_name: Some(name) });
    let wrong = || range("::g", 8);
    let no_address = "`::g` is not an IP address";
    for (identifier, path, problem) in [
        (Identifier::Any(false), "any", "must be true"),
        (Identifier::AndIds(set(vec![])), "and_ids.ids", "must not be empty"),
        (
            Identifier::OrIds(set(vec![principal(ANYONE), Principal::default()])),
            "or_ids.ids[1].identifier",
            "must be one that gRPC supports",
        ),
        (
            Identifier::NotId(Box::new(principal(Identifier::Header(present(":scheme"))))),
            "not_id.header.name",
            "`:scheme` must not be matched",
        ),
        (
            named(StringMatcher::default()),
            "authenticated.principal_name.match_pattern",
            "must be set",
        ),
        (Identifier::SourceIp(wrong()), "source_ip.address_prefix", no_address),
        (Identifier::DirectRemoteIp(wrong()), "direct_remote_ip.address_prefix", no_address),
        (Identifier::RemoteIp(wrong()), "remote_ip.address_prefix", no_address),
        (Identifier::UrlPath(PathMatcher::default()), "url_path.path", "must be set"),
        (Identifier::FilterState(FilterStateMatcher::default()), "filter_state", UNSUPPORTED),
        (Identifier::SourcedMetadata(SourcedMetadata::default()), "sourced_metadata", UNSUPPORTED),
        (Identifier::Custom(TypedExtensionConfig::default()), "custom", UNSUPPORTED),
    ] {
        let policy = policy(ANYTHING, identifier);
        assert_invalid_policy(policy, &format!("principals[0].{path}"), problem);
    }
}

#[test]
fn invalid_policy_is_rejected_with_its_path() {
    let policy = || policy(ANYTHING, ANYONE);
    let empty = "must not be empty";
    assert_invalid_policy(Policy { permissions: vec![], ..policy() }, "permissions", empty);
    assert_invalid_policy(Policy { principals: vec![], ..policy() }, "principals", empty);
    let conditional = Policy { condition: Some(()), ..policy() };
    assert_invalid_policy(conditional, "condition", UNSUPPORTED);
    let conditional = Policy { checked_condition: Some(()), ..policy() };
    assert_invalid_policy(conditional, "checked_condition", UNSUPPORTED);
}

#[test]
fn invalid_rules_are_rejected_with_their_path() {
    let mut config = rules(Action::Allow, []);
    config.rules.as_mut().expect("set").action = 3;
    assert_invalid(&config, "rules.action", "unknown value");
    // Without the tree, the filter would allow all requests.
    let tree = Config { rules: None, matcher: Some(()) };
    assert_invalid(&tree, "matcher", UNSUPPORTED);
    let logged = |is_optional| {
        let logger = AuditLoggerConfig { audit_logger: None, is_optional };
        let options = AuditLoggingOptions { audit_condition: 1, logger_configs: vec![logger] };
        let mut config = rules(Action::Allow, []);
        config.rules.as_mut().expect("set").audit_logging_options = Some(options);
        config
    };
    assert!(in_listener(&logged(true)).is_ok());
    assert_invalid(
        &logged(false),
        "rules.audit_logging_options.logger_configs[0].audit_logger",
        "not supported and not optional",
    );
}

#[test]
fn invalid_override_is_rejected_with_its_path() {
    let rbac = Some(rules(Action::Deny, [("p", policy(Rule::Any(false), ANYONE))]));
    let mut table = table(vec![route(prefix(""), cluster("c"))]);
    let config = packed(&RbacPerRoute { rbac });
    table.virtual_hosts[0].typed_per_filter_config.insert("f".into(), config);
    let error = RouteConfiguration::from_schema(&table, &Rules::default()).expect_err("invalid");
    assert_eq!(
        error.to_string(),
        "virtual_hosts[0].typed_per_filter_config[f].rbac.rules.policies[p].permissions[0].any: \
         must be true"
    );
}

/// Deeper messages than the decoder accepts are rejected as well.
#[test]
fn nesting_is_limited() {
    let nested = |levels: usize| {
        let innermost = (permission(ANYTHING), principal(ANYONE));
        let (rule, id) = (0..levels).fold(innermost, |(rule, id), level| match level % 2 {
            0 => (
                permission(Rule::NotRule(Box::new(rule))),
                principal(Identifier::AndIds(principal::Set { ids: vec![id] })),
            ),
            _ => (
                permission(Rule::OrRules(permission::Set { rules: vec![rule] })),
                principal(Identifier::NotId(Box::new(id))),
            ),
        });
        let policy = Policy { permissions: vec![rule], principals: vec![id], ..Policy::default() };
        in_listener(&rules(Action::Deny, [("p", policy)]))
    };
    assert!(nested(16).is_ok());
    let error = why(nested(17));
    assert_eq!(error.matches(": nested more than 16 levels deep").count(), 2, "{error}");
    assert!(why(nested(1_000)).contains("recursion limit"));
}
