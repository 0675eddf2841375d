//! Permissions and principals.

use xds_core::proto::{StringMatcher, envoy::r#type::matcher::v3::string_matcher::MatchPattern};
use xds_routing::proto::envoy::{
    config::{
        rbac::v3::{permission, principal},
        route::v3::{HeaderMatcher, header_matcher::HeaderMatchSpecifier},
    },
    r#type::{
        matcher::v3::{MetadataMatcher, PathMatcher, path_matcher},
        v3::{Int32Range, Int64Range},
    },
};

use super::*;

const ANYTHING: Rule = Rule::Any(true);
const ANYONE: Identifier = Identifier::Any(true);

fn permits(rule: Rule, request: &Request) -> bool {
    request.is_allowed(&rules(Action::Allow, [("p", policy(rule, ANYONE))]))
}

fn admits(identifier: Identifier, request: &Request) -> bool {
    request.is_allowed(&rules(Action::Allow, [("p", policy(ANYTHING, identifier))]))
}

fn not(rule: Rule) -> Rule {
    Rule::NotRule(Box::new(permission(rule)))
}

fn not_id(identifier: Identifier) -> Identifier {
    Identifier::NotId(Box::new(principal(identifier)))
}

fn exact(text: &str) -> StringMatcher {
    text_matcher(MatchPattern::Exact(text.into()))
}

fn text_matcher(pattern: MatchPattern) -> StringMatcher {
    StringMatcher { match_pattern: Some(pattern), ignore_case: false }
}

fn path_is(text: &str) -> PathMatcher {
    PathMatcher { rule: Some(path_matcher::Rule::Path(exact(text))) }
}

fn header_is(name: &str, text: &str) -> HeaderMatcher {
    header(name, Some(HeaderMatchSpecifier::StringMatch(exact(text))))
}

/// Asserts the result of a permission for a request, and the opposite result of its inversion.
fn assert_permission(rule: Rule, request: &Request, expected: bool) {
    assert_eq!(permits(rule.clone(), request), expected, "{rule:?}");
    assert_eq!(permits(not(rule.clone()), request), !expected, "not {rule:?}");
}

fn assert_principal(identifier: Identifier, request: &Request, expected: bool) {
    assert_eq!(admits(identifier.clone(), request), expected, "{identifier:?}");
    assert_eq!(admits(not_id(identifier.clone()), request), !expected, "not {identifier:?}");
}

#[test]
fn permission_matches_the_server_and_the_method() {
    let ports = |start, end| Rule::DestinationPortRange(Int32Range { start, end });
    let name = Rule::RequestedServerName;
    let metadata = |invert| Rule::Metadata(MetadataMatcher { filter: "f".into(), invert });
    for (rule, expected) in [
        (ANYTHING, true),
        (Rule::UrlPath(path_is("/shop.Cart/Add")), true),
        (Rule::UrlPath(path_is("/shop.Cart/Remove")), false),
        (Rule::DestinationIp(range("10.0.0.0", 24)), true),
        (Rule::DestinationIp(range("10.1.2.3", 24)), false),
        (Rule::DestinationPort(443), true),
        (Rule::DestinationPort(5000), false),
        (ports(443, 444), true),
        (ports(0, 65_536), true),
        (ports(400, 443), false),
        // The server name is always empty, and metadata are always absent.
        (name(exact("")), true),
        (name(text_matcher(MatchPattern::SafeRegex(regex(".*")))), true),
        (name(exact("shop")), false),
        (metadata(false), false),
        (metadata(true), true),
    ] {
        assert_permission(rule, &request(), expected);
    }
}

#[test]
fn sets_of_permissions_and_principals_combine_them() {
    let set = |ports: &[u32]| permission::Set {
        rules: ports.iter().map(|port| permission(Rule::DestinationPort(*port))).collect(),
    };
    assert_permission(Rule::AndRules(set(&[443, 443])), &request(), true);
    assert_permission(Rule::AndRules(set(&[443, 1])), &request(), false);
    assert_permission(Rule::OrRules(set(&[1, 443])), &request(), true);
    assert_permission(Rule::OrRules(set(&[1, 2])), &request(), false);
    let set = |addresses: &[&str]| principal::Set {
        ids: addresses.iter().map(|it| principal(Identifier::RemoteIp(range(it, 32)))).collect(),
    };
    assert_principal(Identifier::AndIds(set(&["10.1.2.3", "10.1.2.3"])), &request(), true);
    assert_principal(Identifier::AndIds(set(&["10.1.2.3", "1.1.1.1"])), &request(), false);
    assert_principal(Identifier::OrIds(set(&["1.1.1.1", "10.1.2.3"])), &request(), true);
    assert_principal(Identifier::OrIds(set(&["1.1.1.1", "2.2.2.2"])), &request(), false);
}

#[test]
#[allow(deprecated, reason = "servers still send the field")]
fn principal_matches_the_client_and_the_request() {
    let metadata = |invert| Identifier::Metadata(MetadataMatcher { filter: "f".into(), invert });
    for address in [Identifier::SourceIp, Identifier::DirectRemoteIp, Identifier::RemoteIp] {
        assert_principal(address(range("10.1.0.0", 16)), &request(), true);
        assert_principal(address(range("10.0.0.1", 32)), &request(), false);
    }
    for (identifier, expected) in [
        (ANYONE, true),
        (Identifier::UrlPath(path_is("/shop.Cart/Add")), true),
        (Identifier::UrlPath(path_is("/shop.Cart")), false),
        (Identifier::Header(header_is("user", "1")), true),
        (Identifier::Header(header_is("user", "2")), false),
        (metadata(false), false),
        (metadata(true), true),
    ] {
        assert_principal(identifier, &Request::with(&[("user", "1")]), expected);
    }
}

