//! Suggestions for types that the schema lacks.

use prost_reflect::{DescriptorPool, MessageDescriptor};

use crate::suggest;

/// Returns a message with a similar name, or one of the same short name in a related package.
///
/// The same short name alone, such as `Config`, is not enough: the type is more likely from a
/// schema that has to be added.
pub(super) fn suggestion(pool: &DescriptorPool, full_name: &str) -> Option<String> {
    let messages: Vec<_> = pool.all_messages().filter(|it| !it.is_map_entry()).collect();
    let names = || messages.iter().map(MessageDescriptor::full_name);
    let (package, short_name) = full_name.rsplit_once('.').unwrap_or(("", full_name));
    let moved = || {
        names()
            .filter_map(|name| Some((name, name.rsplit_once('.')?)))
            .filter(|(_, (other, name))| *name == short_name && is_akin(package, other))
            .max_by_key(|(name, _)| {
                (common_prefix(name, full_name), core::cmp::Reverse(name.len()))
            })
            .map(|(name, _)| name)
    };
    suggest::nearest(full_name, names()).or_else(moved).map(str::to_owned)
}

/// Whether a type may have moved, or may be misremembered, between two packages. They must have the
/// same first word, and the same last word or no word that the other lacks. Versions are ignored.
fn is_akin(package: &str, other: &str) -> bool {
    let parts = |package: &'_ str| -> Vec<String> {
        package.split('.').filter(|word| !is_version(word)).map(str::to_owned).collect()
    };
    let (package, other) = (parts(package), parts(other));
    package.first() == other.first()
        && package.len() > 1
        && (package.last() == other.last() || package.iter().all(|word| other.contains(word)))
}

/// Whether a word is a version such as `v3` or `v2alpha1`.
fn is_version(word: &str) -> bool {
    word.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn related_packages_share_root_and_subject() {
        for (one, other, akin) in [
            ("envoy.config.filter.http.router.v2", "envoy.extensions.filters.http.router.v3", true),
            ("envoy.config.v3", "envoy.config.cluster.v3", true),
            (
                "envoy.extensions.filters.http.golang.v3alpha",
                "envoy.extensions.filters.http.lua.v3",
                false,
            ),
            ("acme.router.v3", "envoy.extensions.filters.http.router.v3", false),
            ("acme", "acme.v3", false),
            ("", "", false),
        ] {
            assert_eq!(is_akin(one, other), akin, "{one} {other}");
        }
    }
}
