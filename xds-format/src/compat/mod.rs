//! Two versions of a schema against each other: what breaks for those who have the other one.

mod changes;
mod enums;
mod fields;
mod finding;
mod kinds;
mod messages;
mod pairs;
mod services;

pub use finding::{Axes, Axis, Break, Exemption, Rule};

use prost_reflect::{DescriptorPool, DynamicMessage, ExtensionDescriptor, FileDescriptor};

use self::pairs::Pairs;
use crate::schema::Schema;
use crate::validate::Options;

/// What breaks between an old schema and a new one, for somebody who has either.
///
/// A message produced for one version is to be consumable by an implementation of the other, in
/// both directions (S4.036). That it is so on the wire is necessary, not sufficient (S4.057), so
/// each finding says on which [axes](Axis) it breaks something. Additions break nobody (S4.043).
///
/// A definition that has another full name is recognised, by the annotation that names its
/// predecessor or by what it is made of, and its parts are compared all the same. What an old
/// element had been marked as, alpha or work in progress, exempts the finding (B16). A feature that
/// is young enough to be exempt, and what a comment says, cannot be seen in a descriptor set.
/// Extensions (`extend`) are not compared, and neither is what descriptor sets bring along for the
/// compiler: `google.protobuf`, `google.api`, `validate` and packages of annotations.
///
/// The findings are in the order of elements, then of rules.
#[must_use]
pub fn compare(old: &Schema, new: &Schema) -> Vec<Break> {
    let mut comparison = Comparison::new(old, new);
    comparison.messages();
    comparison.enums();
    comparison.services();
    comparison.files();
    let mut found = comparison.found;
    found.sort_by(|a, b| (&a.element, a.rule, &a.change).cmp(&(&b.element, b.rule, &b.change)));
    found
}

/// Both schemas, and what was found so far.
struct Comparison<'p> {
    old: &'p DescriptorPool,
    new: &'p DescriptorPool,
    new_schema: &'p Schema,
    pairs: Pairs,
    old_options: Options,
    new_options: Options,
    /// `google.api.http`, of either schema.
    http: [Option<ExtensionDescriptor>; 2],
    /// The annotations that something is work in progress: of files, messages and fields.
    work_in_progress: [Vec<ExtensionDescriptor>; 3],
    found: Vec<Break>,
}

/// A change before it is known whether something exempts it.
struct Change {
    rule: Rule,
    words: String,
    broken: Axes,
}

impl<'p> Comparison<'p> {
    fn new(old: &'p Schema, new_schema: &'p Schema) -> Self {
        let (old, new) = (old.pool(), new_schema.pool());
        let statuses = |name| {
            let packages = ["xds.annotations.v3", "udpa.annotations"];
            let names = packages.map(|package| format!("{package}.{name}"));
            names.iter().filter_map(|name| old.get_extension_by_name(name)).collect()
        };
        Self {
            old,
            new,
            new_schema,
            pairs: Pairs::new(old, new),
            old_options: Options::of(old),
            new_options: Options::of(new),
            http: [old, new].map(|pool| pool.get_extension_by_name("google.api.http")),
            work_in_progress: ["file_status", "message_status", "field_status"].map(statuses),
            found: Vec::new(),
        }
    }

    fn report(&mut self, element: &str, exemption: Option<Exemption>, change: Change) {
        let Change { rule, words, broken } = change;
        let element = element.to_owned();
        self.found.push(Break { element, rule, change: words, broken, exemption });
    }

    /// What exempts everything in a file.
    fn file_exemption(&self, file: &FileDescriptor) -> Option<Exemption> {
        let is_alpha = |part: &str| {
            let digits = part.strip_prefix('v').and_then(|rest| rest.split_once("alpha"));
            digits.is_some_and(|(number, _)| {
                !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
            })
        };
        if file.package_name().split('.').any(is_alpha) {
            return Some(Exemption::Alpha);
        }
        file.file_descriptor_proto().options.as_ref()?;
        let [of_files, ..] = &self.work_in_progress;
        in_progress(&file.options(), of_files)
    }

    /// Definitions that stand in another file although they are called the same: generated code is
    /// included by file (S4.060).
    fn files(&mut self) {
        for file in self.old.files() {
            if !is_compared(&file) {
                continue;
            }
            let messages = file.messages().map(|it| {
                (
                    self.new.get_message_by_name(it.full_name()).map(|it| it.parent_file()),
                    it.full_name().to_owned(),
                )
            });
            let enums = file.enums().map(|it| {
                (
                    self.new.get_enum_by_name(it.full_name()).map(|it| it.parent_file()),
                    it.full_name().to_owned(),
                )
            });
            let services = file.services().map(|it| {
                (
                    self.new.get_service_by_name(it.full_name()).map(|it| it.parent_file()),
                    it.full_name().to_owned(),
                )
            });
            let moved: Vec<_> = messages
                .chain(enums)
                .chain(services)
                .filter_map(|(new_file, element)| Some((new_file?.name().to_owned(), element)))
                .filter(|(new_file, _)| new_file != file.name())
                .collect();
            let exemption = self.file_exemption(&file);
            let change = |old: &str, new: &str| Change {
                rule: Rule::FileMoved,
                words: format!("stands in `{new}`, not in `{old}`"),
                broken: Axes::from([Axis::Code]),
            };
            // Of a file that is gone it is enough to say so once.
            if self.new.get_file_by_name(file.name()).is_none() {
                if let Some((new_file, _)) = moved.first() {
                    let change = Change {
                        words: format!("is now `{new_file}`"),
                        ..change(file.name(), new_file)
                    };
                    self.report(file.name(), exemption, change);
                }
                continue;
            }
            for (new_file, element) in &moved {
                self.report(element, exemption, change(file.name(), new_file));
            }
        }
    }
}

/// Whether a file is part of somebody's API. Sets repeat what their files import, and what they
/// import changes with the options that they use.
fn is_compared(file: &FileDescriptor) -> bool {
    let package = file.package_name();
    !matches!(package, "google.protobuf" | "google.api" | "validate")
        && !package.split('.').any(|part| part == "annotations")
}

fn in_progress(options: &DynamicMessage, statuses: &[ExtensionDescriptor]) -> Option<Exemption> {
    let is_set = |status: &ExtensionDescriptor| {
        let status = options.get_extension(status);
        let flag = status.as_message().and_then(|it| it.get_field_by_name("work_in_progress"));
        flag.and_then(|flag| flag.as_bool()) == Some(true)
    };
    statuses.iter().any(is_set).then_some(Exemption::WorkInProgress)
}
