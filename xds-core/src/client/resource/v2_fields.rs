//! Conversion of API version 2 resources to version 3.
//!
//! Both versions have the same encoding, and their types differ only in the type URL, except that a
//! version 2 resource may use a field that version 3 has removed. Decoding would silently ignore it
//! as an unknown field, so the resource is rejected. The tables below list these fields. An `Any`
//! inside a resource is not checked.
// S4.008-S4.011, S4.051

use alloc::string::String;

use crate::{
    types,
    wire::{
        resource::RawResource,
        walk::{FieldValue, Fields},
    },
};

/// Result of checking a resource whose type URL is not the expected one.
#[derive(Debug)]
pub(crate) enum V2Check {
    /// Version 2 of the expected type, compatible with version 3.
    Compatible,
    /// Version 2 of the expected type, with something that version 3 has removed.
    Incompatible(String),
    /// Other type.
    Other,
}

/// Checks a resource where one of type `type_url` is expected.
pub(crate) fn check(raw: &RawResource<'_>, type_url: &str) -> V2Check {
    match types::v2_type_url(type_url) {
        Some(older) if older.as_bytes() == raw.type_url => {}
        _ => return V2Check::Other,
    }
    let mut path = String::new();
    if !names_removed(raw.value, removed_from(type_url), &mut path, MAX_DEPTH) {
        return V2Check::Compatible;
    }
    let version_2 = String::from_utf8_lossy(raw.type_url);
    let version_2 = version_2.rsplit('/').next().unwrap_or_default();
    V2Check::Incompatible(alloc::format!(
        "{version_2} sets {path}, which was removed in version 3 of the API"
    ))
}

/// Maximum nesting depth of messages, like that of protobuf decoders.
const MAX_DEPTH: usize = 100;

/// Finds the first field or value in a message that is listed in the table, and leaves its path in
/// `path`. Malformed or too deeply nested messages are left to the decoder.
fn names_removed(message: &[u8], table: &[Removed], path: &mut String, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    Fields::of(message).map_while(Result::ok).any(|field| {
        let Some(removed) = table.iter().find(|removed| removed.number == field.number) else {
            return false;
        };
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(removed.name);
        let is_it = match (removed.part, field.value) {
            (RemovedPart::Field, _) => true,
            (RemovedPart::Value(value), FieldValue::Number(number)) => value == number,
            (RemovedPart::Within(table), FieldValue::Block(inner)) => {
                names_removed(inner, table, path, depth)
            }
            _ => false,
        };
        if !is_it {
            #[expect(clippy::disallowed_methods, reason = "the path had this length before")]
            path.truncate(length);
        }
        is_it
    })
}

/// Field of version 2 that version 3 has removed completely or in part.
#[derive(Clone, Copy)]
struct Removed {
    number: u32,
    name: &'static str,
    part: RemovedPart,
}

#[derive(Clone, Copy)]
enum RemovedPart {
    /// The field itself.
    Field,
    /// One value of an enum.
    Value(u64),
    /// Part of the message in the field.
    Within(&'static [Removed]),
}

const fn field(number: u32, name: &'static str) -> Removed {
    Removed { number, name, part: RemovedPart::Field }
}

const fn value(number: u32, name: &'static str, value: u64) -> Removed {
    Removed { number, name, part: RemovedPart::Value(value) }
}

const fn within(number: u32, name: &'static str, table: &'static [Removed]) -> Removed {
    Removed { number, name, part: RemovedPart::Within(table) }
}

fn removed_from(type_url: &str) -> &'static [Removed] {
    match type_url {
        types::LISTENER => &LISTENER,
        types::ROUTE_CONFIGURATION => &ROUTE_CONFIGURATION,
        types::VIRTUAL_HOST => &VIRTUAL_HOST,
        types::CLUSTER => &CLUSTER,
        types::CLUSTER_LOAD_ASSIGNMENT => &CLUSTER_LOAD_ASSIGNMENT,
        types::SECRET => &SECRET,
        _ => &[],
    }
}

/// Extensions that were configured by a struct as an alternative to an `Any`.
const EXTENSION: [Removed; 1] = [field(2, "config")];
const HEADER: [Removed; 1] = [field(5, "regex_match")];
const STRING: [Removed; 1] = [field(4, "regex")];
const GRPC_SERVICE: [Removed; 1] = [within(
    2,
    "google_grpc",
    &[within(3, "call_credentials", &[within(6, "from_plugin", &EXTENSION)])],
)];
const CONFIG_SOURCE: [Removed; 1] =
    [within(2, "api_config_source", &[within(4, "grpc_services", &GRPC_SERVICE)])];

