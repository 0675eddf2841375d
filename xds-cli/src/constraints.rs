//! A few rules beyond the encoding that Envoy has as well: what breaks them, it rejects with a NACK.
//!
//! They are constraints of the Envoy API (`validate.rules` in its .proto files), here for those
//! resources and mistakes that people meet first. All of them are to come with their descriptors.

use serde_json::{Map, Value as Json};

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";

/// Checks a resource in canonical JSON with proto field names; the error is the reason of a NACK.
pub(crate) fn check(resource: &Json) -> Result<(), String> {
    let Some(fields) = resource.as_object() else { return Ok(()) };
    if is_of_type(fields, CLUSTER) {
        check_cluster(fields)?;
    }
    check_ports(resource, &mut String::new())
}

/// `Cluster.name: min_len 1`, `Cluster.connect_timeout: gt 0s`.
fn check_cluster(cluster: &Map<String, Json>) -> Result<(), String> {
    if cluster.get("name").and_then(Json::as_str).unwrap_or_default().is_empty() {
        return Err("name: must not be empty".to_owned());
    }
    match cluster.get("connect_timeout").and_then(Json::as_str) {
        Some(timeout) if !is_positive(timeout) => {
            Err(format!("connect_timeout: must be greater than 0s, is {timeout}"))
        }
        _ => Ok(()),
    }
}

/// `SocketAddress.port_value: lte 65535`, wherever there is an address.
fn check_ports(value: &Json, path: &mut String) -> Result<(), String> {
    let end = path.len();
    match value {
        Json::Object(fields) => {
            for (name, value) in fields {
                let separator = if end == 0 { "" } else { "." };
                path.push_str(separator);
                path.push_str(name);
                if name == "port_value"
                    && let Some(port) = value.as_u64()
                    && port > u64::from(u16::MAX)
                {
                    return Err(format!("{path}: must be at most 65535, is {port}"));
                }
                check_ports(value, path)?;
                path.truncate(end);
            }
        }
        Json::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                check_ports(element, path)?;
                path.truncate(end);
            }
        }
        _ => {}
    }
    Ok(())
}

fn is_of_type(fields: &Map<String, Json>, full_name: &str) -> bool {
    let type_url = fields.get("@type").and_then(Json::as_str).unwrap_or_default();
    type_url.rsplit('/').next() == Some(full_name)
}

/// Whether a duration in canonical JSON, as in `0.250s`, is more than nothing.
fn is_positive(duration: &str) -> bool {
    !duration.starts_with('-') && duration.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_connect_timeout_is_positive_or_left_out() {
        let cluster = |timeout: Json| {
            check(&json!({
                "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
                "name": "c",
                "connect_timeout": timeout,
            }))
        };
        for good in [json!(null), json!("1s"), json!("0.000000001s"), json!("10s")] {
            assert_eq!(cluster(good.clone()), Ok(()), "{good}");
        }
        for bad in ["0s", "0.000s", "-1s", "-0.5s"] {
            let reason = format!("connect_timeout: must be greater than 0s, is {bad}");
            assert_eq!(cluster(json!(bad)), Err(reason));
        }
    }

    #[test]
    fn a_cluster_has_a_name_and_other_types_are_left_alone() {
        let unnamed =
            |type_url: &str| check(&json!({ "@type": type_url, "connect_timeout": "0s" }));
        assert!(unnamed("t/envoy.config.cluster.v3.Cluster").unwrap_err().starts_with("name:"));
        assert_eq!(unnamed("t/envoy.config.cluster.v3.ClusterCollection"), Ok(()));
    }

    #[test]
    fn ports_have_sixteen_bits_and_errors_a_path() {
        let assignment = |port: u64| {
            check(&json!({
                "cluster_name": "c",
                "endpoints": [{ "lb_endpoints": [{}, { "endpoint": { "address": { "socket_address": {
                    "address": "127.0.0.1", "port_value": port,
                } } } }] }],
            }))
        };
        assert_eq!(assignment(65_535), Ok(()));
        assert_eq!(
            assignment(80_800).unwrap_err(),
            "endpoints[0].lb_endpoints[1].endpoint.address.socket_address.port_value: \
             must be at most 65535, is 80800"
        );
    }
}
