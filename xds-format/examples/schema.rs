//! Prints the definitions of the schema as JSON lines. Usage: `schema [PACKAGE]...`. With packages,
//! only their definitions and those of the packages below them.

#[cfg(feature = "envoy")]
fn main() {
    print::all(&std::env::args().skip(1).collect::<Vec<_>>());
}

#[cfg(not(feature = "envoy"))]
fn main() {}

#[cfg(feature = "envoy")]
mod print {
    use prost_reflect::prost::Message as _;
    use prost_reflect::{
        DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor,
    };
    use serde_json::{Value as Json, json};
    use xds_format::Schema;

    pub(crate) fn all(packages: &[String]) {
        let is_wanted = |package: &str| {
            let is_in = |root: &String| {
                package
                    .strip_prefix(root.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            packages.is_empty() || packages.iter().any(is_in)
        };
        let pool = Schema::envoy().pool();
        let messages = pool.all_messages().filter(|it| is_wanted(it.package_name()));
        let enums = pool.all_enums().filter(|it| is_wanted(it.package_name()));
        let mut lines: Vec<_> =
            messages.map(|it| message(&it)).chain(enums.map(|it| enumeration(&it))).collect();
        lines.sort_by_key(|line| line["name"].to_string());
        for line in lines {
            println!("{line}");
        }
    }

    fn message(message: &MessageDescriptor) -> Json {
        json!({
            "name": message.full_name(),
            "fields": message.fields().map(|it| field(&it)).collect::<Vec<_>>(),
            "oneofs": message.oneofs().map(|it| oneof(&it)).collect::<Vec<_>>(),
        })
    }

    fn field(field: &FieldDescriptor) -> Json {
        let kind = match field.kind() {
            Kind::Message(message) => message.full_name().to_owned(),
            Kind::Enum(enumeration) => enumeration.full_name().to_owned(),
            scalar => format!("{scalar:?}").to_lowercase(),
        };
        let oneof = field.containing_oneof().map(|it| it.name().to_owned());
        json!({
            "number": field.number(),
            "name": field.name(),
            "json_name": field.json_name(),
            "type": kind,
            "repeated": field.is_list() || field.is_map(),
            "presence": field.supports_presence(),
            "oneof": oneof,
            "options": options(&field.options()),
        })
    }

    fn oneof(oneof: &OneofDescriptor) -> Json {
        json!({ "name": oneof.name(), "options": options(&oneof.options()) })
    }

    fn enumeration(enumeration: &EnumDescriptor) -> Json {
        let values =
            enumeration.values().map(|it| json!({ "number": it.number(), "name": it.name() }));
        json!({ "name": enumeration.full_name(), "values": values.collect::<Vec<_>>() })
    }

    /// Encodes options, such as validation constraints, in hexadecimal.
    fn options(options: &DynamicMessage) -> String {
        options.encode_to_vec().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
