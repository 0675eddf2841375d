//! Changes common to messages, enums and services.

use core::fmt::Display;

use super::{Axes, Axis, Change, Rule};

/// Creates the change of a definition with a new full name.
pub(super) fn moved(rule: Rule, new_name: &str, broken: Axes) -> Change {
    Change { rule, description: format!("is now `{new_name}`"), broken }
}

/// Creates the change of a removed definition. It also breaks [`Axis::Policy`] unless the
/// definition was deprecated.
pub(super) fn removed(rule: Rule, was_deprecated: bool, broken: Axes) -> Change {
    Change {
        rule,
        description: if was_deprecated {
            "was removed".to_owned()
        } else {
            "was removed without prior deprecation".to_owned()
        },
        broken: broken.with_if(!was_deprecated, Axis::Policy),
    }
}

/// Creates the change of a removed definition whose number or name is not reserved and could be
/// reused by mistake.
pub(super) fn not_reserved(
    number: impl Display,
    name: &str,
    has_number: bool,
    has_name: bool,
) -> Option<Change> {
    let what = match (has_number, has_name) {
        (true, true) => return None,
        (true, false) => format!("the name `{name}`"),
        (false, true) => format!("the number {number}"),
        (false, false) => format!("the number {number} and the name `{name}`"),
    };
    Some(Change {
        rule: Rule::RemovalNotReserved,
        description: format!("does not reserve {what}"),
        broken: Axes::from([Axis::Policy]),
    })
}

/// Creates the changes of a new definition that uses a reserved number or name.
pub(super) fn reserved_reuse(
    number: impl Display,
    is_number_reserved: bool,
    is_name_reserved: bool,
) -> impl Iterator<Item = Change> {
    let of_number = is_number_reserved.then(|| Change {
        rule: Rule::NumberReused,
        description: format!("uses the reserved number {number}"),
        broken: Axes::from([Axis::Binary, Axis::Policy]),
    });
    let of_name = is_name_reserved.then(|| Change {
        rule: Rule::NameReused,
        description: "uses a reserved name".to_owned(),
        broken: Axes::from([Axis::Text, Axis::Policy]),
    });
    of_number.into_iter().chain(of_name)
}
