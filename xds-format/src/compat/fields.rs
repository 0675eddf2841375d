//! Comparison of fields.

use prost_reflect::{Cardinality, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};

use super::kinds::{Retype, name, retyped};
use super::pairs::Pairs;
use super::{Axes, Axis, Change, Comparison, Exemption, Rule};
use crate::validate::{refuses_absence, tightened};

impl Comparison<'_> {
    pub(super) fn field(
        &mut self,
        old: &FieldDescriptor,
        new: &FieldDescriptor,
        exemption: Option<Exemption>,
    ) {
        let changes = [
            renumbered(old, new),
            renamed(old, new),
            self.retype(old, new),
            shape(old, new),
            self.oneof(old, new),
            presence(old, new),
            default(old, new),
            self.constraints(old, new),
        ];
        for change in changes.into_iter().flatten() {
            self.report(old.full_name(), exemption, change);
        }
    }

    fn retype(&self, old: &FieldDescriptor, new: &FieldDescriptor) -> Option<Change> {
        if old.is_map() != new.is_map() {
            return None;
        }
        let (old_type, new_type) = (type_of(old), type_of(new));
        let Retype { same_bytes, same_text } = retype_of(old, new, &self.pairs)?;
        let rule = if same_bytes { Rule::FieldRetypedCompatibly } else { Rule::FieldRetyped };
        let broken = Axes::from([Axis::Code])
            .with_if(!same_bytes, Axis::Binary)
            .with_if(!same_text, Axis::Text);
        let description = format!("type {old_type} is now {new_type}");
        Some(Change { rule, description, broken })
    }

    fn oneof(&self, old: &FieldDescriptor, new: &FieldDescriptor) -> Option<Change> {
        let (was, is) = (oneof_of(old), oneof_of(new));
        // Fields that become mutually exclusive, or cease to be. Only fields of the old message
        // count.
        let old_message = old.parent_message();
        let companions = |oneof: &OneofDescriptor, other: &MessageDescriptor, self_name: &str| {
            oneof
                .fields()
                .filter(|it| it.name() != self_name)
                .filter_map(|it| {
                    other.get_field_by_name(it.name()).or_else(|| other.get_field(it.number()))
                })
                .collect::<Vec<_>>()
        };
        let everything = Axes::from([Axis::Binary, Axis::Text, Axis::Code]);
        match (was, is) {
            (None, None) => None,
            (None, Some(is)) => {
                let others = companions(&is, old_message, new.name());
                Some(match others.as_slice() {
                    [] => Change {
                        rule: Rule::FieldIntoOneof,
                        description: format!("moved into the oneof `{}`", is.name()),
                        broken: Axes::from([Axis::Code]),
                    },
                    [other, ..] => joined(&is, other, everything),
                })
            }
            (Some(was), None) => {
                let others = companions(&was, new.parent_message(), old.name());
                Some(Change {
                    rule: Rule::FieldOutOfOneof,
                    description: format!("moved out of the oneof `{}`", was.name()),
                    broken: if others.is_empty() { Axes::from([Axis::Code]) } else { everything },
                })
            }
            (Some(was), Some(is)) => {
                let other = companions(&is, old_message, new.name())
                    .into_iter()
                    .find(|it| oneof_of(it).is_none_or(|it| it.name() != was.name()));
                if let Some(other) = other {
                    return Some(joined(&is, &other, everything));
                }
                (was.name() != is.name()).then(|| Change {
                    rule: Rule::OneofRenamed,
                    description: format!("the oneof `{}` is now `{}`", was.name(), is.name()),
                    broken: Axes::from([Axis::Code]),
                })
            }
        }
    }

    fn constraints(&self, old: &FieldDescriptor, new: &FieldDescriptor) -> Option<Change> {
        // An invalid constraint counts as none: `Validator` reports it.
        let old = self.old_options.field(old).ok().flatten().unwrap_or_default();
        let new = self.new_options.field(new).ok().flatten();
        tightening(&tightened(&old, &new.unwrap_or_default()))
    }

    /// Reports a new field with a constraint that rejects its absence. Writers of the old version
    /// do not set it.
    pub(super) fn cannot_be_left_out(&self, field: &FieldDescriptor) -> Option<Change> {
        let rules = self.new_options.field(field).ok().flatten()?;
        refuses_absence(self.new_schema, field, &rules).then(|| Change {
            rule: Rule::ConstraintTightened,
            description: "is new, and a constraint requires it".to_owned(),
            broken: Axes::from([Axis::Validation]),
        })
    }

    /// Compares the constraints on a message or on one of its oneofs.
    pub(super) fn message_constraints(
        &mut self,
        old: &MessageDescriptor,
        new: &MessageDescriptor,
        exemption: Option<Exemption>,
    ) {
        let required = |oneof: &OneofDescriptor| {
            let before = old.oneofs().find(|it| it.name() == oneof.name());
            self.new_options.requires(oneof)
                && !before.is_some_and(|it| self.old_options.requires(&it))
        };
        let mut rules: Vec<_> = new
            .oneofs()
            .filter(required)
            .map(|oneof| format!("{}.required", oneof.name()))
            .collect();
        if self.old_options.disables(old) && !self.new_options.disables(new) {
            rules.push("disabled".to_owned());
        }
        if let Some(change) = tightening(&rules) {
            self.report(old.full_name(), exemption, change);
        }
    }
}

