//! Structured `xdstp` resource names: canonical form, authorities, globs, templates.

use proptest::prelude::*;
use xds_core::{
    ResourceName, TypeUrl, types,
    xdstp::{self, Authority, InvalidXdstp, ListenerTemplate, XdstpName},
};

fn canonical(name: &str) -> String {
    XdstpName::parse(name).unwrap_or_else(|why| panic!("{name}: {why}")).as_str().into()
}

fn parse(name: &str) -> XdstpName {
    name.parse().unwrap_or_else(|why| panic!("{name}: {why}"))
}

#[test]
fn name_parses_into_authority_type_id_and_context() {
    // B20; the name part of FE-02.
    let name = parse("xdstp://a/envoy.config.listener.v3.Listener/foo/bar?y=2&x=1#entry=z");
    assert_eq!(name.authority(), "a");
    assert_eq!(name.type_name(), "envoy.config.listener.v3.Listener");
    assert_eq!(name.id(), "foo/bar");
    let context: Vec<_> = name.context().collect();
    assert_eq!(context, [(b"x"[..].into(), b"1"[..].into()), (b"y"[..].into(), b"2"[..].into())]);
    assert_eq!(name.as_str(), "xdstp://a/envoy.config.listener.v3.Listener/foo/bar?x=1&y=2");
}

#[test]
fn context_parameter_order_is_ignored() {
    // The name part of FE-08, FE-09, M141 and IC30.
    assert_eq!(parse("xdstp://a/t/foo?a=1&b=2"), parse("xdstp://a/t/foo?b=2&a=1"));
    assert_ne!(parse("xdstp://a/t/foo?a=1&b=2"), parse("xdstp://a/t/foo?a=2&b=1"));
    assert_ne!(parse("xdstp://a/t/foo?a=1"), parse("xdstp://a/t/foo"));
    // Parameters are sorted by decoded key.
    assert_eq!(canonical("xdstp://a/t/foo?%7Az=1&b=2"), "xdstp://a/t/foo?b=2&zz=1");
}

#[test]
fn last_repeated_context_parameter_wins() {
    println!("covers: FE-10 D24");
    assert_eq!(canonical("xdstp://a/t/foo?k=1&j=0&k=2"), "xdstp://a/t/foo?j=0&k=2");
    assert_eq!(canonical("xdstp://a/t/foo?k=1&%6B=2"), "xdstp://a/t/foo?k=2");
}

#[test]
fn unneeded_escapes_are_decoded_and_needed_ones_kept() {
    println!("covers: FE-11");
    for (written, expected) in [
        ("xdstp://a/t/id%2F1?k=a%26b", "xdstp://a/t/id%2F1?k=a%26b"),
        ("xdstp://a/t/id%2f1?k=a%3db", "xdstp://a/t/id%2F1?k=a%3Db"),
        ("xdstp://a/t/id?k=a=b", "xdstp://a/t/id?k=a%3Db"),
        ("xdstp://a/t/%41%2D?%6b=%7e", "xdstp://a/t/A-?k=~"),
        ("xdstp://a/t/a%3Fb%23c?k=%23", "xdstp://a/t/a%3Fb%23c?k=%23"),
        ("xdstp://a/t/a%25b", "xdstp://a/t/a%25b"),
        ("xdstp://a/t/a b\u{e9}", "xdstp://a/t/a%20b%C3%A9"),
        ("xdstp://a/t/%FF", "xdstp://a/t/%FF"),
        ("xdstp://a/t/x?k=a+b", "xdstp://a/t/x?k=a+b"),
        ("xdstp://a/t/x?k=a%20b/c?d", "xdstp://a/t/x?k=a%20b/c?d"),
    ] {
        assert_eq!(canonical(written), expected, "{written}");
    }
    assert_ne!(parse("xdstp://a/t/x/y"), parse("xdstp://a/t/x%2Fy"));
    assert_ne!(parse("xdstp://a/t/x?k=a%26b=c"), parse("xdstp://a/t/x?k=a&b=c"));
}

#[test]
fn parameter_without_value_has_empty_value() {
    assert_eq!(canonical("xdstp://a/t/x?k"), "xdstp://a/t/x?k=");
    assert_eq!(canonical("xdstp://a/t/x?k="), "xdstp://a/t/x?k=");
    assert_eq!(canonical("xdstp://a/t/x?"), "xdstp://a/t/x");
    assert_eq!(canonical("xdstp://a/t/x?&&k=1&"), "xdstp://a/t/x?k=1");
}

