//! Validation of server listeners (gRFC A36).

use xds_routing::{
    listener::{ConnectionSource, ListenerKind},
    proto::envoy::{
        config::{
            core::v3::{CidrRange, address, socket_address::PortSpecifier},
            listener::v3::{self as listeners, Filter, FilterChain, FilterChainMatch, filter},
        },
        extensions::filters::network::http_connection_manager::v3::HttpConnectionManager,
    },
};

use crate::{
    support::*,
    validation::{listeners::listener, why},
};

pub(crate) fn chain(matches: Option<FilterChainMatch>) -> FilterChain {
    FilterChain { filter_chain_match: matches, ..chain_of(&manager(rds("r"))) }
}

pub(crate) fn chain_of(manager: &HttpConnectionManager) -> FilterChain {
    FilterChain {
        filters: vec![Filter {
            name: "hcm".into(),
            config_type: Some(filter::ConfigType::TypedConfig(packed(manager))),
        }],
        ..FilterChain::default()
    }
}

fn range(prefix: &str, bits: u32) -> CidrRange {
    CidrRange { address_prefix: prefix.into(), prefix_len: number(bits) }
}

pub(crate) fn server(filter_chains: Vec<FilterChain>) -> listeners::Listener {
    listeners::Listener {
        name: "s".into(),
        address: Some(address("0.0.0.0", 443)),
        filter_chains,
        ..Default::default()
    }
}

#[test]
fn server_listener_is_validated() {
    let from = |prefix: &str, bits| {
        Some(FilterChainMatch {
            source_prefix_ranges: vec![range(prefix, bits)],
            source_type: 2,
            ..Default::default()
        })
    };
    let valid = listener(&server(vec![chain(from("10.1.2.3", 8))])).unwrap();
    let ListenerKind::Socket(socket) = valid.kind() else { panic!() };
    assert_eq!(socket.address.to_string(), "0.0.0.0:443");
    let matches = &socket.filter_chains[0].matches;
    assert_eq!(matches.sources[0].address.to_string(), "10.0.0.0");
    assert_eq!(matches.source, ConnectionSource::External);

    let same = server(vec![chain(from("10.1.2.3", 8)), chain(from("10.9.9.9", 8))]);
    assert_eq!(
        why(listener(&same)),
        "filter_chains[1].filter_chain_match: overlaps with that of filter chain 0"
    );
    assert!(why(listener(&server(vec![]))).starts_with("filter_chains: must not be empty"));
    let mut none = chain(None);
    none.filters.clear();
    assert_eq!(
        why(listener(&server(vec![none]))),
        "filter_chains[0].filters: must be exactly one, an HttpConnectionManager"
    );
    let bad = listener(&server(vec![chain(from("10.1", 8))]));
    assert!(
        why(bad).contains("source_prefix_ranges[0].address_prefix: `10.1` is not an IP address")
    );
    for bits in [0, 8, 32, 128, 200] {
        assert!(listener(&server(vec![chain(from("::1", bits))])).is_ok());
    }
}

/// A match with lists represents all combinations of their elements.
#[test]
fn overlapping_filter_chain_matches_are_rejected() {
    let matches = |destinations: &[&str], sources: &[&str], ports: &[u32]| FilterChainMatch {
        prefix_ranges: destinations.iter().map(|it| range(it, 8)).collect(),
        source_prefix_ranges: sources.iter().map(|it| range(it, 8)).collect(),
        source_ports: ports.to_vec(),
        ..FilterChainMatch::default()
    };
    let validator = |list: Vec<FilterChainMatch>| {
        listener(&server(list.into_iter().map(|it| chain(Some(it))).collect()))
    };
    let first = || matches(&["10.0.0.0", "11.0.0.0"], &["1.0.0.0"], &[1, 2]);
    // One element of each list is common.
    let second = matches(&["12.0.0.0", "11.9.9.9"], &["2.0.0.0", "1.0.0.0"], &[2]);
    let common = "filter_chains[1].filter_chain_match: overlaps with that of filter chain 0";
    assert_eq!(why(validator(vec![first(), second])), common);
    for apart in [
        matches(&["12.0.0.0"], &["1.0.0.0"], &[1]),
        matches(&["10.0.0.0"], &["2.0.0.0"], &[1]),
        matches(&["10.0.0.0"], &["1.0.0.0"], &[3]),
        // An empty list is a separate value.
        matches(&[], &["1.0.0.0"], &[1]),
        matches(&["10.0.0.0"], &[], &[1]),
        matches(&["10.0.0.0"], &["1.0.0.0"], &[]),
        FilterChainMatch { source_type: 1, ..first() },
        FilterChainMatch { transport_protocol: "raw_buffer".into(), ..first() },
        // These never match a connection.
        FilterChainMatch { transport_protocol: "tls".into(), ..first() },
        FilterChainMatch { destination_port: number(1), ..first() },
        FilterChainMatch { server_names: vec!["s".into()], ..first() },
        FilterChainMatch { application_protocols: vec!["h2".into()], ..first() },
    ] {
        assert!(validator(vec![first(), apart.clone()]).is_ok(), "{apart:?}");
    }
    let any = || FilterChainMatch::default();
    assert_eq!(why(validator(vec![any(), any()])), common);
    let twice = "filter_chains[0].filter_chain_match: contains a duplicate";
    assert_eq!(why(validator(vec![matches(&["10.0.0.0", "10.1.0.0"], &[], &[])])), twice);
    assert_eq!(why(validator(vec![matches(&[], &[], &[7, 7])])), twice);
}

#[test]
fn unsupported_server_listener_fields_are_rejected() {
    let with = |change: fn(&mut listeners::Listener)| {
        let mut schema = server(vec![chain(None)]);
        change(&mut schema);
        why(listener(&schema))
    };
    let filtered = with(|it| it.listener_filters = vec![Default::default()]);
    assert_eq!(filtered, "listener_filters: not supported by gRPC");
    #[allow(deprecated, reason = "servers still send the field")]
    let original = with(|it| it.use_original_dst = boolean(true));
    assert_eq!(original, "use_original_dst: not supported by gRPC");
    let datagrams = with(|it| {
        let mut address = address("0.0.0.0", 1);
        if let Some(address::Address::SocketAddress(socket)) = &mut address.address {
            socket.protocol = 1;
        }
        it.address = Some(address);
    });
    assert_eq!(datagrams, "address.socket_address.protocol: must be TCP");
    let large = with(|it| it.address = Some(address("0.0.0.0", 65_536)));
    assert_eq!(large, "address.socket_address.port_value: must be a number up to 65535");
}

/// The server compares the address with its own as text (gRFC A36).
#[test]
fn server_listener_address_is_kept_as_text() {
    let with = |host: &str, port| {
        let mut address = address(host, 0);
        if let Some(address::Address::SocketAddress(socket)) = &mut address.address {
            socket.port_specifier = port;
        }
        let schema = listeners::Listener { address: Some(address), ..server(vec![chain(None)]) };
        let validated = listener(&schema).unwrap();
        let ListenerKind::Socket(socket) = validated.kind() else { panic!() };
        socket.address.to_string()
    };
    assert_eq!(with("host", Some(PortSpecifier::PortValue(1))), "host:1");
    assert_eq!(with("0.0.0.0", None), "0.0.0.0:0");
}
