//! Hiding of secrets.

use base64::Engine as _;
use xds_format::{
    Format, PrintOptions, Redaction, Schema, has_sensitive_fields, parse, to_json, to_text,
};

use super::{PREFIX, printed, resource};

/// Asserts that `secrets` are only printed on request, and `kept` always.
fn assert_hidden(yaml: &str, secrets: &[&str], kept: &[&str]) {
    let hidden = PrintOptions::default();
    let shown = hidden.with_redaction(Redaction::Shown);
    let (type_url, bytes) = resource(yaml);
    assert!(has_sensitive_fields(Schema::envoy(), &type_url, &bytes), "{yaml}");
    // JSON and YAML print bytes in base64.
    let in_base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    for (hidden, shown) in printed(yaml, &hidden).iter().zip(&printed(yaml, &shown)) {
        for secret in secrets {
            let found = |text: &str| text.contains(secret) || text.contains(&in_base64(secret));
            assert!(!found(hidden), "{secret} shows in\n{hidden}");
            assert!(found(shown), "{secret} is lost in\n{shown}");
        }
        for kept in kept {
            assert!(hidden.contains(kept), "{kept} is lost in\n{hidden}");
        }
        assert!(hidden.contains("[redacted]"), "{hidden}");
        assert!(!shown.contains("[redacted]"), "{shown}");
    }
}

#[test]
fn private_key_is_redacted() {
    let secret = format!(
        "'@type': {PREFIX}/envoy.extensions.transport_sockets.tls.v3.Secret\nname: server\ntls_certificate:\n  \
         certificate_chain: {{filename: /etc/chain.pem}}\n  private_key: {{inline_string: hunter2}}\n  password: {{inline_string: hunter3}}\n"
    );
    assert_hidden(&secret, &["hunter2", "hunter3"], &["server", "/etc/chain.pem"]);
    let (type_url, bytes) = resource(&secret);
    assert_eq!(
        to_json(Schema::envoy(), &type_url, &bytes, &PrintOptions::default()).unwrap(),
        serde_json::json!({
            "@type": format!("{PREFIX}/envoy.extensions.transport_sockets.tls.v3.Secret"),
            "name": "server",
            "tls_certificate": {
                "certificate_chain": {"filename": "/etc/chain.pem"},
                "private_key": "[redacted]",
                "password": "[redacted]",
            },
        })
    );
}

#[test]
fn generic_secret_is_redacted() {
    let yaml = format!(
        "'@type': {PREFIX}/envoy.extensions.transport_sockets.tls.v3.Secret\nname: token\ngeneric_secret:\n  \
         secret: {{inline_bytes: aHVudGVyMg==}}\n  secrets: {{user: {{inline_string: hunter3}}, pass: {{inline_string: hunter4}}}}\n"
    );
    assert_hidden(&yaml, &["hunter2", "hunter3", "hunter4"], &["token", "user", "pass"]);
}

#[test]
fn session_ticket_keys_and_inline_certificates_are_redacted() {
    let keys = format!(
        "'@type': {PREFIX}/envoy.extensions.transport_sockets.tls.v3.Secret\nname: tickets\nsession_ticket_keys:\n  \
         keys: [{{inline_string: hunter2}}, {{inline_string: hunter3}}]\n"
    );
    assert_hidden(&keys, &["hunter2", "hunter3"], &["tickets"]);
    let chain = format!(
        "'@type': {PREFIX}/envoy.extensions.transport_sockets.tls.v3.Secret\nname: chain\ntls_certificate:\n  \
         certificate_chain: {{inline_string: hunter2}}\n  private_key: {{environment_variable: KEY}}\n"
    );
    assert_hidden(&chain, &["hunter2"], &["chain"]);
}

