//! Choice of filter chains whose conditions no gRPC connection meets (gRFC A36).

use xds_routing::{
    listener::ListenerKind,
    proto::envoy::config::{core::v3::CidrRange, listener::v3::FilterChainMatch},
    serving::Connection,
};

use super::{
    listeners::listener,
    servers::{chain, server},
};
use crate::support::*;

/// Returns the index of the filter chain that a connection to 10.0.0.1 gets.
fn chosen(matches: &[FilterChainMatch]) -> Option<usize> {
    let chains = matches.iter().map(|it| chain(Some(it.clone()))).collect();
    let valid = listener(&server(chains)).unwrap();
    let ListenerKind::Socket(socket) = valid.kind() else { panic!() };
    let connection =
        Connection::new("10.0.0.1:443".parse().unwrap(), "10.0.0.2:50000".parse().unwrap());
    let found = socket.filter_chain(&connection)?;
    socket.filter_chains.iter().position(|it| it == found)
}

/// Envoy compares the conditions one after the other, and does not go back.
#[test]
fn unmet_condition_excludes_less_specific_chains_of_the_conditions_before_it() {
    let any = FilterChainMatch::default;
    let destination = || FilterChainMatch {
        prefix_ranges: vec![CidrRange { address_prefix: "10.0.0.0".into(), prefix_len: number(8) }],
        ..any()
    };
    let named = |it| FilterChainMatch { server_names: vec!["s".into()], ..it };
    let encrypted = |it| FilterChainMatch { transport_protocol: "tls".into(), ..it };
    let raw = |it| FilterChainMatch { transport_protocol: "raw_buffer".into(), ..it };
    let negotiated = |it| FilterChainMatch { application_protocols: vec!["h2".into()], ..it };
    let at_port = |it| FilterChainMatch { destination_port: number(1), ..it };

    // The destination port is compared before the destination, and everything else after it.
    assert_eq!(chosen(&[at_port(destination()), any()]), Some(1));
    for unmet in [named(destination()), encrypted(destination()), negotiated(destination())] {
        assert_eq!(chosen(&[unmet.clone(), any()]), None, "{unmet:?}");
        assert_eq!(chosen(&[unmet.clone(), destination()]), Some(1), "{unmet:?}");
    }
    // Server names are compared before the transport protocol, application protocols after it.
    assert_eq!(chosen(&[named(raw(any())), any()]), Some(1));
    assert_eq!(chosen(&[negotiated(raw(any())), any()]), None);
    // Of several conditions the first one counts.
    assert_eq!(chosen(&[negotiated(at_port(destination())), any()]), Some(1));
}
