//! Reference extraction from arbitrary bytes ends, however deep they are nested.

use proptest::prelude::*;
use xds_core::{
    Malformed,
    references::{Consistency, references},
    types,
};

use super::resources;

const TYPES: [&str; 6] = [
    types::LISTENER,
    types::CLUSTER,
    types::ROUTE_CONFIGURATION,
    types::SCOPED_ROUTE_CONFIGURATION,
    types::VIRTUAL_HOST,
    types::EXTENSION_CONFIG,
];

/// Encodes a length-delimited field.
fn block(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut len = content.len();
    while len >= 0x80 {
        bytes.push((len & 0x7f) as u8 | 0x80);
        len >>= 7;
    }
    bytes.push(len as u8);
    bytes.extend_from_slice(content);
    bytes
}

/// Encodes nested filters: `TypedExtensionConfig` in `Any` in `TypedExtensionConfig`, and so on.
fn nested(levels: usize) -> Vec<u8> {
    (0..levels).fold(Vec::new(), |inner, _| {
        let any = [block(1, types::EXTENSION_CONFIG.as_bytes()), block(2, &inner)].concat();
        block(2, &any)
    })
}

#[test]
fn nesting_depth_is_limited() {
    assert_eq!(references(types::EXTENSION_CONFIG, &nested(99)), Ok(vec![]));
    let too_deep = Err(Malformed::Depth { limit: 100 });
    assert_eq!(references(types::EXTENSION_CONFIG, &nested(100)), too_deep);
    assert_eq!(references(types::EXTENSION_CONFIG, &nested(5_000)), too_deep);
}

#[test]
fn truncated_listener_is_an_error_or_has_fewer_references() {
    let listener = &resources(
        "{ $LISTENER, name: l, filter_chains: [{ filters: [{ name: f, typed_config: { $HCM, rds: { route_config_name: r, config_source: $ADS } } }] }] }",
    )[0];
    let whole = references(types::LISTENER, &listener.bytes).unwrap();
    for end in 0..listener.bytes.len() {
        let found = references(types::LISTENER, &listener.bytes[..end]);
        assert!(found.is_err() || found.is_ok_and(|found| found.len() < whole.len()), "{end}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(
        type_at in 0..TYPES.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = references(TYPES[type_at], &bytes);
    }

    // Fields with the numbers of fields that contain references, and lengths that are mostly valid.
    #[test]
    fn almost_valid_messages_do_not_panic(
        type_at in 0..TYPES.len(),
        fields in prop::collection::vec((1u8..16, prop::collection::vec(any::<u8>(), 0..6), any::<bool>()), 0..40),
    ) {
        let message = fields.iter().fold(Vec::new(), |message, (number, content, is_around)| {
            let content = [&message[..], content].concat();
            if *is_around { block(*number, &content) } else { content }
        });
        for reference in references(TYPES[type_at], &message).unwrap_or_default() {
            prop_assert!(!reference.to_string().is_empty());
        }
    }

    // Clusters and endpoints, compared with the definition of consistency.
    #[test]
    fn findings_equal_the_definition_of_consistency(
        clusters in prop::collection::btree_map(0u8..12, 0u8..12, 0..12),
        endpoints in prop::collection::btree_set(0u8..12, 0..12),
    ) {
        let encoded: Vec<_> = clusters
            .iter()
            .map(|(name, service)| {
                let config = block(2, format!("s{service}").as_bytes());
                let bytes = [block(1, format!("c{name}").as_bytes()), vec![0x10, 3], block(3, &config)];
                (types::CLUSTER, format!("c{name}"), bytes.concat())
            })
            .chain(endpoints.iter().map(|it| {
                let name = format!("s{it}");
                let bytes = block(1, name.as_bytes());
                (types::CLUSTER_LOAD_ASSIGNMENT, name, bytes)
            }))
            .collect();
        let mut expected: Vec<_> = clusters
            .iter()
            .filter(|(_, service)| !endpoints.contains(service))
            .map(|(name, service)| format!("cds `c{name}` refers to eds `s{service}`, which is missing"))
            .chain(endpoints.iter().filter(|it| !clusters.values().any(|service| service == *it))
                .map(|it| format!("nothing refers to eds `s{it}`")))
            .collect();
        let findings = Consistency::default().check(encoded);
        let mut found: Vec<_> = findings.iter().map(ToString::to_string).collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }

    // A valid resource with one changed byte.
    #[test]
    fn resource_with_one_changed_byte_does_not_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let listener = &resources(
            "{ $LISTENER, name: l, filter_chains: [{ transport_socket: { name: t, typed_config: { '@type': $SOCKET/tls.v3.DownstreamTlsContext, common_tls_context: { tls_certificate_sds_secret_configs: [{ name: k, sds_config: $ADS }] } } }, filters: [{ name: f, typed_config: { $HCM, route_config: { name: r, virtual_hosts: [{ name: v, domains: [a], routes: [{ match: { prefix: / }, route: { cluster: c } }] }] } } }] }] }",
        )[0];
        let mut bytes = listener.bytes.to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = references(types::LISTENER, &bytes);
    }
}
