//! Choice of the filter chain for a connection.

use alloc::{sync::Arc, vec::Vec};
use core::net::IpAddr;

use crate::{
    connection::Connection,
    listener::{
        CidrRange, ConnectionSource, FilterChain, SocketListener, Transport, UnmetCondition,
    },
};

impl SocketListener {
    /// Returns the filter chain for a connection: the one with the most specific match or, if none
    /// matches, the default chain. `None` means that the connection is to be closed.
    ///
    /// The conditions are compared in the order of Envoy ([`FilterChainMatch`]): destination, server
    /// name, transport protocol, application protocol, type of the source, source, source port.
    /// Chains that are less specific in one of them are not considered for the next ones, even if
    /// nothing else matches.
    ///
    /// [`FilterChainMatch`]:
    ///     https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/listener/v3/listener_components.proto#config-listener-v3-filterchainmatch
    #[must_use]
    pub fn filter_chain(&self, connection: &Connection) -> Option<&Arc<FilterChain>> {
        let (local, remote) = (connection.local.ip(), connection.remote.ip());
        let port = u32::from(connection.remote.port());
        let is_local = remote.is_loopback() || remote == local;
        let mut chains: Vec<&Arc<FilterChain>> = self.filter_chains.iter().collect();
        drop_unmet(&mut chains, UnmetCondition::DestinationPort);
        keep_best(&mut chains, |chain| longest(&chain.matches.destinations, local));
        drop_unmet(&mut chains, UnmetCondition::TransportProtocol);
        keep_best(&mut chains, |chain| match chain.matches.transport {
            Transport::Raw => Some(1),
            Transport::Any => Some(0),
        });
        chains.retain(|chain| chain.matches.unmet.is_none());
        keep_best(&mut chains, |chain| match chain.matches.source {
            ConnectionSource::Any => Some(0),
            ConnectionSource::Local => is_local.then_some(1),
            ConnectionSource::External => (!is_local).then_some(1),
        });
        keep_best(&mut chains, |chain| longest(&chain.matches.sources, remote));
        keep_best(&mut chains, |chain| match chain.matches.source_ports.as_slice() {
            [] => Some(0),
            ports => ports.contains(&port).then_some(1),
        });
        // Chains with the same conditions are invalid, so at most one is left.
        chains.first().copied().or(self.default_filter_chain.as_ref())
    }
}

/// Drops the chains with a condition that is never met and compared no later than this one.
fn drop_unmet(chains: &mut Vec<&Arc<FilterChain>>, last: UnmetCondition) {
    chains.retain(|chain| chain.matches.unmet.is_none_or(|unmet| unmet > last));
}

/// Keeps the chains with the highest rank, without those that do not match (`None`).
fn keep_best(chains: &mut Vec<&Arc<FilterChain>>, rank: impl Fn(&FilterChain) -> Option<u32>) {
    let best = chains.iter().filter_map(|chain| rank(chain)).max();
    chains.retain(|chain| best.is_some() && rank(chain) == best);
}

/// Returns the rank of the longest range that contains an address. Ranges of any length rank above
/// no condition.
fn longest(ranges: &[CidrRange], address: IpAddr) -> Option<u32> {
    match ranges {
        [] => Some(0),
        ranges => {
            let containing = ranges.iter().filter(|range| range.contains(address));
            containing.map(|range| range.bits.saturating_add(1)).max()
        }
    }
}
