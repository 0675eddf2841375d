//! Differences between two states of a resource, field by field.

use core::fmt;

use serde_json::Value as Json;

/// Field that differs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference<'a> {
    /// Path of the field, such as `endpoints[0].lb_endpoints[3]`.
    pub(crate) path: String,
    /// Old value, if the field existed.
    pub(crate) old: Option<&'a Json>,
    /// New value, if the field exists.
    pub(crate) new: Option<&'a Json>,
}

/// Returns the fields that differ, in the order of the new state.
///
/// Elements of a list are compared from both ends, so that one inserted element is one difference.
pub(crate) fn differences<'a>(old: &'a Json, new: &'a Json) -> Vec<Difference<'a>> {
    let mut found = Vec::new();
    compare(old, new, String::new(), &mut found);
    found
}

fn compare<'a>(old: &'a Json, new: &'a Json, path: String, found: &mut Vec<Difference<'a>>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Json::Object(old), Json::Object(new)) => {
            let below = |name: &str| match path.as_str() {
                "" => name.to_owned(),
                path => format!("{path}.{name}"),
            };
            for (name, value) in new {
                match old.get(name) {
                    Some(before) => compare(before, value, below(name), found),
                    None => found.push(added(below(name), value)),
                }
            }
            let gone = old.iter().filter(|(name, _)| !new.contains_key(*name));
            found.extend(gone.map(|(name, value)| removed(below(name), value)));
        }
        (Json::Array(old), Json::Array(new)) => compare_lists(old, new, &path, found),
        _ => found.push(Difference { path, old: Some(old), new: Some(new) }),
    }
}

fn compare_lists<'a>(
    old: &'a [Json],
    new: &'a [Json],
    path: &str,
    found: &mut Vec<Difference<'a>>,
) {
    let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);

    let at = |index: usize| format!("{path}[{}]", head + index);
    let paired = old.len().min(new.len());
    for (index, (old, new)) in old.iter().zip(new).enumerate() {
        compare(old, new, at(index), found);
    }
    for (index, element) in new.iter().enumerate().skip(paired) {
        found.push(added(at(index), element));
    }
    for (index, element) in old.iter().enumerate().skip(paired) {
        found.push(removed(at(index), element));
    }
}

fn added(path: String, value: &Json) -> Difference<'_> {
    Difference { path, old: None, new: Some(value) }
}

fn removed(path: String, value: &Json) -> Difference<'_> {
    Difference { path, old: Some(value), new: None }
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, old, new } = self;
        match (old, new) {
            (None, Some(new)) => write!(f, "+ {path}: {new}"),
            (Some(old), None) => write!(f, "- {path}: {old}"),
            (Some(old), Some(new)) => write!(f, "{path}: {old} → {new}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(old: &Json, new: &Json) -> Vec<String> {
        differences(old, new).iter().map(Difference::to_string).collect()
    }

    #[test]
    fn nested_fields_are_compared() {
        let old = json!({ "a": 1, "b": { "c": "x", "d": true }, "gone": [1] });
        let new = json!({ "a": 1, "b": { "c": "y", "d": true }, "come": {} });
        assert_eq!(shown(&old, &new), ["b.c: \"x\" → \"y\"", "+ come: {}", "- gone: [1]"]);
        assert!(shown(&old, &old).is_empty());
        assert_eq!(shown(&json!({ "a": 1 }), &json!({ "a": [1] })), ["a: 1 → [1]"]);
    }

    #[test]
    fn inserted_or_removed_list_element_is_one_difference() {
        assert_eq!(shown(&json!({ "l": [1, 2, 3] }), &json!({ "l": [1, 9, 2, 3] })), ["+ l[1]: 9"]);
        assert_eq!(shown(&json!({ "l": [1, 2, 3] }), &json!({ "l": [2, 3] })), ["- l[0]: 1"]);
        assert_eq!(shown(&json!({ "l": [] }), &json!({ "l": [1, 2] })), ["+ l[0]: 1", "+ l[1]: 2"]);
        assert_eq!(shown(&json!({ "l": [1, 1] }), &json!({ "l": [1] })), ["- l[1]: 1"]);
    }

    #[test]
    fn changed_list_element_is_compared_by_field() {
        let list =
            |weight: u32| json!([{ "port": 1 }, { "port": 2, "weight": weight }, { "port": 3 }]);
        assert_eq!(
            shown(&json!({ "l": list(1) }), &json!({ "l": list(5) })),
            ["l[1].weight: 1 → 5"]
        );
    }
}
