//! REST-JSON bodies of requests and responses.

use super::Seed;

pub(super) fn bodies() -> Vec<Seed> {
    let request = r#"{"node": {"id": "fuzz", "user_agent_name": "seed", "metadata": {"k": [1, null]}},
  "version_info": "1", "responseNonce": "1", "resource_names": ["a", "\u00e9"],
  "type_url": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
  "error_detail": {"code": 3, "message": "bad"}, "nobody_knows": {"it": true}}"#;
    let plain = r#"{"version_info": "1", "resources": [
  {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "a", "connect_timeout": "0.25s"},
  {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "b", "type": "EDS"}],
  "type_url": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "nonce": "n",
  "control_plane": {"identifier": "seed"}, "nobody_knows": [{"it": null}]}"#;
    let wrapped = r#"{"versionInfo": "2", "canary": true, "resources": [
  {"@type": "type.googleapis.com/envoy.service.discovery.v3.Resource", "name": "a", "version": "1",
   "aliases": ["b"], "ttl": "30.000000005s", "cacheControl": {"doNotCache": true}, "resource": {
    "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "a", "metadata": {
      "filterMetadata": {"k": {"n": -1.5e300, "l": [null, true, "\u00e9"]}}}}}],
  "resourceErrors": [{"resourceName": {"name": "c"}, "errorDetail": {"code": 5, "message": "there is none"}}],
  "typeUrl": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}"#;
    let types = r#"{"resources": [
  {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "-1.5s"},
  {"@type": "type.googleapis.com/google.protobuf.BytesValue", "value": "-_8="},
  {"@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig", "name": "e", "typed_config": {
    "@type": "type.googleapis.com/google.protobuf.Struct", "value": {"k": ["NaN", 1e-7, {}]}}}]}"#;
    vec![
        ("rest_request", "seed-nack", request.into()),
        ("rest_response", "seed-plain", plain.into()),
        ("rest_response", "seed-wrapped", wrapped.into()),
        ("rest_response", "seed-well-known", types.into()),
    ]
}
