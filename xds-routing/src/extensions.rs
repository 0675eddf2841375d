//! Extensions: what kind a configuration is of, HTTP filters, and what routes set for them (A39).

use alloc::{
    collections::BTreeMap,
    string::{String, ToString as _},
    vec::Vec,
};

use bytes::Bytes;
use prost::Message as _;
use xds_core::proto::Any;

use crate::{
    judge::Judge,
    proto::envoy::{
        config::route::v3::FilterConfig,
        extensions::filters::network::http_connection_manager::v3::{
            HttpFilter as HttpFilterSchema, http_filter::ConfigType,
        },
    },
    rules::{FilterPlace, Side},
};

/// The configuration of an extension: its type, and the message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtensionConfig {
    /// What kind of extension it is: the type of its configuration. For a `TypedStruct` that is the type
    /// of what is in it.
    pub type_url: String,
    /// The configuration, or the `TypedStruct` that holds it, encoded.
    pub value: Bytes,
}

/// A configuration as a JSON object, of which only the type is read. It is none of Envoy's messages.
#[derive(Clone, PartialEq, prost::Message)]
struct TypedStruct {
    #[prost(string, tag = "1")]
    type_url: String,
}

const FILTER_CONFIG: &str = "type.googleapis.com/envoy.config.route.v3.FilterConfig";
const TYPED_STRUCTS: [&str; 2] =
    ["type.googleapis.com/xds.type.v3.TypedStruct", "type.googleapis.com/udpa.type.v1.TypedStruct"];

/// What kind of extension a configuration is of.
pub(crate) fn judge_extension(config: &Any, judge: &mut Judge<'_>) -> Option<ExtensionConfig> {
    let mut type_url = config.type_url.clone();
    if TYPED_STRUCTS.contains(&type_url.as_str()) {
        match TypedStruct::decode(config.value.clone()) {
            Ok(object) => type_url = object.type_url,
            Err(why) => {
                judge.fault_in("value", why);
                return None;
            }
        }
    }
    let name = type_url.rsplit_once('/').map(|(_, name)| name);
    if name.is_none_or(str::is_empty) {
        judge.fault_in("type_url", format_args!("`{type_url}` names no type"));
        return None;
    }
    Some(ExtensionConfig { type_url, value: config.value.clone() })
}

/// Decodes the configuration of an extension that is one message.
pub(crate) fn decode<M: prost::Message + Default>(
    value: &Bytes,
    judge: &mut Judge<'_>,
) -> Option<M> {
    let decoded = M::decode(value.clone());
    if let Err(why) = &decoded {
        judge.fault_in("value", why);
    }
    decoded.ok()
}

/// What is set for HTTP filters beside the listener: by the name of the filter in the listener. Those of
/// a cluster go before those of its route, then come those of the virtual host and of the whole (A39).
pub type FilterOverrides = BTreeMap<String, ExtensionConfig>;

pub(crate) fn judge_overrides(
    overrides: &BTreeMap<String, Any>,
    judge: &mut Judge<'_>,
) -> Option<FilterOverrides> {
    let mut judged = FilterOverrides::new();
    for (name, config) in overrides {
        let config =
            judge.element("typed_per_filter_config", name, |judge| judge_override(config, judge));
        if let Some(config) = config {
            judged.insert(name.clone(), config);
        }
    }
    Some(judged)
}

fn judge_override(config: &Any, judge: &mut Judge<'_>) -> Option<ExtensionConfig> {
    let mut is_optional = false;
    let mut unwrapped = None;
    if config.type_url == FILTER_CONFIG {
        let wrapper: FilterConfig = decode(&config.value, judge)?;
        is_optional = wrapper.is_optional;
        if wrapper.config.is_none() {
            judge.fault_in("config", "must be set");
            return None;
        }
        unwrapped = wrapper.config;
    }
    let config = judge_extension(unwrapped.as_ref().unwrap_or(config), judge)?;
    if judge.rules.http_filters.contains_key(&config.type_url) {
        return Some(config);
    }
    if !is_optional {
        judge.fault(format_args!("no HTTP filter is known for `{}`", config.type_url));
    }
    None
}

/// A filter that requests go through.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpFilter {
    /// By this name routes have settings for it.
    pub name: String,
    /// Its kind and configuration.
    pub config: ExtensionConfig,
}

/// The filters of a listener: each has a name of its own, optional ones that are not known are left out,
/// the last one sends requests on and no other does.
pub(crate) fn judge_http_filters(
    filters: &[HttpFilterSchema],
    side: Side,
    judge: &mut Judge<'_>,
) -> Vec<HttpFilter> {
    let mut judged: Vec<HttpFilter> = Vec::new();
    for (index, filter) in filters.iter().enumerate() {
        let known = judge.element("http_filters", index, |judge| {
            if filter.name.is_empty() {
                judge.fault_in("name", "must not be empty");
            } else if filters.iter().take(index).any(|other| other.name == filter.name) {
                judge.fault_in("name", format_args!("`{}` is there twice", filter.name));
            }
            judge_http_filter(filter, side, judge)
        });
        judged.extend(known);
    }
    let is_last = |filter: &HttpFilter| {
        judge.rules.http_filters.get(&filter.config.type_url).map(|kind| kind.place)
            == Some(FilterPlace::Last)
    };
    let terminal: Vec<bool> = judged.iter().map(is_last).collect();
    match terminal.split_last() {
        None => judge.fault_in("http_filters", "must have one that sends requests on"),
        Some((false, _)) => judge.fault_in("http_filters", "the last one must send requests on"),
        Some((true, before)) if before.contains(&true) => {
            judge.fault_in("http_filters", "only the last one may send requests on");
        }
        Some(_) => {}
    }
    judged
}

fn judge_http_filter(
    filter: &HttpFilterSchema,
    side: Side,
    judge: &mut Judge<'_>,
) -> Option<HttpFilter> {
    let Some(ConfigType::TypedConfig(config)) = filter.config_type.as_ref() else {
        if !filter.is_optional {
            judge.fault_in("typed_config", "must be set");
        }
        return None;
    };
    judge.field("typed_config", |judge| {
        let config = judge_extension(config, judge)?;
        let kind = judge.rules.http_filters.get(&config.type_url);
        let problem = match kind {
            Some(kind) if kind.sides.include(side) => {
                return Some(HttpFilter { name: filter.name.to_string(), config });
            }
            Some(_) => "is not for this side",
            None => "is not known",
        };
        if !filter.is_optional {
            judge.fault(format_args!("the HTTP filter `{}` {problem}", config.type_url));
        }
        None
    })
}