#[test]
fn directives_are_excluded_from_name() {
    println!("covers: FE-12");
    let written = "xdstp://a/t/foo?k=1#entry=x,alt=xdstp://b/t/y?z#";
    assert_eq!(canonical(written), "xdstp://a/t/foo?k=1");
    assert_eq!(xdstp::directives(written), Some("entry=x,alt=xdstp://b/t/y?z#"));
    assert_eq!(xdstp::directives("xdstp://a/t/foo"), None);
}

#[test]
fn empty_authority_differs_from_top_level() {
    // The name part of FE-04.
    assert_eq!(Authority::of("xdstp:///t/foo"), Ok(Authority::Named("".into())));
    assert_eq!(Authority::of("foo"), Ok(Authority::TopLevel));
    assert_eq!(Authority::of("foo").as_ref().map(Authority::label), Ok("#old"));
    assert_eq!(canonical("xdstp:///t/foo"), "xdstp:///t/foo");
}

#[test]
fn authority_is_compared_decoded_and_case_sensitively() {
    println!("covers: FE-21");
    assert_eq!(parse("xdstp://%23.com/t/x").authority(), "#.com");
    assert_eq!(canonical("xdstp://%23.com/t/x"), "xdstp://%23.com/t/x");
    assert_eq!(canonical("xdstp://Some.Host%3a80/t/x"), "xdstp://Some.Host:80/t/x");
    assert_ne!(parse("xdstp://A/t/x"), parse("xdstp://a/t/x"));
}

#[test]
fn names_of_other_schemes_are_opaque() {
    println!("covers: FE-13");
    for name in ["http://a/b/c", "XDSTP://a/t/x", "xdstpfoo", "a%zz", "*", ""] {
        assert_eq!(Authority::of(name), Ok(Authority::TopLevel), "{name}");
        assert_eq!(xdstp::canonical(&ResourceName::from(name)), Ok(name.into()));
        assert_eq!(XdstpName::parse(name), Err(InvalidXdstp::Scheme));
    }
}

#[test]
fn type_in_name_is_checked_against_type_url() {
    // The name part of FE-07.
    let name = parse("xdstp://a/envoy.config.cluster.v3.Cluster/foo");
    assert!(name.is_of(&types::CLUSTER.into()));
    assert!(!name.is_of(&types::LISTENER.into()));
    assert!(name.is_of(&TypeUrl::from("envoy.config.cluster.v3.Cluster")));
}

#[test]
fn malformed_name_error_gives_reason_and_position() {
    use InvalidXdstp as E;
    for (name, why) in [
        ("xdstp:", E::MissingSlashes),
        ("xdstp:/a/t/x", E::MissingSlashes),
        ("xdstp://", E::MissingType),
        ("xdstp://a", E::MissingType),
        ("xdstp://a?k=v", E::MissingType),
        ("xdstp://a/", E::MissingType),
        ("xdstp://a//x", E::MissingType),
        ("xdstp://a/t", E::MissingId),
        ("xdstp://a/t/", E::MissingId),
        ("xdstp://a/t/?k=v", E::MissingId),
        ("xdstp://a/t#/x", E::MissingId),
        ("xdstp://%/t/x", E::Escape { at: 8 }),
        ("xdstp://a/t%4/x", E::Escape { at: 11 }),
        ("xdstp://a/t/x%+1", E::Escape { at: 13 }),
        ("xdstp://a/t/x/%zz", E::Escape { at: 14 }),
        ("xdstp://a/t/x?k=%é", E::Escape { at: 16 }),
        ("xdstp://a/t/x?k=1&%2=", E::Escape { at: 18 }),
        ("xdstp://%FF/t/x", E::AuthorityEncoding),
        ("xdstp://a/t/x?k=1&=2", E::MissingKey { at: 18 }),
    ] {
        assert_eq!(XdstpName::parse(name), Err(why), "{name}");
        assert_eq!(xdstp::canonical(&name.into()), Err(why), "{name}");
        assert_eq!(Authority::of(name), Err(why), "{name}");
    }
    assert_eq!(
        E::Escape { at: 8 }.to_string(),
        "the \"%\" at byte 8 is not followed by two hexadecimal digits"
    );
}

