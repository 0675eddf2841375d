//! Comparison of messages and their fields.

use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::changes::{moved, not_reserved, removed, reserved_reuse};
use super::fields::same_kind;
use super::{Axes, Axis, Change, Comparison, Exemption, Rule, in_progress, is_compared};

impl Comparison<'_> {
    pub(super) fn messages(&mut self) {
        for old in self.old.all_messages() {
            if old.is_map_entry() || !is_compared(&old.parent_file()) {
                continue;
            }
            let exemption = self.message_exemption(&old);
            let new_name = self.pairs.message(old.full_name()).to_owned();
            let Some(new) = self.new.get_message_by_name(&new_name) else {
                let broken = Axes::from([Axis::TypeUrl, Axis::Code]);
                let was_deprecated = is_deprecated(&old);
                let change = removed(Rule::MessageRemoved, was_deprecated, broken);
                self.report(old.full_name(), exemption, change);
                continue;
            };
            if new_name != old.full_name() {
                let broken = Axes::from([Axis::TypeUrl, Axis::Code]);
                let change = moved(Rule::MessageMoved, &new_name, broken);
                self.report(old.full_name(), exemption, change);
            }
            self.message(&old, &new, exemption);
        }
    }

    /// Returns the exemption of a message and its fields.
    pub(super) fn message_exemption(&self, message: &MessageDescriptor) -> Option<Exemption> {
        let [_, of_messages, _] = &self.work_in_progress;
        let own = || {
            message.descriptor_proto().options.as_ref()?;
            in_progress(&message.options(), of_messages)
        };
        let outer = || match message.parent_message() {
            Some(parent) => self.message_exemption(&parent),
            None => self.file_exemption(&message.parent_file()),
        };
        own().or_else(outer)
    }

    fn message(
        &mut self,
        old: &MessageDescriptor,
        new: &MessageDescriptor,
        exemption: Option<Exemption>,
    ) {
        for field in old.fields() {
            let exemption = exemption.or_else(|| self.field_exemption(&field));
            match self.successor(&field, old, new) {
                Successor::Same(successor) => {
                    self.field(&field, &successor, exemption);
                    self.old_number_reuse(&field, &successor, old, new, exemption);
                }
                Successor::Gone(new_owner) => {
                    self.field_gone(&field, new, new_owner.as_ref(), exemption);
                }
            }
        }
        for field in new.fields() {
            let is_known = old.get_field(field.number()).is_some()
                || old.get_field_by_name(field.name()).is_some();
            if !is_known {
                self.new_field(&field, old, exemption);
            }
        }
        self.message_constraints(old, new, exemption);
    }

    fn field_exemption(&self, field: &FieldDescriptor) -> Option<Exemption> {
        let [.., of_fields] = &self.work_in_progress;
        field.field_descriptor_proto().options.as_ref()?;
        in_progress(&field.options(), of_fields)
    }

    /// Returns the field that a field became, matched by name first and then by number.
    fn successor(
        &self,
        field: &FieldDescriptor,
        old: &MessageDescriptor,
        new: &MessageDescriptor,
    ) -> Successor {
        if let Some(same_name) = new.get_field_by_name(field.name()) {
            return Successor::Same(same_name);
        }
        match new.get_field(field.number()) {
            None => Successor::Gone(None),
            // A field with another name is the same field, unless that name existed before or its
            // type differs.
            Some(it)
                if old.get_field_by_name(it.name()).is_none()
                    && same_kind(field, &it, &self.pairs) =>
            {
                Successor::Same(it)
            }
            Some(it) => Successor::Gone(Some(it)),
        }
    }

    /// Reports a new field that uses the old number of a renumbered field.
    fn old_number_reuse(
        &mut self,
        field: &FieldDescriptor,
        successor: &FieldDescriptor,
        old: &MessageDescriptor,
        new: &MessageDescriptor,
        exemption: Option<Exemption>,
    ) {
        if let Some(new_field) = new.get_field(field.number())
            && new_field.number() != successor.number()
            && old.get_field_by_name(new_field.name()).is_none()
        {
            self.report(field.full_name(), exemption, number_reused(field, &new_field));
        }
    }

    fn field_gone(
        &mut self,
        field: &FieldDescriptor,
        new: &MessageDescriptor,
        new_owner: Option<&FieldDescriptor>,
        exemption: Option<Exemption>,
    ) {
        if let Some(new_field) = new_owner {
            self.report(field.full_name(), exemption, number_reused(field, new_field));
            return;
        }
        let deprecated =
            field.field_descriptor_proto().options.as_ref().is_some_and(|it| it.deprecated());
        let was_deprecated = deprecated || is_deprecated(field.parent_message());
        // Binary readers skip the value of a removed field. Text readers reject its name.
        let broken = Axes::from([Axis::Text, Axis::Code]);
        self.report(
            field.full_name(),
            exemption,
            removed(Rule::FieldRemoved, was_deprecated, broken),
        );
        let has_number = new.reserved_ranges().any(|range| range.contains(&field.number()));
        let has_name = new.reserved_names().any(|name| name == field.name());
        if let Some(change) = not_reserved(field.number(), field.name(), has_number, has_name) {
            self.report(field.full_name(), exemption, change);
        }
    }

    fn new_field(
        &mut self,
        field: &FieldDescriptor,
        old: &MessageDescriptor,
        exemption: Option<Exemption>,
    ) {
        let has_number = old.reserved_ranges().any(|range| range.contains(&field.number()));
        let has_name = old.reserved_names().any(|name| name == field.name());
        for change in reserved_reuse(field.number(), has_number, has_name) {
            self.report(field.full_name(), exemption, change);
        }
        if let Some(change) = self.cannot_be_left_out(field) {
            self.report(field.full_name(), exemption, change);
        }
        if field.cardinality() == prost_reflect::Cardinality::Required {
            let change = Change {
                rule: Rule::FieldRequiredChanged,
                description: "is new and required".to_owned(),
                broken: Axes::from([Axis::Binary, Axis::Text]),
            };
            self.report(field.full_name(), exemption, change);
        }
    }
}

enum Successor {
    /// A field of the new schema that is the same field, possibly changed.
    Same(FieldDescriptor),
    /// No field. Another field may have its number.
    Gone(Option<FieldDescriptor>),
}

fn is_deprecated(message: &MessageDescriptor) -> bool {
    let own = message.descriptor_proto().options.as_ref().is_some_and(|it| it.deprecated());
    let file = message.parent_file();
    own || file.file_descriptor_proto().options.as_ref().is_some_and(|it| it.deprecated())
}

fn number_reused(field: &FieldDescriptor, new_field: &FieldDescriptor) -> Change {
    let shown =
        |it: &FieldDescriptor| format!("`{}` ({})", it.name(), super::kinds::name(&it.kind()));
    Change {
        rule: Rule::NumberReused,
        description: format!(
            "number {} was {} and is {}",
            field.number(),
            shown(field),
            shown(new_field)
        ),
        broken: Axes::from([Axis::Binary, Axis::Text, Axis::Code, Axis::Policy]),
    }
}
