//! Matching of definitions whose full name changed.
//!
//! Each message, enum or service that is only in the old schema is matched with one that is only in
//! the new schema. The criteria, in order: the new message names its predecessor in
//! `udpa.annotations.versioning`; both have the same name in different packages and at least half
//! of the parts in common; both have the same scope and exactly the same parts.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{DescriptorPool, MessageDescriptor};

/// New full names by old full name, for definitions whose names differ.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    messages: BTreeMap<String, String>,
    enums: BTreeMap<String, String>,
    services: BTreeMap<String, String>,
}

/// The properties of a definition that are used for matching.
struct Definition {
    full_name: String,
    package: String,
    /// Fields, enum values or methods.
    parts: BTreeSet<String>,
    /// Previous name, from its annotation.
    previous: Option<String>,
}

impl Pairs {
    pub(crate) fn new(old: &DescriptorPool, new: &DescriptorPool) -> Self {
        Self {
            messages: paired(messages(old), messages(new)),
            enums: paired(enums(old), enums(new)),
            services: paired(services(old), services(new)),
        }
    }

    /// Returns the full name of a message in the new schema.
    pub(crate) fn message<'n>(&'n self, old: &'n str) -> &'n str {
        self.messages.get(old).map_or(old, String::as_str)
    }

    /// Returns the full name of a service in the new schema.
    pub(crate) fn service<'n>(&'n self, old: &'n str) -> &'n str {
        self.services.get(old).map_or(old, String::as_str)
    }

    /// Returns the full name of an enum in the new schema.
    pub(crate) fn enumeration<'n>(&'n self, old: &'n str) -> &'n str {
        self.enums.get(old).map_or(old, String::as_str)
    }
}

fn paired(old: Vec<Definition>, new: Vec<Definition>) -> BTreeMap<String, String> {
    let names = |list: &[Definition]| -> BTreeSet<String> {
        list.iter().map(|it| it.full_name.clone()).collect()
    };
    let (old_names, new_names) = (names(&old), names(&new));
    let removed: Vec<_> = old.iter().filter(|it| !new_names.contains(&it.full_name)).collect();
    let mut added: Vec<_> = new.iter().filter(|it| !old_names.contains(&it.full_name)).collect();

    let mut pairs = BTreeMap::new();
    for likeness in [by_annotation, by_name, by_parts] {
        for removed in &removed {
            if pairs.contains_key(&removed.full_name) {
                continue;
            }
            let best = added
                .iter()
                .enumerate()
                .filter_map(|(index, added)| Some((likeness(removed, added)?, index)))
                // Ties go to the first.
                .max_by_key(|(likeness, index)| (*likeness, core::cmp::Reverse(*index)));
            if let Some((_, index)) = best {
                pairs.insert(removed.full_name.clone(), added.remove(index).full_name.clone());
            }
        }
    }
    pairs
}

/// Matches definitions by annotation. Returns a score if they match.
fn by_annotation(old: &Definition, new: &Definition) -> Option<usize> {
    (new.previous.as_ref() == Some(&old.full_name)).then_some(0)
}

fn by_name(old: &Definition, new: &Definition) -> Option<usize> {
    let common = old.parts.intersection(&new.parts).count();
    let is_like_it = common * 2 >= old.parts.len().min(new.parts.len());
    (old.relative_name() == new.relative_name() && is_like_it).then_some(common)
}

fn by_parts(old: &Definition, new: &Definition) -> Option<usize> {
    (old.scope() == new.scope() && !old.parts.is_empty() && old.parts == new.parts).then_some(0)
}

impl Definition {
    /// Returns the name without its package.
    fn relative_name(&self) -> &str {
        let rest = self.full_name.strip_prefix(&self.package).unwrap_or(&self.full_name);
        rest.strip_prefix('.').unwrap_or(rest)
    }

    /// Returns the name without its last part.
    fn scope(&self) -> &str {
        self.full_name.rsplit_once('.').map_or("", |(scope, _)| scope)
    }
}

fn messages(pool: &DescriptorPool) -> Vec<Definition> {
    let previous = |message: &MessageDescriptor| {
        let versioning = pool.get_extension_by_name("udpa.annotations.versioning")?;
        message.descriptor_proto().options.as_ref()?;
        let options = message.options();
        let annotation = options.get_extension(&versioning);
        let name = annotation.as_message()?.get_field_by_name("previous_message_type")?;
        name.as_str().filter(|name| !name.is_empty()).map(str::to_owned)
    };
    pool.all_messages()
        .filter(|message| !message.is_map_entry())
        .map(|message| Definition {
            full_name: message.full_name().to_owned(),
            package: message.package_name().to_owned(),
            parts: message
                .fields()
                .map(|field| format!("{} {}", field.number(), field.name()))
                .collect(),
            previous: previous(&message),
        })
        .collect()
}

fn enums(pool: &DescriptorPool) -> Vec<Definition> {
    pool.all_enums()
        .map(|it| Definition {
            full_name: it.full_name().to_owned(),
            package: it.package_name().to_owned(),
            parts: it
                .values()
                .map(|value| format!("{} {}", value.number(), value.name()))
                .collect(),
            previous: None,
        })
        .collect()
}

fn services(pool: &DescriptorPool) -> Vec<Definition> {
    pool.services()
        .map(|it| Definition {
            full_name: it.full_name().to_owned(),
            package: it.package_name().to_owned(),
            parts: it.methods().map(|method| method.name().to_owned()).collect(),
            previous: None,
        })
        .collect()
}