#[test]
fn glob_covers_names_below_it_with_equal_context() {
    // B20; the name part of FE-22 and M35.
    let glob = parse("xdstp://a/t/coll/*?x=1");
    assert!(glob.is_glob());
    for (member, is_covered) in [
        ("xdstp://a/t/coll/foo?x=1", true),
        ("xdstp://a/t/coll/foo/bar?x=%31", true),
        ("xdstp://a/t/coll/%2A?x=1", true),
        ("xdstp://a/t/coll/foo", false),
        ("xdstp://a/t/coll/foo?x=1&y=2", false),
        ("xdstp://a/t/coll?x=1", false),
        ("xdstp://a/t/coll/?x=1", false),
        ("xdstp://a/t/collection/foo?x=1", false),
        ("xdstp://a/t/other/foo?x=1", false),
        ("xdstp://b/t/coll/foo?x=1", false),
        ("xdstp://a/u/coll/foo?x=1", false),
        ("xdstp://a/t/coll/*?x=1", false),
    ] {
        assert_eq!(glob.covers(&parse(member)), is_covered, "{member}");
    }
    assert!(parse("xdstp://a/t/*").covers(&parse("xdstp://a/t/foo")));
    assert!(!parse("xdstp://a/t/coll/f*").is_glob());
    assert!(!parse("xdstp://a/t/coll/foo").covers(&parse("xdstp://a/t/coll/foo")));
}

#[test]
fn escaped_star_is_not_a_glob() {
    let name = parse("xdstp://a/t/coll/%2a");
    assert!(!name.is_glob());
    assert_eq!(name.as_str(), "xdstp://a/t/coll/%2A");
    assert_eq!(canonical("xdstp://a/t/%2A/x%2A"), "xdstp://a/t/*/x*");
}

#[test]
fn template_escapes_target_only_in_xdstp_names() {
    println!("covers: FE-20");
    for (template, target, expected) in [
        ("%s", "server:80", "server:80"),
        ("path/to/%s/and/%s", "a b/%", "path/to/a b/%/and/a b/%"),
        ("xdstp://a/L/%s", "x/y:80", "xdstp://a/L/x/y:80"),
        ("xdstp://a/L/%s", "[::1]:80 %", "xdstp://a/L/%5B::1%5D:80%20%25"),
        ("xdstp://a/L/%s?id=%s", "x", "xdstp://a/L/x?id=x"),
        ("xdstp://a/L/fixed", "x", "xdstp://a/L/fixed"),
        ("xdstp://a/L/%s", "x/*", "xdstp://a/L/x/%2A"),
        ("xdstp://a/L/%s", "*/", "xdstp://a/L/*/"),
        ("xdstp://a/L/x%s", "*", "xdstp://a/L/x*"),
        ("xdstp://a/L/%s?id=%s", "x&k=v", "xdstp://a/L/x&k=v?id=x%26k%3Dv"),
        ("xdstp://a/L/x?b=%s&a=1", "y", "xdstp://a/L/x?a=1&b=y"),
    ] {
        assert_eq!(ListenerTemplate::new(template).expand(target), expected, "{template}");
    }
    assert_eq!(ListenerTemplate::target().expand("x"), "x");
}

#[test]
fn authority_default_template_is_within_authority() {
    println!("covers: BS-18 BS-19");
    let template = ListenerTemplate::of_authority("#.com");
    assert_eq!(template.as_str(), "xdstp://%23.com/envoy.config.listener.v3.Listener/%s");
    assert!(template.is_within("#.com"));
    for (template, is_within) in [
        ("xdstp://au/L/%s", true),
        ("xdstp://%61u/L/%s", true),
        ("xdstp://author/L/%s", false),
        ("xdstp://au", false),
        ("xdstp://au?/L/%s", false),
        ("xdstp://au#/L/%s", false),
        ("xdstp:///L/%s", false),
        ("%s", false),
    ] {
        assert_eq!(ListenerTemplate::new(template).is_within("au"), is_within, "{template}");
    }
    assert!(ListenerTemplate::new("xdstp:///L/%s").is_within(""));
}

