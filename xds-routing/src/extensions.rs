//! Extensions: what kind a configuration is of.

use alloc::string::String;

use bytes::Bytes;
use prost::Message as _;
use xds_core::proto::Any;

use crate::judge::Judge;

/// The configuration of an extension: its type, and the message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtensionConfig {
    /// What kind of extension it is: the type of its configuration. For a `TypedStruct` that is the type
    /// of what is in it.
    pub type_url: String,
    /// The configuration, or the `TypedStruct` that holds it, encoded. A copy, which keeps nothing of the response
    /// that it came in.
    pub value: Bytes,
}

/// A configuration as a JSON object, of which only the type is read. It is none of Envoy's messages.
#[derive(Clone, PartialEq, prost::Message)]
struct TypedStruct {
    #[prost(string, tag = "1")]
    type_url: String,
}

const TYPED_STRUCTS: [&str; 2] =
    ["type.googleapis.com/xds.type.v3.TypedStruct", "type.googleapis.com/udpa.type.v1.TypedStruct"];

/// What kind of extension a configuration is of.
pub(crate) fn judge_extension(config: &Any, judge: &mut Judge<'_>) -> Option<ExtensionConfig> {
    let mut type_url = config.type_url.clone();
    if is_object(config) {
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
    Some(ExtensionConfig { type_url, value: Bytes::copy_from_slice(&config.value) })
}

/// Whether a configuration is a JSON object rather than a message of its type.
pub(crate) fn is_object(config: &Any) -> bool {
    TYPED_STRUCTS.contains(&config.type_url.as_str())
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
