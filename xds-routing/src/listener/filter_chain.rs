//! What becomes of a server's connections (A36).

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use core::net::IpAddr;

use super::{
    HttpConnections,
    api::judge_connections,
    tls::{TlsContext, judge_downstream},
};
use crate::{
    judge::Judge,
    proto::envoy::config::{
        core::v3 as core_schema,
        listener::v3::{self as schema, filter::ConfigType, filter_chain_match},
    },
    rules::Side,
};

/// What becomes of some connections.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterChain {
    /// Which.
    pub matches: FilterChainMatch,
    /// What becomes of their requests.
    pub http: HttpConnections,
    /// How they are secured; `None` is not at all.
    pub tls: Option<TlsContext>,
}

/// Which connections. What gRPC never matches is kept, since a chain that asks for it takes none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterChainMatch {
    /// To an address in one of these; to any if empty.
    pub destinations: Vec<CidrRange>,
    /// From where.
    pub source: ConnectionSource,
    /// From an address in one of these; from any if empty.
    pub sources: Vec<CidrRange>,
    /// From one of these ports; from any if empty.
    pub source_ports: Vec<u32>,
    /// By what protocol.
    pub transport: Transport,
    /// Whether it asks for something that no connection of gRPC has: a port, a name, a protocol.
    pub never: bool,
}

/// By what protocol connections come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// Any.
    #[default]
    Any,
    /// As they are, said by name (`raw_buffer`): goes before what says nothing.
    Raw,
}

/// Where connections come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionSource {
    /// Anywhere.
    #[default]
    Any,
    /// This machine.
    Local,
    /// Anywhere but this machine.
    External,
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct CidrRange {
    /// The first of them.
    pub address: IpAddr,
    /// How many bits they share.
    pub bits: u32,
}

pub(super) fn judge_chain(
    chain: &schema::FilterChain,
    judge: &mut Judge<'_>,
) -> Option<FilterChain> {
    let matches = chain.filter_chain_match.as_ref().map_or_else(
        || Some(FilterChainMatch::default()),
        |matches| judge.field("filter_chain_match", |judge| judge_match(matches, judge)),
    );
    let tls = chain
        .transport_socket
        .as_ref()
        .map(|socket| judge.field("transport_socket", |judge| judge_downstream(socket, judge)));
    let [filter] = chain.filters.as_slice() else {
        judge.fault_in("filters", "must be one, an HttpConnectionManager");
        return None;
    };
    let http = judge.element("filters", 0, |judge| {
        let Some(ConfigType::TypedConfig(config)) = filter.config_type.as_ref() else {
            judge.fault_in("typed_config", "must be set");
            return None;
        };
        judge.field("typed_config", |judge| judge_connections(config, Side::Server, judge))
    });
    let tls = match tls {
        Some(valid) => Some(valid?),
        None => None,
    };
    Some(FilterChain { matches: matches?, http: http?, tls })
}

fn judge_match(
    matches: &schema::FilterChainMatch,
    judge: &mut Judge<'_>,
) -> Option<FilterChainMatch> {
    let mut ranges = |name, ranges: &[core_schema::CidrRange]| {
        let mut judged = Vec::new();
        for (index, range) in ranges.iter().enumerate() {
            judged.extend(judge.element(name, index, |judge| judge_range(range, judge)));
        }
        judged
    };
    let destinations = ranges("prefix_ranges", &matches.prefix_ranges);
    let sources = ranges("source_prefix_ranges", &matches.source_prefix_ranges);
    let source = match filter_chain_match::ConnectionSourceType::try_from(matches.source_type) {
        Ok(filter_chain_match::ConnectionSourceType::Any) => ConnectionSource::Any,
        Ok(filter_chain_match::ConnectionSourceType::SameIpOrLoopback) => ConnectionSource::Local,
        Ok(filter_chain_match::ConnectionSourceType::External) => ConnectionSource::External,
        Err(_) => {
            judge.fault_in("source_type", "unknown value");
            return None;
        }
    };
    let never = matches.destination_port.is_some()
        || !matches.server_names.is_empty()
        || !matches.application_protocols.is_empty()
        || !matches.direct_source_prefix_ranges.is_empty()
        || !["", "raw_buffer"].contains(&matches.transport_protocol.as_str());
    let source_ports = matches.source_ports.clone();
    let transport = match matches.transport_protocol.as_str() {
        "" => Transport::Any,
        _ => Transport::Raw,
    };
    Some(FilterChainMatch { destinations, source, sources, source_ports, transport, never })
}

fn judge_range(range: &core_schema::CidrRange, judge: &mut Judge<'_>) -> Option<CidrRange> {
    let Ok(address) = range.address_prefix.parse::<IpAddr>() else {
        let why = format_args!("`{}` is no IP address", range.address_prefix);
        judge.fault_in("address_prefix", why);
        return None;
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = range.prefix_len.as_ref().map_or(0, |it| it.value).min(most);
    Some(CidrRange { address: masked(address, bits), bits })
}

/// The first address of a range, so that equal ranges are equal.
fn masked(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

/// How many combinations the matches of a listener may stand for.
const COMBINATIONS: usize = 100_000;

/// One of the combinations that a match stands for: of what it lists one of each, and nothing where it lists
/// nothing.
type Combination = (Transport, ConnectionSource, Option<CidrRange>, Option<CidrRange>, Option<u32>);

/// Chains that are for the same connections leave open which of them counts (A36). What a match lists stands
/// for a match each, so that two chains, or one, are at fault as soon as they have one of these in common.
pub(super) fn judge_duplicates(chains: &[FilterChain], judge: &mut Judge<'_>) {
    let mut known: BTreeMap<Combination, usize> = BTreeMap::new();
    for (index, chain) in chains.iter().enumerate() {
        // It takes no connection, so it takes none from another one.
        if chain.matches.never {
            continue;
        }
        let why = match take_in(&chain.matches, index, &mut known) {
            Ok(()) => continue,
            Err(Clash::TooMany) => {
                let why = format_args!("stand for more than {COMBINATIONS} matches");
                judge.fault_in("filter_chains", why);
                return;
            }
            Err(Clash::With(other)) if other == index => String::from("lists the same twice"),
            Err(Clash::With(other)) => {
                format!("has one in common with that of filter chain {other}")
            }
        };
        judge.element("filter_chains", index, |judge| judge.fault_in("filter_chain_match", why));
    }
}

enum Clash {
    /// With this chain, which may be the same.
    With(usize),
    TooMany,
}

fn take_in(
    matches: &FilterChainMatch,
    index: usize,
    known: &mut BTreeMap<Combination, usize>,
) -> Result<(), Clash> {
    for destination in each(&matches.destinations) {
        for source in each(&matches.sources) {
            for port in each(&matches.source_ports) {
                let combination = (matches.transport, matches.source, destination, source, port);
                if let Some(other) = known.insert(combination, index) {
                    return Err(Clash::With(other));
                }
                if known.len() > COMBINATIONS {
                    return Err(Clash::TooMany);
                }
            }
        }
    }
    Ok(())
}

/// Each of them, or nothing once where there is none.
fn each<T: Copy>(listed: &[T]) -> impl Iterator<Item = Option<T>> {
    let none = listed.is_empty().then_some(None);
    listed.iter().copied().map(Some).chain(none)
}
