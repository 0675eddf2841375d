//! Fuzz target for `xdstp` resource names.

use xds_core::{
    ResourceName, TypeUrl, types,
    xdstp::{Authority, ListenerTemplate, XdstpName, canonical, directives, is_xdstp},
};

/// Checks the canonical forms and the parts of two names, one per line, and whether one
/// covers the other.
///
/// The canonical form of a name must be its own canonical form and denote the same name.
pub fn names(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let parsed: Vec<XdstpName> = [first, second].into_iter().filter_map(one).collect();
    if let [glob, member] = &*parsed {
        let covers = glob.covers(member);
        assert!(!covers || glob.is_glob(), "{glob:?} covers {member:?} and is no glob");
    }
    let template = ListenerTemplate::new(first);
    let expanded = template.expand(second);
    if !first.contains("%s") {
        let form = canonical(&ResourceName::from(first)).unwrap_or_else(|_| first.into());
        assert_eq!(expanded, form, "a template without a place stays as it is");
    }
}

fn one(text: &str) -> Option<XdstpName> {
    let _ = (directives(text), Authority::of(text));
    let name = ResourceName::from(text);
    let form = canonical(&name);
    if !is_xdstp(text) {
        assert_eq!(form.as_ref(), Ok(&name), "a name without structure is what it is");
        return None;
    }
    let parsed = XdstpName::parse(text);
    assert_eq!(parsed.is_ok(), form.is_ok(), "{text:?}");
    let (parsed, form) = (parsed.ok()?, form.ok()?);
    assert_eq!(canonical(&form).as_ref(), Ok(&form), "{text:?} has two canonical forms");
    let again = XdstpName::parse(form.as_str()).expect("a canonical name is a name");
    assert_eq!(again.as_str(), parsed.as_str());
    assert_eq!(again.authority(), parsed.authority());
    assert_eq!(again.type_name(), parsed.type_name());
    assert_eq!(again.id(), parsed.id());
    assert!(again.context().eq(parsed.context()), "{text:?}");
    assert_eq!(again.is_glob(), parsed.is_glob());
    let _ = parsed.is_of(&TypeUrl::from(types::CLUSTER));
    Some(parsed)
}