const LISTENER: [Removed; 4] = [
    within(
        3,
        "filter_chains",
        &[
            field(2, "tls_context"),
            within(3, "filters", &EXTENSION),
            within(6, "transport_socket", &EXTENSION),
        ],
    ),
    within(9, "listener_filters", &EXTENSION),
    within(
        18,
        "udp_listener_config",
        &[field(1, "udp_listener_name"), field(2, "config"), field(3, "typed_config")],
    ),
    within(22, "access_log", &ACCESS_LOG),
];

static ACCESS_LOG: [Removed; 2] = [within(2, "filter", &ACCESS_LOG_FILTER), field(3, "config")];

/// Recursive, because filters can contain filters.
static ACCESS_LOG_FILTER: [Removed; 4] = [
    within(6, "and_filter", &AND_FILTER),
    within(7, "or_filter", &OR_FILTER),
    within(8, "header_filter", &[within(1, "header", &HEADER)]),
    within(11, "extension_filter", &EXTENSION),
];
static AND_FILTER: [Removed; 1] = [within(1, "filters", &ACCESS_LOG_FILTER)];
static OR_FILTER: [Removed; 1] = [within(2, "filters", &ACCESS_LOG_FILTER)];

const ROUTE_CONFIGURATION: [Removed; 2] = [
    within(2, "virtual_hosts", &VIRTUAL_HOST),
    within(9, "vhds", &[within(1, "config_source", &CONFIG_SOURCE)]),
];

const VIRTUAL_HOST: [Removed; 6] = [
    within(
        3,
        "routes",
        &[
            within(1, "match", &ROUTE_MATCH),
            within(2, "route", &ROUTE_ACTION),
            field(8, "per_filter_config"),
        ],
    ),
    within(
        5,
        "virtual_clusters",
        &[field(1, "pattern"), field(3, "method"), within(4, "headers", &HEADER)],
    ),
    within(6, "rate_limits", &RATE_LIMIT),
    within(8, "cors", &CORS),
    field(12, "per_filter_config"),
    within(16, "retry_policy", &RETRY_POLICY),
];

const ROUTE_MATCH: [Removed; 3] = [
    field(3, "regex"),
    within(6, "headers", &HEADER),
    within(
        7,
        "query_parameters",
        &[field(3, "value"), field(4, "regex"), within(5, "string_match", &STRING)],
    ),
];

const ROUTE_ACTION: [Removed; 6] = [
    within(3, "weighted_clusters", &[within(1, "clusters", &[field(8, "per_filter_config")])]),
    within(9, "retry_policy", &RETRY_POLICY),
    field(10, "request_mirror_policy"),
    within(13, "rate_limits", &RATE_LIMIT),
    within(17, "cors", &CORS),
    within(30, "request_mirror_policies", &[field(2, "runtime_key")]),
];

const RETRY_POLICY: [Removed; 4] = [
    within(4, "retry_priority", &EXTENSION),
    within(5, "retry_host_predicate", &EXTENSION),
    within(9, "retriable_headers", &HEADER),
    within(10, "retriable_request_headers", &HEADER),
];

const RATE_LIMIT: [Removed; 1] =
    [within(3, "actions", &[within(6, "header_value_match", &[within(3, "headers", &HEADER)])])];

const CORS: [Removed; 4] = [
    field(1, "allow_origin"),
    field(7, "enabled"),
    field(8, "allow_origin_regex"),
    within(11, "allow_origin_string_match", &STRING),
];

const CLUSTER: [Removed; 11] = [
    within(3, "eds_cluster_config", &[within(1, "eds_config", &CONFIG_SOURCE)]),
    value(6, "lb_policy: ORIGINAL_DST_LB", 4),
    field(7, "hosts"),
    within(
        8,
        "health_checks",
        &[
            within(
                8,
                "http_health_check",
                &[
                    field(5, "service_name"),
                    field(7, "use_http2"),
                    within(11, "service_name_matcher", &STRING),
                ],
            ),
            within(13, "custom_health_check", &EXTENSION),
            within(22, "event_service", &[within(1, "grpc_service", &GRPC_SERVICE)]),
        ],
    ),
    field(11, "tls_context"),
    within(24, "transport_socket", &EXTENSION),
    within(33, "load_assignment", &CLUSTER_LOAD_ASSIGNMENT),
    field(35, "extension_protocol_options"),
    within(
        41,
        "load_balancing_policy",
        &[within(1, "policies", &[field(1, "name"), field(2, "config"), field(3, "typed_config")])],
    ),
    within(42, "lrs_server", &CONFIG_SOURCE),
    within(43, "transport_socket_matches", &[within(3, "transport_socket", &EXTENSION)]),
];

