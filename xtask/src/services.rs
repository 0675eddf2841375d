//! Table of the discovery services of `proto/`: the type that each serves, and the paths of its
//! methods over gRPC and HTTP, all taken from the annotations of the schema.
// S4.023, S4.024

use std::fmt::Write as _;

use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, MethodDescriptor, ServiceDescriptor, Value,
};

use crate::repository::error::Error;

/// Discovery service. The path of a missing method is empty.
#[derive(Debug, Default, PartialEq, Eq)]
struct Service {
    name: String,
    /// API version: `V2` or `V3`.
    api: &'static str,
    /// Type URL; empty for the aggregated service.
    type_url: String,
    stream: String,
    delta: String,
    fetch: String,
    rest: String,
}

/// Generates the table as Rust code, with the services sorted by name.
pub(crate) fn table(pool: &DescriptorPool) -> Result<String, Error> {
    let extension = |name| {
        pool.get_extension_by_name(name)
            .ok_or_else(|| Error::Annotation { name: String::from(name) })
    };
    let (http, resource) =
        (extension("google.api.http")?, extension("envoy.annotations.resource")?);
    let mut services: Vec<Service> = pool
        .services()
        .filter(|service| service.methods().any(|method| is_delta(&method)))
        .map(|service| read(&service, &http, &resource))
        .collect();
    services.sort_by(|one, other| one.name.cmp(&other.name));

    let mut text = String::from(
        "use crate::service::ApiVersion;\n\n\
         /// Discovery service with the paths of its methods. The path of a missing method is empty.\n\
         pub(crate) struct Service {\n    \
         /// Fully qualified name of the service.\n    pub(crate) name: &'static str,\n    \
         /// API version of the service.\n    pub(crate) api: ApiVersion,\n    \
         /// Type URL of the resources. `None` for the aggregated service.\n    pub(crate) type_url: Option<&'static str>,\n    \
         /// Path of the state-of-the-world stream method.\n    pub(crate) stream: &'static str,\n    \
         /// Path of the incremental stream method.\n    pub(crate) delta: &'static str,\n    \
         /// Path of the unary fetch method.\n    pub(crate) fetch: &'static str,\n    \
         /// Path of the fetch method over plain HTTP.\n    pub(crate) rest: &'static str,\n}\n\n",
    );
    let _ = writeln!(text, "pub(crate) const SERVICES: [Service; {}] = [", services.len());
    for Service { name, api, type_url, stream, delta, fetch, rest } in &services {
        let type_url = match type_url.as_str() {
            "" => String::from("None"),
            known => format!("Some({known:?})"),
        };
        let _ = write!(
            text,
            "    Service {{\n        name: {name:?},\n        api: ApiVersion::{api},\n        type_url: {type_url},\n        \
             stream: {stream:?},\n        delta: {delta:?},\n        fetch: {fetch:?},\n        \
             rest: {rest:?},\n    }},\n"
        );
    }
    text += "];\n";
    Ok(text)
}

fn read(
    service: &ServiceDescriptor,
    http: &ExtensionDescriptor,
    resource: &ExtensionDescriptor,
) -> Service {
    let annotation = string_in(&service.options(), resource, "type");
    let mut found = Service {
        name: service.full_name().to_owned(),
        api: if service.full_name().contains(".v2.") { "V2" } else { "V3" },
        type_url: annotation.map(|name| format!("type.googleapis.com/{name}")).unwrap_or_default(),
        ..Service::default()
    };
    for method in service.methods() {
        let path = format!("/{}/{}", service.full_name(), method.name());
        match (method.is_client_streaming(), is_delta(&method)) {
            (true, true) => found.delta = path,
            (true, false) => found.stream = path,
            (false, _) => {
                found.fetch = path;
                found.rest = string_in(&method.options(), http, "post").unwrap_or_default();
            }
        }
    }
    found
}

fn is_delta(method: &MethodDescriptor) -> bool {
    method.is_client_streaming() && method.input().name() == "DeltaDiscoveryRequest"
}

/// Returns a string field of the message in an option.
fn string_in(
    options: &DynamicMessage,
    extension: &ExtensionDescriptor,
    field: &str,
) -> Option<String> {
    if !options.has_extension(extension) {
        return None;
    }
    let Value::Message(message) = options.get_extension(extension).into_owned() else {
        return None;
    };
    let text = message.get_field_by_name(field)?.as_str()?.to_owned();
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_service_has_a_type_and_is_found_by_both_path_kinds() {
        let text = crate::codegen::generated("services.rs");
        for line in [
            "stream: \"/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters\"",
            "type_url: Some(\"type.googleapis.com/envoy.config.cluster.v3.Cluster\")",
            "rest: \"/v3/discovery:scoped-routes\"",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert_eq!(text.matches("type_url: None").count(), 2, "the aggregated one of each version");
        // Services without an annotation have no path; paths contain the API version (X44).
        let blocks: Vec<_> = text.split("    Service {").skip(1).collect();
        for block in &blocks {
            let has_none = ["Aggregated", "VirtualHost"].iter().any(|it| block.contains(it));
            let rest = match block.contains("ApiVersion::V2") {
                _ if has_none => "rest: \"\"",
                true => "rest: \"/v2/discovery:",
                false => "rest: \"/v3/discovery:",
            };
            assert!(block.contains(rest), "{rest} is not in\n{block}");
        }
        // Extension configs have a service only in version 3.
        assert_eq!(blocks.len(), 10 + 9);
        println!("covers: S4.013 S4.014 S4.021 S4.023 S4.024 S4.059 B17 X44");
    }
}
