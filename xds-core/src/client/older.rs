//! Resources of version 2 of the API in the place of the same resources of version 3 (S4.008-S4.011, S4.051).
//!
//! The two versions write the same bytes, and a type differs in its name alone, unless a resource uses a field
//! that version 3 has no more: it would be passed over in silence as an unknown one, and so the resource is
//! rejected. Which fields those are is in the tables below. What is packed in an `Any` inside a resource is
//! for whoever unpacks it.

use alloc::string::String;

use crate::{
    types,
    wire::{
        resource::RawResource,
        walk::{Content, Fields},
    },
};

/// How a resource that is not of the expected type by name is to be taken.
#[derive(Debug)]
pub(crate) enum Older {
    /// As one of the expected type.
    Same,
    /// Not at all: it has what version 3 cannot say.
    Incompatible(String),
    /// It is of another type.
    Other,
}

/// Judges a resource in a place where one of type `type_url` is expected.
pub(crate) fn judge(raw: &RawResource<'_>, type_url: &str) -> Older {
    match types::older_name(type_url) {
        Some(older) if older.as_bytes() == raw.type_url => {}
        _ => return Older::Other,
    }
    let mut path = String::new();
    if !names_removed(raw.value, removed_from(type_url), &mut path) {
        return Older::Same;
    }
    let version_2 = String::from_utf8_lossy(raw.type_url);
    let version_2 = version_2.rsplit('/').next().unwrap_or_default();
    Older::Incompatible(alloc::format!(
        "it is an {version_2} with {path}, which version 3 of the API has no more"
    ))
}

/// Finds the first thing in a message that is in the table, and leaves its path. What is malformed is found by
/// whoever decodes it.
fn names_removed(message: &[u8], table: &[Removed], path: &mut String) -> bool {
    Fields::of(message).map_while(Result::ok).any(|field| {
        let Some(removed) = table.iter().find(|removed| removed.number == field.number) else {
            return false;
        };
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(removed.name);
        let is_it = match (removed.what, field.content) {
            (What::Field, _) => true,
            (What::Value(value), Content::Number(number)) => value == number,
            (What::Within(table), Content::Block(inner)) => names_removed(inner, table, path),
            _ => false,
        };
        if !is_it {
            path.truncate(length);
        }
        is_it
    })
}

/// A field of version 2 that is not, or not wholly, in version 3.
#[derive(Clone, Copy)]
struct Removed {
    number: u32,
    name: &'static str,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    /// The field itself.
    Field,
    /// One value of an enum.
    Value(u64),
    /// Something in the message that the field holds.
    Within(&'static [Removed]),
}

const fn field(number: u32, name: &'static str) -> Removed {
    Removed { number, name, what: What::Field }
}

const fn value(number: u32, name: &'static str, value: u64) -> Removed {
    Removed { number, name, what: What::Value(value) }
}

const fn within(number: u32, name: &'static str, table: &'static [Removed]) -> Removed {
    Removed { number, name, what: What::Within(table) }
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

/// Of whatever had its configuration as a struct beside an `Any`.
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
    within(
        22,
        "access_log",
        &[
            within(
                2,
                "filter",
                &[
                    within(8, "header_filter", &[within(1, "header", &HEADER)]),
                    within(11, "extension_filter", &EXTENSION),
                ],
            ),
            field(3, "config"),
        ],
    ),
];

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