fn tightening(rules: &[String]) -> Option<Change> {
    (!rules.is_empty()).then(|| Change {
        rule: Rule::ConstraintTightened,
        description: format!(
            "the constraint {} rejects values that were allowed",
            rules.join(", ")
        ),
        broken: Axes::from([Axis::Validation]),
    })
}

fn joined(oneof: &OneofDescriptor, other: &FieldDescriptor, broken: Axes) -> Change {
    Change {
        rule: Rule::FieldsJoinedInOneof,
        description: format!("excludes `{}` in the oneof `{}`", other.name(), oneof.name()),
        broken,
    }
}

/// Whether two fields have the same type and are both singular, repeated or maps.
pub(super) fn same_kind(old: &FieldDescriptor, new: &FieldDescriptor, pairs: &Pairs) -> bool {
    old.is_map() == new.is_map()
        && old.is_list() == new.is_list()
        && retype_of(old, new, pairs).is_none()
}

/// Returns the change of type. For maps, it covers the key and value types.
fn retype_of(old: &FieldDescriptor, new: &FieldDescriptor, pairs: &Pairs) -> Option<Retype> {
    let (Some((old_key, old_value)), Some((new_key, new_value))) = (entry_of(old), entry_of(new))
    else {
        return retyped(old, new, pairs);
    };
    let retypes = [retyped(&old_key, &new_key, pairs), retyped(&old_value, &new_value, pairs)];
    retypes.into_iter().flatten().reduce(|one, other| Retype {
        same_bytes: one.same_bytes && other.same_bytes,
        same_text: one.same_text && other.same_text,
    })
}

fn entry_of(field: &FieldDescriptor) -> Option<(FieldDescriptor, FieldDescriptor)> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            Some((entry.map_entry_key_field(), entry.map_entry_value_field()))
        }
        _ => None,
    }
}

/// Formats a type as in a .proto file.
fn type_of(field: &FieldDescriptor) -> String {
    match entry_of(field) {
        Some((key, value)) => format!("map<{}, {}>", name(&key.kind()), name(&value.kind())),
        None => name(&field.kind()),
    }
}

/// Returns the oneof of a field. A synthetic oneof, which a proto3 `optional` field has in its
/// descriptor, does not count.
fn oneof_of(field: &FieldDescriptor) -> Option<OneofDescriptor> {
    field.containing_oneof().filter(|oneof| !oneof.is_synthetic())
}

fn renumbered(old: &FieldDescriptor, new: &FieldDescriptor) -> Option<Change> {
    (old.number() != new.number()).then(|| Change {
        rule: Rule::FieldRenumbered,
        description: format!("number {} is now {}", old.number(), new.number()),
        broken: Axes::from([Axis::Binary]),
    })
}

