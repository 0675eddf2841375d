//! Choice of the filter chain for a connection.

use xds_routing::{
    listener::{Routes, SocketListener},
    proto::envoy::config::listener::v3::FilterChainMatch,
    serving::Connection,
};

use super::{named_chain, ranges, socket, socket_with};
use crate::validation::servers::server;

/// Returns the name of the routes of the chain for a connection.
fn chosen<'a>(socket: &'a SocketListener, local: &str, remote: &str) -> Option<&'a str> {
    let connection = Connection::new(local.parse().unwrap(), remote.parse().unwrap());
    socket.filter_chain(&connection).map(|chain| match &chain.http.routes {
        Routes::Named(name) => name.as_str(),
        other => panic!("{other:?}"),
    })
}

fn to(prefixes: &[(&str, u32)]) -> FilterChainMatch {
    FilterChainMatch { prefix_ranges: ranges(prefixes), ..Default::default() }
}

fn from(prefixes: &[(&str, u32)]) -> FilterChainMatch {
    FilterChainMatch { source_prefix_ranges: ranges(prefixes), ..Default::default() }
}

const LOCAL: i32 = 1;
const EXTERNAL: i32 = 2;

#[test]
fn most_specific_destination_is_used_without_backtracking() {
    let socket = socket_with(vec![
        named_chain("any", FilterChainMatch::default()),
        named_chain("all", to(&[("0.0.0.0", 0)])),
        named_chain("wide", to(&[("10.0.0.0", 8), ("192.168.0.0", 16)])),
        named_chain(
            "narrow",
            FilterChainMatch {
                source_prefix_ranges: ranges(&[("172.16.0.0", 12)]),
                ..to(&[("10.1.0.0", 16)])
            },
        ),
    ]);
    let from = "172.16.0.1:5000";
    for (local, expected) in [
        ("10.1.2.3:80", "narrow"),
        ("10.2.2.3:80", "wide"),
        ("192.168.3.4:80", "wide"),
        ("192.0.2.1:80", "all"),
        ("[2001:db8::1]:80", "any"),
        // A dual-stack socket has such addresses.
        ("[::ffff:10.1.2.3]:80", "narrow"),
    ] {
        assert_eq!(chosen(&socket, local, from), Some(expected), "{local}");
    }
    // The most specific destination decides, although its source does not match.
    assert_eq!(chosen(&socket, "10.1.2.3:80", "192.0.2.1:5000"), None);
}

#[test]
fn sources_are_compared_after_destinations() {
    let of_type = |source_type| FilterChainMatch { source_type, ..Default::default() };
    let socket = socket_with(vec![
        named_chain("local", of_type(LOCAL)),
        named_chain("external", of_type(EXTERNAL)),
        named_chain(
            "office",
            FilterChainMatch { source_type: EXTERNAL, ..from(&[("192.0.2.0", 24)]) },
        ),
        named_chain(
            "desk",
            FilterChainMatch {
                source_type: EXTERNAL,
                source_ports: vec![5000, 5001],
                ..from(&[("192.0.2.0", 24)])
            },
        ),
        named_chain("wildcard", from(&[("10.0.0.0", 8)])),
    ]);
    let local = "198.51.100.1:80";
    for (remote, expected) in [
        ("127.0.0.1:5000", "local"),
        ("[::1]:5000", "local"),
        ("198.51.100.1:5000", "local"),
        ("203.0.113.9:1", "external"),
        ("192.0.2.7:1", "office"),
        ("192.0.2.7:5001", "desk"),
        // Another chain has the type of this source, so the one for any source is not considered.
        ("10.0.0.1:1", "external"),
    ] {
        assert_eq!(chosen(&socket, local, remote), Some(expected), "{remote}");
    }
}

#[test]
fn plaintext_protocol_precedes_any_protocol() {
    let raw = FilterChainMatch { transport_protocol: "raw_buffer".into(), ..Default::default() };
    let socket =
        socket_with(vec![named_chain("any", FilterChainMatch::default()), named_chain("raw", raw)]);
    assert_eq!(chosen(&socket, "10.0.0.1:80", "10.0.0.2:1"), Some("raw"));
}

#[test]
fn default_chain_is_used_for_connections_that_no_other_matches() {
    let never = [
        FilterChainMatch { server_names: vec!["shop".into()], ..Default::default() },
        FilterChainMatch { transport_protocol: "tls".into(), ..Default::default() },
        FilterChainMatch { application_protocols: vec!["h2".into()], ..Default::default() },
        FilterChainMatch { destination_port: crate::support::number(80), ..Default::default() },
    ];
    let chains: Vec<_> = never.into_iter().map(|it| named_chain("never", it)).collect();
    let mut listener = server(chains);
    let (local, remote) = ("10.0.0.1:80", "10.0.0.2:1");
    assert_eq!(chosen(&socket(&listener), local, remote), None);
    listener.default_filter_chain = Some(named_chain("default", FilterChainMatch::default()));
    assert_eq!(chosen(&socket(&listener), local, remote), Some("default"));
}

// Envoy, C-core and Go compare the destination before the conditions that gRPC does not support.
#[test]
fn chain_that_never_matches_precedes_less_specific_chains() {
    let narrow = || to(&[("10.1.0.0", 16)]);
    let raw = || FilterChainMatch { transport_protocol: "raw_buffer".into(), ..narrow() };
    for (never, expected) in [
        (FilterChainMatch { server_names: vec!["shop".into()], ..narrow() }, None),
        (FilterChainMatch { transport_protocol: "tls".into(), ..narrow() }, None),
        (FilterChainMatch { application_protocols: vec!["h2".into()], ..narrow() }, None),
        (FilterChainMatch { direct_source_prefix_ranges: ranges(&[("::", 0)]), ..narrow() }, None),
        // Such chains are not compared at all.
        (
            FilterChainMatch { destination_port: crate::support::number(80), ..narrow() },
            Some("wide"),
        ),
        // Each condition has its place in the order.
        (FilterChainMatch { server_names: vec!["shop".into()], ..raw() }, None),
    ] {
        let wide = named_chain("wide", to(&[("10.0.0.0", 8)]));
        let socket = socket_with(vec![wide, named_chain("never", never.clone())]);
        assert_eq!(chosen(&socket, "10.1.2.3:80", "10.0.0.2:1"), expected, "{never:?}");
        assert_eq!(chosen(&socket, "10.2.2.3:80", "10.0.0.2:1"), Some("wide"), "{never:?}");
    }
    for (never, expected) in [
        (FilterChainMatch { server_names: vec!["shop".into()], ..raw() }, Some("any")),
        (FilterChainMatch { application_protocols: vec!["h2".into()], ..raw() }, None),
    ] {
        let chains = vec![named_chain("any", narrow()), named_chain("never", never.clone())];
        let socket = socket_with(chains);
        assert_eq!(chosen(&socket, "10.1.2.3:80", "10.0.0.2:1"), expected, "{never:?}");
    }
}