const CLUSTER_LOAD_ASSIGNMENT: [Removed; 1] =
    [within(4, "policy", &[field(5, "disable_overprovisioning")])];

const SECRET: [Removed; 2] = [
    within(2, "tls_certificate", &[within(6, "private_key_provider", &EXTENSION)]),
    within(
        4,
        "validation_context",
        &[
            field(4, "verify_subject_alt_name"),
            field(5, "require_ocsp_staple"),
            within(9, "match_subject_alt_names", &STRING),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};
    use core::ptr;

    use crate::client::resource::v2_fields::*;

    /// Removed fields according to the API descriptors. `tests/interop/version2` generates the file
    /// from version 2 as published by go-control-plane and from version 3, and the interoperability
    /// tests compare it again.
    const PUBLISHED: &str = include_str!("../../../tests/older-fields.txt");

    fn lines(table: &'static [Removed], path: &str, above: &[(&[Removed], &str)]) -> Vec<String> {
        if above.iter().any(|(known, _)| ptr::eq(*known, table)) {
            return vec![alloc::format!("{path} ..")];
        }
        let within = [above, &[(table, path)]].concat();
        let line = |it: &Removed| match it.part {
            RemovedPart::Field => vec![alloc::format!("{path} {}={}", it.name, it.number)],
            RemovedPart::Within(table) => {
                lines(table, &alloc::format!("{path} {}={}", it.name, it.number), &within)
            }
            RemovedPart::Value(value) => {
                let (field, name) = it.name.split_once(": ").unwrap();
                vec![alloc::format!("{path} {field}={} {name}={value}", it.number)]
            }
        };
        table.iter().flat_map(line).collect()
    }

    #[test]
    fn removed_v2_fields_match_the_descriptors() {
        let mut ours = Vec::new();
        for type_url in (0..types::RANKS).filter_map(types::by_rank) {
            let name = type_url.rsplit('.').next().unwrap();
            ours.extend(lines(removed_from(type_url), name, &[]));
        }
        ours.sort_unstable();
        let published: Vec<_> = PUBLISHED.lines().map(String::from).collect();
        assert_eq!(ours, published);
    }

    /// Wraps the message in one field per tag.
    fn wrapped(mut message: Vec<u8>, tags: &[u8]) -> Vec<u8> {
        for &tag in tags.iter().rev() {
            let mut length = message.len();
            let mut outer = vec![tag];
            while length > 127 {
                outer.push(u8::try_from(length & 127).unwrap() | 128);
                length >>= 7;
            }
            outer.push(u8::try_from(length).unwrap());
            outer.extend(message);
            message = outer;
        }
        message
    }

    #[test]
    fn removed_v2_field_is_found_in_nested_access_log_filters() {
        const AND: u8 = 6 << 3 | 2;
        const OR: u8 = 7 << 3 | 2;
        const FILTERS: [u8; 2] = [1 << 3 | 2, 2 << 3 | 2];
        let checked = |filters: &[u8]| {
            // access_log { filter { .. header_filter { header { regex_match: "" } } } }
            let header = wrapped(Vec::new(), &[8 << 3 | 2, 1 << 3 | 2, 5 << 3 | 2]);
            let listener = wrapped(wrapped(header, filters), &[2 << 3 | 2]);
            let listener =
                [vec![22 << 3 & 127 | 128 | 2, 1], wrapped(listener, &[0])[1..].to_vec()].concat();
            let mut path = String::new();
            names_removed(&listener, &LISTENER, &mut path, MAX_DEPTH).then_some(path)
        };
        assert_eq!(
            checked(&[]).as_deref(),
            Some("access_log.filter.header_filter.header.regex_match")
        );
        let nested = checked(&[AND, FILTERS[0], OR, FILTERS[1]]);
        let path = "access_log.filter.and_filter.filters.or_filter.filters.header_filter.header.regex_match";
        assert_eq!(nested.as_deref(), Some(path));
        // Nested deeper than any decoder accepts.
        let deep: Vec<_> = [AND, FILTERS[0]].iter().copied().cycle().take(20_000).collect();
        assert_eq!(checked(&deep), None);
    }
}