fn renamed(old: &FieldDescriptor, new: &FieldDescriptor) -> Option<Change> {
    if old.name() != new.name() {
        return Some(Change {
            rule: Rule::FieldRenamed,
            description: format!("is now called `{}`", new.name()),
            broken: Axes::from([Axis::Text, Axis::Code]),
        });
    }
    (old.json_name() != new.json_name()).then(|| Change {
        rule: Rule::FieldJsonNameChanged,
        description: format!("`{}` in JSON is now `{}`", old.json_name(), new.json_name()),
        broken: Axes::from([Axis::Text]),
    })
}

/// Compares whether the fields are singular, repeated or maps.
fn shape(old: &FieldDescriptor, new: &FieldDescriptor) -> Option<Change> {
    let names = Axes::from([Axis::Text, Axis::Code]);
    let (was_list, is_list) = (old.is_list() || old.is_map(), new.is_list() || new.is_map());
    if old.is_map() != new.is_map() {
        let shown = |field: &FieldDescriptor| {
            let many = if field.is_list() { "repeated " } else { "" };
            format!("{many}{}", type_of(field))
        };
        return Some(Change {
            rule: Rule::FieldMapChanged,
            description: format!("{} is now {}", shown(old), shown(new)),
            broken: names.with_if(!(was_list && is_list && same_entries(old, new)), Axis::Binary),
        });
    }
    match (was_list, is_list) {
        (false, true) => {
            let is_packed = new.is_packed();
            Some(Change {
                rule: Rule::FieldToRepeated,
                description: if is_packed {
                    "is now repeated, and packed".to_owned()
                } else {
                    "is now repeated".to_owned()
                },
                // A reader that expects one number cannot decode several packed ones.
                broken: names.with_if(is_packed, Axis::Binary),
            })
        }
        (true, false) => Some(Change {
            rule: Rule::FieldToSingular,
            description: "is no longer repeated".to_owned(),
            broken: names.with(Axis::Binary),
        }),
        _ => None,
    }
}

/// Whether the entries of a map and the messages of a list have the same encoding.
fn same_entries(one: &FieldDescriptor, other: &FieldDescriptor) -> bool {
    let (Kind::Message(one), Kind::Message(other)) = (one.kind(), other.kind()) else {
        return false;
    };
    [1, 2].into_iter().all(|number| {
        let kinds = one.get_field(number).zip(other.get_field(number));
        kinds.is_some_and(|(one, other)| one.kind() == other.kind())
    })
}

fn presence(old: &FieldDescriptor, new: &FieldDescriptor) -> Option<Change> {
    let is_required = |field: &FieldDescriptor| field.cardinality() == Cardinality::Required;
    if is_required(old) != is_required(new) {
        let description =
            if is_required(new) { "is now required" } else { "is no longer required" };
        return Some(Change {
            rule: Rule::FieldRequiredChanged,
            description: description.to_owned(),
            broken: Axes::from([Axis::Binary, Axis::Text]),
        });
    }
    let is_single = |field: &FieldDescriptor| {
        !field.is_list()
            && !field.is_map()
            && oneof_of(field).is_none()
            && !matches!(field.kind(), Kind::Message(_))
    };
    let changes =
        is_single(old) && is_single(new) && old.supports_presence() != new.supports_presence();
    changes.then(|| Change {
        rule: Rule::FieldPresenceChanged,
        description: if new.supports_presence() {
            "now has explicit presence".to_owned()
        } else {
            "no longer has explicit presence".to_owned()
        },
        broken: Axes::from([Axis::Code]),
    })
}

fn default(old: &FieldDescriptor, new: &FieldDescriptor) -> Option<Change> {
    let default = |field: &FieldDescriptor| field.field_descriptor_proto().default_value.clone();
    let (was, is) = (default(old), default(new));
    let shown =
        |it: &Option<String>| it.as_ref().map_or_else(|| "none".to_owned(), |it| format!("`{it}`"));
    (was != is).then(|| Change {
        rule: Rule::FieldDefaultChanged,
        description: format!("default {} is now {}", shown(&was), shown(&is)),
        broken: Axes::from([Axis::Binary, Axis::Text]),
    })
}