/// A client that connects by an IPv4 address mapped to IPv6 has the IPv4 address.
#[test]
fn mapped_addresses_match_ranges_of_ipv4_addresses() {
    let mapped = Request {
        connection: connection("[::ffff:10.0.0.1]:443", "[::ffff:10.1.2.3]:5000"),
        ..request()
    };
    let other = Request { connection: connection("[2001:db8::1]:443", "[::1]:1"), ..request() };
    for (prefix, bits) in [("10.0.0.0", 8), ("::ffff:10.0.0.0", 104)] {
        assert_permission(Rule::DestinationIp(range(prefix, bits)), &mapped, true);
        assert_principal(Identifier::RemoteIp(range(prefix, bits)), &mapped, true);
        assert_principal(Identifier::RemoteIp(range(prefix, bits)), &other, false);
    }
    assert_permission(Rule::DestinationIp(range("2001:db8::", 32)), &other, true);
    assert_permission(Rule::DestinationIp(range("::", 0)), &mapped, false);
}

#[test]
fn header_matchers_see_the_request_as_it_was_received() {
    let received =
        [("a", "1"), ("a", "2"), ("te", "trailers"), ("x-bin", "AAE"), ("upgrade", "h2c")];
    let request = Request::with(&received);
    for (name, text, expected) in [
        (":path", "/shop.Cart/Add", true),
        (":method", "POST", true),
        (":authority", "shop", true),
        ("Host", "shop", true),
        ("host", "other", false),
        ("a", "1,2", true),
        ("A", "1", false),
        ("x-bin", "AAE", true),
        // Hop-by-hop headers and unsent content types are absent.
        ("te", "trailers", false),
        ("upgrade", "h2c", false),
        ("content-type", "application/grpc", false),
        (":status", "200", false),
    ] {
        assert_permission(Rule::Header(header_is(name, text)), &request, expected);
    }
    let sent = Request::with(&[("content-type", "application/grpc+proto")]);
    let sent_type = Rule::Header(header_is("content-type", "application/grpc+proto"));
    assert_permission(sent_type, &sent, true);
    let get = Request { method: Some("GET"), ..request };
    assert_permission(Rule::Header(header_is(":method", "POST")), &get, false);
}

#[test]
fn host_replaces_an_absent_authority_and_is_ignored_otherwise() {
    let both = Request::with(&[("host", "other")]);
    let host = Request { authority: None, ..both.clone() };
    let neither = Request { authority: None, ..request() };
    for name in [":authority", "host"] {
        let is = |text| Rule::Header(header_is(name, text));
        assert_permission(is("shop"), &both, true);
        assert_permission(is("other"), &both, false);
        assert_permission(is("other"), &host, true);
        assert_permission(is(""), &neither, false);
    }
}

#[test]
fn absent_header_matches_only_by_presence() {
    let request = Request::with(&[("n", "5"), ("te", "trailers")]);
    let is = |name: &str, how: HeaderMatchSpecifier, invert_match| {
        Rule::Header(HeaderMatcher { invert_match, ..header(name, Some(how)) })
    };
    let present = HeaderMatchSpecifier::PresentMatch;
    let range = || HeaderMatchSpecifier::RangeMatch(Int64Range { start: 5, end: 6 });
    for (rule, expected) in [
        (is("n", range(), false), true),
        (is("n", range(), true), false),
        (is("m", range(), false), false),
        (is("m", range(), true), false),
        (is("n", present(true), false), true),
        (is("m", present(false), false), true),
        (is("m", present(true), true), true),
        (is("te", present(true), false), false),
    ] {
        assert_permission(rule, &request, expected);
    }
}

/// A server dispatches by the path alone, so a query string must not evade a policy.
#[test]
fn query_string_is_not_part_of_the_path() {
    for path in ["/shop.Cart/Add?a=/b", "/shop.Cart/Add#a?b", "/shop.Cart/Add?"] {
        let request = Request { path, ..request() };
        assert_permission(Rule::UrlPath(path_is("/shop.Cart/Add")), &request, true);
        assert_permission(Rule::Header(header_is(":path", "/shop.Cart/Add")), &request, true);
    }
}

#[test]
fn authenticated_matches_the_first_kind_of_name_in_the_certificate() {
    let identity = |uris: &[&str], dns: &[&str]| ClientIdentity {
        uris: uris.iter().map(|&it| it.into()).collect(),
        dns_names: dns.iter().map(|&it| it.into()).collect(),
        subject: "CN=client".into(),
    };
    let of = |text: Option<&str>| {
        Identifier::Authenticated(principal::Authenticated { principal_name: text.map(exact) })
    };
    let plaintext = request();
    let tls = secured(ConnectionSecurity::Tls);
    let uris = from(identity(&["spiffe://a", "spiffe://b"], &["c.test"]));
    let dns = from(identity(&[], &["c.test", "d.test"]));
    let subject = from(identity(&[], &[]));
    for (request, name, expected) in [
        (&plaintext, None, false),
        (&plaintext, Some(""), false),
        (&tls, None, true),
        (&tls, Some(""), true),
        (&tls, Some("CN=client"), false),
        (&uris, None, true),
        (&uris, Some("spiffe://a"), true),
        (&uris, Some("spiffe://b"), true),
        (&uris, Some("c.test"), false),
        (&uris, Some("CN=client"), false),
        (&uris, Some(""), false),
        (&dns, Some("d.test"), true),
        (&dns, Some("CN=client"), false),
        (&subject, None, true),
        (&subject, Some("CN=client"), true),
        (&subject, Some(""), false),
    ] {
        assert_principal(of(name), request, expected);
    }
}
