//! Comparison of enums and their values.

use prost_reflect::{EnumDescriptor, EnumValueDescriptor};

use super::changes::{moved, not_reserved, removed, reserved_reuse};
use super::{Axes, Axis, Change, Comparison, Exemption, Rule, is_compared};

impl Comparison<'_> {
    pub(super) fn enums(&mut self) {
        for old in self.old.all_enums().filter(|it| is_compared(&it.parent_file())) {
            let exemption = match old.parent_message() {
                Some(parent) => self.message_exemption(&parent),
                None => self.file_exemption(&old.parent_file()),
            };
            let new_name = self.pairs.enumeration(old.full_name()).to_owned();
            let Some(new) = self.new.get_enum_by_name(&new_name) else {
                let broken = Axes::from([Axis::Code]);
                let change = removed(Rule::EnumRemoved, is_deprecated(&old), broken);
                self.report(old.full_name(), exemption, change);
                continue;
            };
            if new_name != old.full_name() {
                let change = moved(Rule::EnumMoved, &new_name, Axes::from([Axis::Code]));
                self.report(old.full_name(), exemption, change);
            }
            self.enumeration(&old, &new, exemption);
        }
    }

    fn enumeration(
        &mut self,
        old: &EnumDescriptor,
        new: &EnumDescriptor,
        exemption: Option<Exemption>,
    ) {
        for value in old.values() {
            match new.get_value_by_name(value.name()) {
                Some(same) if same.number() == value.number() => {}
                Some(moved) => {
                    let description =
                        format!("number {} is now {}", value.number(), moved.number());
                    let broken = Axes::from([Axis::Binary]);
                    let change = Change { rule: Rule::EnumValueRenumbered, description, broken };
                    self.report(value.full_name(), exemption, change);
                }
                None => self.name_gone(&value, old, new, exemption),
            }
        }
        self.default_value(old, new, exemption);
        for value in new.values() {
            let is_known = old.get_value(value.number()).is_some()
                || old.get_value_by_name(value.name()).is_some();
            if !is_known {
                self.new_value(&value, old, exemption);
            }
        }
    }

    fn name_gone(
        &mut self,
        value: &EnumValueDescriptor,
        old: &EnumDescriptor,
        new: &EnumDescriptor,
        exemption: Option<Exemption>,
    ) {
        let names = Axes::from([Axis::Text, Axis::Code]);
        if let Some(new_value) = new.get_value(value.number()) {
            // An alias that existed before still gives the number its meaning; only the name is
            // removed.
            let change = match old.get_value_by_name(new_value.name()) {
                Some(before) if before.number() != value.number() => Change {
                    rule: Rule::NumberReused,
                    description: format!(
                        "number {} was `{}` and is `{}`",
                        value.number(),
                        value.name(),
                        new_value.name()
                    ),
                    broken: names.with(Axis::Binary).with(Axis::Policy),
                },
                _ => Change {
                    rule: Rule::EnumValueRenamed,
                    description: format!("is now called `{}`", new_value.name()),
                    broken: names,
                },
            };
            self.report(value.full_name(), exemption, change);
            return;
        }
        let options = value.enum_value_descriptor_proto().options.as_ref();
        let was_deprecated = options.is_some_and(|it| it.deprecated()) || is_deprecated(old);
        // Readers that do not know the number preserve it (S4.044).
        self.report(
            value.full_name(),
            exemption,
            removed(Rule::EnumValueRemoved, was_deprecated, names),
        );
        let has_number = new.reserved_ranges().any(|range| range.contains(&value.number()));
        let has_name = new.reserved_names().any(|name| name == value.name());
        if let Some(change) = not_reserved(value.number(), value.name(), has_number, has_name) {
            self.report(value.full_name(), exemption, change);
        }
    }

    /// Compares the default value: the first value, or the one with number 0.
    fn default_value(
        &mut self,
        old: &EnumDescriptor,
        new: &EnumDescriptor,
        exemption: Option<Exemption>,
    ) {
        let (was, is) = (old.default_value(), new.default_value());
        let is_changed =
            new.get_value_by_name(was.name()).map_or_else(|| was.number(), |it| it.number())
                != is.number();
        if is_changed {
            let change = Change {
                rule: Rule::EnumDefaultChanged,
                description: format!("an unset field was `{}` and is `{}`", was.name(), is.name()),
                broken: Axes::from([Axis::Binary, Axis::Text]),
            };
            self.report(old.full_name(), exemption, change);
        }
    }

    fn new_value(
        &mut self,
        value: &EnumValueDescriptor,
        old: &EnumDescriptor,
        exemption: Option<Exemption>,
    ) {
        let has_number = old.reserved_ranges().any(|range| range.contains(&value.number()));
        let has_name = old.reserved_names().any(|name| name == value.name());
        for change in reserved_reuse(value.number(), has_number, has_name) {
            self.report(value.full_name(), exemption, change);
        }
    }
}

fn is_deprecated(enumeration: &EnumDescriptor) -> bool {
    let own =
        enumeration.enum_descriptor_proto().options.as_ref().is_some_and(|it| it.deprecated());
    let file = enumeration.parent_file();
    own || file.file_descriptor_proto().options.as_ref().is_some_and(|it| it.deprecated())
}
