//! Configuration of servers (gRFC A36).

mod admission;
mod chains;
mod updates;

use xds_routing::{
    Rules,
    listener::{ListenerKind, SocketListener},
    proto::envoy::config::{
        core::v3::CidrRange,
        listener::v3::{self as schema, FilterChain, FilterChainMatch},
    },
};

use crate::{
    support::*,
    validation::servers::{chain, server},
};

/// Returns a filter chain with a match, whose routes have this name.
fn named_chain(routes: &str, matches: FilterChainMatch) -> FilterChain {
    chain_with(&manager(rds(routes)), Some(matches))
}

fn chain_with(
    manager: &xds_routing::proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager,
    matches: Option<FilterChainMatch>,
) -> FilterChain {
    let mut chain = chain(matches);
    chain.filters[0].config_type = Some(schema::filter::ConfigType::TypedConfig(packed(manager)));
    chain
}

fn ranges(prefixes: &[(&str, u32)]) -> Vec<CidrRange> {
    let range = |&(prefix, bits): &(&str, u32)| CidrRange {
        address_prefix: prefix.into(),
        prefix_len: number(bits),
    };
    prefixes.iter().map(range).collect()
}

/// Validates a listener of a server.
fn socket(listener: &schema::Listener) -> SocketListener {
    let listener = xds_routing::listener::Listener::from_schema(listener, &Rules::default());
    match listener.expect("a valid listener").kind() {
        ListenerKind::Socket(socket) => socket.clone(),
        other => panic!("{other:?}"),
    }
}

fn socket_with(chains: Vec<FilterChain>) -> SocketListener {
    socket(&server(chains))
}