/// A decoded name: its parts without escapes.
#[derive(Clone, Debug, PartialEq)]
struct Meant {
    authority: String,
    type_name: String,
    id: Vec<Vec<u8>>,
    context: Vec<(Vec<u8>, Vec<u8>)>,
}

fn meant() -> impl Strategy<Value = Meant> {
    // A small alphabet, so that equal names occur, and all bytes with a special meaning.
    let bytes = |min| prop::collection::vec(prop::sample::select(&b"ab/&=?#%*+ \xff"[..]), min..3);
    let context = prop::collection::btree_map(bytes(1), bytes(0), 0..3);
    ("[ab/#@ ]{0,2}", "[a-c]{1,2}", prop::collection::vec(bytes(1), 1..3), context).prop_map(
        |(authority, type_name, mut id, context)| {
            // A lone `*` segment makes the name a glob.
            id.retain(|segment| segment != b"*");
            if id.is_empty() {
                id.push(b"a".into());
            }
            Meant { authority, type_name, id, context: context.into_iter().collect() }
        },
    )
}

impl Meant {
    /// Writes the name with escapes where `style` asks for them or where they are required. An odd
    /// `style` reverses the context parameters.
    fn write(&self, style: u64) -> String {
        let mut step = style;
        let mut escape = |bytes: &[u8], out: &mut String| {
            for &byte in bytes {
                step = step.rotate_left(7).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                if byte.is_ascii_alphanumeric() && step & 1 == 0 {
                    out.push(char::from(byte));
                } else if step & 2 == 0 {
                    out.push_str(&format!("%{byte:02x}"));
                } else {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
        };
        let mut out = String::from("xdstp://");
        escape(self.authority.as_bytes(), &mut out);
        out.push('/');
        escape(self.type_name.as_bytes(), &mut out);
        for segment in &self.id {
            out.push('/');
            escape(segment, &mut out);
        }
        let mut context = self.context.clone();
        if style & 1 == 1 {
            context.reverse();
        }
        for (position, (key, value)) in context.iter().enumerate() {
            out.push(if position == 0 { '?' } else { '&' });
            escape(key, &mut out);
            out.push('=');
            escape(value, &mut out);
        }
        out
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn names_are_equal_iff_decoded_parts_are_equal(
        one in meant(), other in meant(), styles in any::<(u64, u64)>(),
    ) {
        let (first, second) = (one.write(styles.0), one.write(styles.1));
        prop_assert_eq!(parse(&first), parse(&second));
        let name = parse(&first);
        prop_assert_eq!(name.authority(), &one.authority);
        prop_assert_eq!(
            parse(&first) == parse(&other.write(styles.1)), one == other,
            "{:?} and {:?}", one, other
        );
        // The canonical form preserves the context.
        let context: Vec<_> =
            name.context().map(|(key, value)| (key.into_owned(), value.into_owned())).collect();
        prop_assert_eq!(context, one.context);
    }

    #[test]
    fn parsing_never_panics_and_canonical_form_is_stable(
        text in "(xdstp:(//)?)?[a-c/?#&=%*0-9A-F+ é]{0,24}",
    ) {
        if let Ok(name) = XdstpName::parse(&text) {
            let again = parse(name.as_str());
            prop_assert_eq!(again.as_str(), name.as_str());
            prop_assert_eq!(again.is_glob(), name.is_glob());
            prop_assert_eq!(again.id(), name.id());
            prop_assert!(name.as_str().len() <= 3 * text.len());
        }
        let template = ListenerTemplate::new(text.as_str());
        let expanded = template.expand(&text);
        if template.is_within("a") {
            let ours = Authority::Named("a".into());
            prop_assert!(Authority::of(expanded.as_str()).map_or(true, |authority| authority == ours));
        }
    }

    #[test]
    fn expanded_target_is_a_canonical_name(target in ".{1,12}") {
        let name = ListenerTemplate::of_authority("a").expand(&target);
        // A target of slashes only has an id of empty segments, which is valid.
        if let Ok(parsed) = XdstpName::parse(name.as_str()) {
            prop_assert!(!parsed.is_glob());
            prop_assert_eq!(parsed.as_str(), name.as_str());
        } else {
            prop_assert!(false, "{} is no name", name);
        }
    }
}
