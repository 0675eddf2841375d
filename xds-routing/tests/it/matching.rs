//! Route matching.
#![allow(deprecated, reason = "servers still send what is")]

use crate::{reference, support::*};
use proptest::prelude::*;
use xds_core::proto::{StringMatcher, envoy::r#type::matcher::v3::string_matcher::MatchPattern};
use xds_routing::{
    Call, Random,
    pattern::{Fraction, Headers},
    proto::envoy::{
        config::route::v3::{
            Route as RouteSchema, RouteAction, RouteMatch as MatchSchema,
            header_matcher::HeaderMatchSpecifier as Header,
            route_action::{HashPolicy, hash_policy},
        },
        r#type::v3::{Int64Range, fractional_percent::DenominatorType},
    },
    route::{Action, ClusterChoice, DomainPattern, RouteConfiguration, VirtualHost},
};

type Pairs<'a> = [(&'a str, &'a str)];

fn find_cluster(
    host: &VirtualHost,
    path: &str,
    headers: &Pairs<'_>,
    random: &mut Random,
) -> Option<String> {
    let route = host.find(&Call::new(path, headers), random).ok()?;
    match &route.action {
        Action::Forward(forward) => match &forward.clusters {
            ClusterChoice::Cluster(name) => Some(name.to_string()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Returns the cluster that the first virtual host chooses for a call.
fn matched_cluster(config: &RouteConfiguration, path: &str, headers: &Pairs<'_>) -> Option<String> {
    find_cluster(&config.virtual_hosts()[0], path, headers, &mut Random::new(1))
}

#[test]
fn first_matching_route_is_used() {
    let config = valid(vec![
        route(prefix("/MyService"), cluster("1")),
        route(path("/MyService/MyMethod"), cluster("2")),
        route(safe_regex("/Other/.*"), cluster("3")),
        route(path("/Other/M"), cluster("4")),
    ]);
    assert_eq!(matched_cluster(&config, "/MyService/MyMethod", &[]).as_deref(), Some("1"));
    assert_eq!(matched_cluster(&config, "/Other/M", &[]).as_deref(), Some("3"));
    assert_eq!(matched_cluster(&config, "/Else", &[]), None);

    // The second of two equal matches gets no calls.
    let twice = valid(vec![route(prefix("/s"), cluster("a")), route(prefix("/s"), cluster("b"))]);
    assert_eq!(twice.virtual_hosts()[0].routes().len(), 2, "both are valid");
    for path in ["/s", "/s/m", "/service/x"] {
        assert_eq!(matched_cluster(&twice, path, &[]).as_deref(), Some("a"));
    }
    let again = vec![route(path("/s/m"), cluster("a")), route(path("/s/m"), cluster("b"))];
    let others = (0..40).map(|index| route(path(&format!("/other/{index}")), cluster("c")));
    let many = valid(again.into_iter().chain(others).collect());
    assert_eq!(
        matched_cluster(&many, "/s/m", &[]).as_deref(),
        Some("a"),
        "in a table that is looked up too"
    );

    let none = config.virtual_hosts()[0].find(&Call::new("/Else", &[]), &mut Random::new(1));
    let text = none.unwrap_err().to_string();
    assert_eq!(text, "no route of virtual host `*` matches path /Else (4 routes, 0 skipped)");
    println!("covers: S2.002 S2.019 S2.042 S2.047 S2.054 S2.100");
}

#[test]
fn route_requires_all_of_its_matchers() {
    let matches = with_header(prefix("/s/"), "a", Header::ExactMatch("1".into()));
    let matches = with_header(matches, "b", Header::PresentMatch(true));
    let config = valid(vec![route(matches, cluster("both")), route(prefix(""), cluster("rest"))]);
    let both = [("a", "1"), ("b", "")];
    assert_eq!(matched_cluster(&config, "/s/m", &both).as_deref(), Some("both"));
    assert_eq!(matched_cluster(&config, "/t/m", &both).as_deref(), Some("rest"));
    assert_eq!(matched_cluster(&config, "/s/m", &both[..1]).as_deref(), Some("rest"));
    assert_eq!(matched_cluster(&config, "/s/m", &[("a", "2"), ("b", "")]).as_deref(), Some("rest"));
    println!("covers: S2.038 S2.046");
}

/// Whether a call with these headers matches a matcher for the header `h`.
fn fits(how: Header, invert: bool, headers: &Pairs<'_>) -> bool {
    let mut matches = with_header(prefix(""), "h", how);
    matches.headers[0].invert_match = invert;
    matched_cluster(&valid(vec![route(matches, cluster("c"))]), "/s/m", headers).is_some()
}

#[test]
fn every_header_matcher_works_and_can_be_inverted() {
    let with = |value| [("h", value)];
    let cases: [(Header, &str, &str); 6] = [
        (Header::ExactMatch("v1".into()), "v1", "v"),
        (Header::SafeRegexMatch(regex("v[0-9]+")), "v12", "xv12"),
        (Header::RangeMatch(Int64Range { start: -5, end: 10 }), "-5", "10"),
        (Header::PrefixMatch("v".into()), "v1", "1v"),
        (Header::SuffixMatch("v".into()), "1v", "v1"),
        (Header::ContainsMatch("v".into()), "1v1", "1"),
    ];
    for (how, good, bad) in cases {
        assert!(fits(how.clone(), false, &with(good)), "{how:?}");
        assert!(!fits(how.clone(), false, &with(bad)), "{how:?}");
        assert!(!fits(how.clone(), true, &with(good)), "{how:?}");
        assert!(fits(how.clone(), true, &with(bad)), "{how:?}");
        // An absent header does not match, inverted or not.
        assert!(!fits(how.clone(), false, &[]) && !fits(how, true, &[]));
    }
    let range = || Header::RangeMatch(Int64Range { start: 0, end: 10 });
    assert!(!fits(range(), false, &with("one")) && !fits(range(), false, &with("5.0")));
    for (expected, invert, is_there) in
        [(true, false, true), (true, true, false), (false, false, false), (false, true, true)]
    {
        let present = || Header::PresentMatch(expected);
        assert_eq!(fits(present(), invert, &with("")), is_there);
        assert_eq!(fits(present(), invert, &[]), !is_there);
    }
    println!("covers: S2.027 S2.028 S2.079 S2.080 S2.081 S2.082 S2.083 S2.084 S2.085");
}

#[test]
fn string_matchers_respect_ignore_case() {
    let test = |pattern: MatchPattern, ignore_case, value: &str| {
        let matcher = StringMatcher { match_pattern: Some(pattern), ignore_case };
        fits(Header::StringMatch(matcher), false, &[("h", value)])
    };
    let exact = || MatchPattern::Exact("AbC".into());
    assert!(test(exact(), true, "aBc") && !test(exact(), false, "aBc"));
    let contains = || MatchPattern::Contains("bC".into());
    assert!(test(contains(), true, "aBcD") && !test(contains(), false, "aBcD"));
    let prefix_of = || MatchPattern::Prefix("Ab".into());
    assert!(test(prefix_of(), true, "aBc") && !test(prefix_of(), false, "aBc"));
    let suffix = || MatchPattern::Suffix("bC".into());
    assert!(test(suffix(), true, "aBc") && !test(suffix(), false, "aBc"));
    assert!(test(MatchPattern::SafeRegex(regex("a.c")), false, "abc"));
    println!("covers: B41");
}

#[test]
fn only_application_headers_are_matched() {
    let sees = |name: &str, headers: &Pairs<'_>, value: &str| {
        let matches = with_header(prefix(""), name, Header::ExactMatch(value.into()));
        matched_cluster(&valid(vec![route(matches, cluster("c"))]), "/s/m", headers).is_some()
    };
    assert!(sees("content-type", &[], "application/grpc"));
    assert!(sees("content-type", &[("content-type", "application/grpc+x")], "application/grpc+x"));
    assert!(!sees("key-bin", &[("key-bin", "v")], "v"));
    assert!(!sees(":path", &[(":path", "/s/m")], "/s/m"));
    assert!(sees("h", &[("h", "a"), ("i", "x"), ("h", "b"), ("h", "c")], "a,b,c"));
    assert!(sees("H", &[("h", "a")], "a"));
    println!("covers: X45 B13");
}

/// A random number below one million is compared with the numerator.
#[test]
fn runtime_fraction_matches_its_share_of_calls() {
    let share = |numerator| {
        let matches = with_fraction(prefix(""), numerator, DenominatorType::Million);
        let config = valid(vec![route(matches, cluster("c"))]);
        let mut random = Random::new(9);
        let host = &config.virtual_hosts()[0];
        let draws = 20_000;
        (0..draws).filter(|_| find_cluster(host, "/s/m", &[], &mut random).is_some()).count()
    };
    assert_eq!(share(0), 0);
    assert_eq!(share(1_000_000), 20_000);
    assert_eq!(share(2_000_000), 20_000);
    let quarter = share(250_000);
    assert!((4_750..5_250).contains(&quarter), "{quarter}");
    assert_eq!(Fraction::from_millionths(2_000_000), Fraction::ALL);
    let unset = valid(vec![route(prefix(""), cluster("c"))]);
    assert!(matched_cluster(&unset, "/s/m", &[]).is_some());
    println!("covers: S2.029 S2.030 S2.031 S2.032 X24");
}

#[test]
fn most_specific_virtual_host_is_used() {
    let named = |domains: &[&str]| host(domains, vec![route(prefix(""), cluster("c"))]);
    let config = validated(&routes(
        "r",
        vec![
            named(&["*"]),
            named(&["foo.*"]),
            named(&["foo.bar.*", "*.com"]),
            named(&["*.bar.com"]),
            named(&["foo.bar.com", "Upper.Case:8080"]),
            named(&["foo.bar.com", "*.bar.com"]),
        ],
    ))
    .unwrap();
    let found = |name: &str| config.virtual_host(name).map(VirtualHost::name).unwrap_or_default();
    assert_eq!(found("foo.bar.com"), "foo.bar.com,Upper.Case:8080");
    assert_eq!(found("FOO.bar.com"), "foo.bar.com,Upper.Case:8080");
    assert_eq!(found("upper.case:8080"), "foo.bar.com,Upper.Case:8080");
    assert_eq!(found("x.bar.com"), "*.bar.com");
    assert_eq!(found("foo.com"), "foo.bar.*,*.com");
    assert_eq!(found("foo.bar.org"), "foo.bar.*,*.com");
    assert_eq!(found("foo.org"), "foo.*");
    assert_eq!(found("foo."), "*");
    assert_eq!(found(".bar.com"), "foo.bar.*,*.com");
    assert_eq!(found("other"), "*");

    let one = validated(&routes("r", vec![named(&["a"])])).unwrap();
    assert!(one.virtual_host("b").is_none());
    println!("covers: S2.067 S2.069");
}

/// Finds the virtual host for a name by testing all of them.
fn naive_host<'a>(config: &'a RouteConfiguration, name: &str) -> Option<&'a VirtualHost> {
    let rank = |pattern: &DomainPattern| match pattern {
        DomainPattern::Exact(_) => (0, 0),
        DomainPattern::Suffix(text) => (1, usize::MAX - text.len()),
        DomainPattern::Prefix(text) => (2, usize::MAX - text.len()),
        DomainPattern::Any => (3, 0),
    };
    let hosts = config.virtual_hosts().iter();
    let all = hosts.flat_map(|host| host.domains().iter().map(move |domain| (host, domain)));
    let fitting = all.filter(|(_, domain)| domain.matches(name));
    fitting.min_by_key(|(_, domain)| rank(domain)).map(|(host, _)| host)
}

fn texts() -> impl Strategy<Value = String> {
    "[/abAB]{0,5}"
}

fn matches() -> impl Strategy<Value = MatchSchema> {
    let path = prop_oneof![
        texts().prop_map(|text| path(&text)),
        texts().prop_map(|text| prefix(&text)),
        "[/abAB]{0,3}(\\.\\*|a\\+|\\[ab\\])?".prop_map(|text| safe_regex(&text)),
    ];
    let header = prop_oneof![
        Just(None),
        "[ab]".prop_map(|text| Some(Header::ExactMatch(text))),
        any::<bool>().prop_map(|present| Some(Header::PresentMatch(present))),
    ];
    let fraction = prop_oneof![3 => Just(None), 1 => (0..=100_u32).prop_map(Some)];
    (path, header, any::<bool>(), fraction).prop_map(|(mut matches, header, case, fraction)| {
        matches.case_sensitive = boolean(case);
        if let Some(how) = header {
            matches = with_header(matches, "h", how);
        }
        match fraction {
            Some(percent) => with_fraction(matches, percent, DenominatorType::Hundred),
            None => matches,
        }
    })
}

fn tables() -> impl Strategy<Value = Vec<RouteSchema>> {
    prop::collection::vec(matches(), 0..30).prop_map(|list| {
        let named = list.into_iter().enumerate();
        named.map(|(index, matches)| route(matches, cluster(&index.to_string()))).collect()
    })
}

proptest! {
    /// With the same seed, the index finds the same route as testing all routes in order, and draws
    /// as many random numbers.
    #[test]
    fn route_index_agrees_with_a_linear_search(
        table in tables(),
        calls in prop::collection::vec((texts(), prop::option::of("[abc]")), 1..20),
        seed: u64,
    ) {
        let config = valid(table);
        let host = &config.virtual_hosts()[0];
        let (mut indexed, mut naive) = (Random::new(seed), Random::new(seed));
        for (path, value) in calls {
            let headers: Vec<_> = value.iter().map(|value| ("h", value.as_str())).collect();
            let call = Call::new(&path, headers.as_slice());
            let expected = host.routes().iter().find(|route| route.matches.matches(&call, &mut naive));
            let found = host.find(&call, &mut indexed).ok();
            prop_assert_eq!(found.map(core::ptr::from_ref), expected.map(core::ptr::from_ref));
        }
        prop_assert_eq!(indexed.next_u64(), naive.next_u64());
    }

    /// The first matching route is used, by a reference implementation of gRFC A28.
    #[test]
    fn routes_match_as_in_the_reference_implementation(
        table in reference::tables(),
        calls in reference::calls(),
        seed: u64,
    ) {
        let config = valid(table.clone());
        let host = &config.virtual_hosts()[0];
        let mut random = Random::new(seed);
        for (path, headers) in &calls {
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let expected = reference::first(&table, path, &headers).map(|it| it.to_string());
            let found = find_cluster(host, path, &headers, &mut random);
            prop_assert_eq!(found, expected, "{} {:?}", path, headers);
        }
        println!("covers: S2.002 S2.019 S2.042 S2.046 S2.047 S2.054 S2.078 S2.085 S2.090 X33 X35 X37");
    }

    #[test]
    fn virtual_host_lookup_agrees_with_a_linear_search(
        hosts in prop::collection::vec(
            prop::collection::vec("\\*?[ab.]{1,3}|[ab.]{1,3}\\*|\\*", 1..4), 0..8),
        names in prop::collection::vec("[abAB.]{0,5}", 1..20),
    ) {
        let hosts = hosts.iter().map(|domains| {
            let domains: Vec<_> = domains.iter().map(String::as_str).collect();
            host(&domains, vec![])
        });
        let config = validated(&routes("r", hosts.collect())).unwrap();
        for name in names {
            let found = config.virtual_host(&name).map(core::ptr::from_ref);
            prop_assert_eq!(found, naive_host(&config, &name).map(core::ptr::from_ref));
        }
    }
}

#[test]
fn custom_headers_implementation_can_be_matched() {
    struct Own;
    impl Headers for Own {
        fn value(&self, name: &str) -> Option<std::borrow::Cow<'_, str>> {
            (name == "h").then_some(std::borrow::Cow::Borrowed("v"))
        }
    }
    let matches = with_header(prefix(""), "h", Header::ExactMatch("v".into()));
    let config = valid(vec![route(matches, cluster("c"))]);
    let own: &dyn Headers = &Own;
    assert!(config.virtual_hosts()[0].find(&Call::new("/s/m", own), &mut Random::new(0)).is_ok());
}

/// Returns the hash of a call by the values of these headers. `true` marks a terminal policy.
fn hash_by(policies: &[(&str, bool)], headers: &Pairs<'_>) -> Option<u64> {
    let policies = policies.iter().map(|&(name, terminal)| {
        let header = hash_policy::Header { header_name: name.into(), regex_rewrite: None };
        HashPolicy {
            policy_specifier: Some(hash_policy::PolicySpecifier::Header(header)),
            terminal,
        }
    });
    let action = RouteAction { hash_policy: policies.collect(), ..action(cluster("c")) };
    let config = valid(vec![route_to(prefix(""), action)]);
    match &config.virtual_hosts()[0].routes()[0].action {
        Action::Forward(forward) => forward.hash(headers, 7),
        other => panic!("{other:?}"),
    }
}

/// gRFC A42: a terminal policy ends the computation if there is a hash, of its own or of an earlier
/// policy.
#[test]
fn terminal_hash_policy_ends_the_computation_if_there_is_a_hash() {
    let headers = [("user", "ann"), ("shop", "north")];
    let (user, shop) =
        (hash_by(&[("user", false)], &headers), hash_by(&[("shop", false)], &headers));
    assert!(user.is_some() && shop.is_some() && user != shop);
    let both = user.zip(shop).map(|(user, shop)| user.rotate_left(1) ^ shop);
    let (user_ends, none_ends) = (("user", true), ("none", true));
    let (user_first, shop_last) = (("user", false), ("shop", false));
    assert_eq!(hash_by(&[user_first, shop_last], &headers), both);
    assert_eq!(hash_by(&[user_ends, shop_last], &headers), user);
    assert_eq!(hash_by(&[none_ends, shop_last], &headers), shop, "there is no hash yet");
    assert_eq!(hash_by(&[user_first, none_ends, shop_last], &headers), user);
    assert_eq!(hash_by(&[none_ends], &headers), None);
    println!("covers: B33a");
}
