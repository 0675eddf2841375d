//! Documents in a ConfigMap.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use xds_format::Format;
use xds_source::{Content, Document};

use crate::objects::ConfigMap;

/// Returns the documents of a ConfigMap: the values whose keys have the suffix of a resource file.
/// Other keys are ignored, like other files in a directory.
pub(crate) fn config_map(config_map: ConfigMap) -> Content {
    let ConfigMap { data, binary_data, .. } = config_map;
    let mut documents = Vec::new();
    for (name, text) in data {
        if let Some(format) = format_of(&name) {
            documents.push(Document::new(name, format, text));
        }
    }
    for (name, encoded) in binary_data {
        let Some(format) = format_of(&name) else { continue };
        match STANDARD.decode(encoded) {
            Ok(bytes) => documents.push(Document::new(name, format, bytes)),
            Err(why) => return Content::Invalid(format!("binaryData {name}: {why}")),
        }
    }
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    Content::Documents(documents)
}

/// Returns the keys of a ConfigMap of which nothing is served, because none has the suffix of a
/// resource file; `None` if one has it.
pub(crate) fn keys_without_resources(config_map: &ConfigMap) -> Option<Vec<&str>> {
    let ConfigMap { data, binary_data, .. } = config_map;
    let keys: Vec<_> = data.keys().chain(binary_data.keys()).map(String::as_str).collect();
    keys.iter().all(|key| format_of(key).is_none()).then_some(keys)
}

fn format_of(key: &str) -> Option<Format> {
    if key.starts_with('.') { None } else { Format::from_path(key).ok() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_documents_in_the_format_of_their_suffix() {
        let object = json!({
            "data": {"b.yaml": "name: b", "a.json": "{}", "README": "no", ".hidden.yaml": "no"},
            "binaryData": {"c.pb": "AAE=", "logo.png": "AAE="},
        });
        let content = config_map(serde_json::from_value(object).unwrap());
        let Content::Documents(documents) = content else { panic!("{content:?}") };
        let documents: Vec<_> =
            documents.iter().map(|it| (it.name.as_str(), it.format, &it.bytes[..])).collect();
        let expected = [
            ("a.json", Format::Json, &b"{}"[..]),
            ("b.yaml", Format::Yaml, b"name: b"),
            ("c.pb", Format::Binary, &[0, 1]),
        ];
        assert_eq!(documents, expected);
    }

    #[test]
    fn keys_are_named_if_none_has_a_known_suffix() {
        let keys = |data: serde_json::Value| {
            let config_map = serde_json::from_value(json!({ "data": data })).unwrap();
            keys_without_resources(&config_map).map(|keys| keys.join(" "))
        };
        assert_eq!(keys(json!({"cds": "", "README": ""})).as_deref(), Some("README cds"));
        assert_eq!(keys(json!({})).as_deref(), Some(""));
        assert_eq!(keys(json!({"cds.yaml": "", "README": ""})), None);
    }

    #[test]
    fn config_map_without_documents_has_no_resources() {
        assert_eq!(config_map(ConfigMap::default()), Content::Documents(Vec::new()));
    }
}