#[test]
fn secrets_inside_any_are_redacted() {
    let yaml = format!(
        r"
'@type': {PREFIX}/envoy.config.cluster.v3.Cluster
name: backend
transport_socket:
  name: tls
  typed_config:
    '@type': {PREFIX}/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    sni: example.com
    common_tls_context:
      tls_certificates:
      - certificate_chain: {{filename: /etc/chain.pem}}
        private_key: {{inline_string: hunter2}}
"
    );
    assert_hidden(&yaml, &["hunter2"], &["example.com", "/etc/chain.pem"]);

    // A whole secret, inside two nested `Any`s.
    let yaml = format!(
        r"
'@type': {PREFIX}/envoy.config.core.v3.TypedExtensionConfig
name: outer
typed_config:
  '@type': {PREFIX}/envoy.config.core.v3.TypedExtensionConfig
  name: middle
  typed_config:
    '@type': {PREFIX}/envoy.extensions.transport_sockets.tls.v3.Secret
    name: inner
    generic_secret: {{secret: {{inline_string: hunter2}}}}
    "
    );
    assert_hidden(&yaml, &["hunter2"], &["outer", "middle", "inner"]);
}

#[test]
fn secrets_inside_typed_struct_are_redacted() {
    let typed = |typed_struct: &str| {
        format!(
            r"
'@type': {PREFIX}/envoy.config.core.v3.TypedExtensionConfig
name: x
typed_config:
  '@type': {PREFIX}/{typed_struct}
  type_url: {PREFIX}/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
  value:
    sni: example.com
    commonTlsContext:
      tls_certificates:
      - private_key: {{inline_string: hunter2}}
        certificate_chain: {{filename: /etc/chain.pem}}
      - privateKey: hunter3
      custom_handshaker:
        typed_config:
          '@type': {PREFIX}/envoy.extensions.transport_sockets.tls.v3.Secret
          generic_secret:
            secrets: {{a: {{inline_string: hunter4}}}}
          tls_certificate: {{certificate_chain: {{inline_string: hunter5}}}}
"
        )
    };
    for name in ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"] {
        assert_hidden(
            &typed(name),
            &["hunter2", "hunter3", "hunter4", "hunter5"],
            &["example.com", "/etc/chain.pem"],
        );
    }
}

/// Inside a secret, the content of an unknown type may be a key.
#[test]
fn unknown_types_inside_a_secret_are_redacted() {
    let text = "# proto-message: envoy.extensions.transport_sockets.tls.v3.Secret\nname: 's'\n\
                validation_context { custom_validator_config { name: 'v' typed_config { type_url: 'x/a.B' value: 'hunter2' } } }";
    let document = parse(Schema::envoy(), "f", Format::Text, text.as_bytes()).unwrap();
    let (type_url, bytes) = (&document.resources[0].type_url, &document.resources[0].bytes);
    let options = PrintOptions::default();
    let json = to_json(Schema::envoy(), type_url, bytes, &options).unwrap();
    let any = &json["validation_context"]["custom_validator_config"]["typed_config"];
    assert_eq!(any, &serde_json::json!({"@type": "x/a.B", "[unknown type]": "[redacted]"}));
    assert!(!to_text(Schema::envoy(), type_url, bytes, &options).unwrap().contains("hunter2"));
}

#[test]
fn unknown_types_count_as_sensitive_fields() {
    let sensitive =
        |type_url: &str, bytes: &[u8]| has_sensitive_fields(Schema::envoy(), type_url, bytes);
    let (cluster, bytes) = resource(&format!(
        r"
'@type': {PREFIX}/envoy.config.cluster.v3.Cluster
name: c
transport_socket:
  name: tls
  typed_config:
    '@type': {PREFIX}/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    sni: example.com
    common_tls_context:
      tls_certificates: [{{private_key: {{filename: /etc/key.pem}}}}]
"
    ));
    // The whole `private_key` is annotated as sensitive, even without inline data.
    assert!(sensitive(&cluster, &bytes));
    let (listener, bytes) = resource(&format!(
        r"
'@type': {PREFIX}/envoy.config.core.v3.TypedExtensionConfig
name: x
typed_config:
  '@type': {PREFIX}/xds.type.v3.TypedStruct
  type_url: {PREFIX}/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
  value: {{sni: example.com}}
"
    ));
    assert!(!sensitive(&listener, &bytes));
    assert!(sensitive("x/a.B", b""));
    // transport_socket { typed_config { type_url: "x/a.B" } }
    assert!(sensitive(&cluster, b"\xc2\x01\x09\x1a\x07\x0a\x05x/a.B"));
    assert!(!sensitive(&cluster, b"\xc2\x01\x02\x1a\x00"));
    assert!(sensitive(&cluster, b"\xff"), "it does not decode");
}
