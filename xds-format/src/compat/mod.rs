//! Comparison of two versions of a schema for breaking changes.

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

/// Returns the changes between two schemas that break users of either version.
///
/// Messages of one version should be usable by implementations of the other, in both directions.
/// Wire compatibility is necessary but not sufficient, so each finding lists the [axes](Axis) on
/// which the change is breaking. Additions are not breaking.
///
/// A definition with another full name is recognised by the annotation with its previous name, or
/// by its content, and its parts are compared too. A finding is exempt if the old element was
/// marked as alpha or work in progress. Exemptions based on the age of a feature or on comments do
/// not apply, because a descriptor set does not contain them. Extensions (`extend`) are not
/// compared, nor are the packages that descriptor sets contain for the compiler: `google.protobuf`,
/// `google.api`, `validate` and annotation packages.
///
/// The findings are sorted by element, then by rule.
// S4.036, S4.043, S4.057, B16
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

/// The two schemas, and the findings so far.
struct Comparison<'p> {
    old: &'p DescriptorPool,
    new: &'p DescriptorPool,
    new_schema: &'p Schema,
    pairs: Pairs,
    old_options: Options,
    new_options: Options,
    /// Extension `google.api.http` of the old and the new schema.
    http: [Option<ExtensionDescriptor>; 2],
    /// Work-in-progress annotations of files, messages and fields.
    work_in_progress: [Vec<ExtensionDescriptor>; 3],
    found: Vec<Break>,
}

/// A change before exemptions are applied.
struct Change {
    rule: Rule,
    description: String,
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
        let Change { rule, description, broken } = change;
        let element = element.to_owned();
        self.found.push(Break { element, rule, change: description, broken, exemption });
    }

    /// Returns the exemption of a file and its definitions.
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

    /// Reports definitions that moved to another file under the same full name. Generated code is
    /// included by file.
    // S4.060
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
                description: format!("moved from `{old}` to `{new}`"),
                broken: Axes::from([Axis::Code]),
            };
            // A removed file is reported only once.
            if self.new.get_file_by_name(file.name()).is_none() {
                if let Some((new_file, _)) = moved.first() {
                    let change = Change {
                        description: format!("is now `{new_file}`"),
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

/// Whether a file is part of an API. Descriptor sets include imports, and the imports of options
/// change with their use.
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
