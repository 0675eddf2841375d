//! Filter chains of server listeners ([gRFC A36]).
//!
//! [gRFC A36]: https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md

use alloc::{collections::BTreeMap, format, string::String, sync::Arc, vec::Vec};

use super::{
    http_connections::{HttpConnections, validate_connections},
    tls::{TlsContext, validate_downstream},
};
use crate::{
    matchers::validate_range,
    pattern::CidrRange,
    proto::envoy::config::{
        core::v3 as core_schema,
        listener::v3::{self as schema, filter::ConfigType, filter_chain_match},
    },
    rules::Side,
    validation::Validator,
};

/// Filter chain: the handling of the connections that match.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterChain {
    /// Conditions for a connection.
    pub matches: FilterChainMatch,
    /// Handling of the requests.
    pub http: HttpConnections,
    /// TLS of the connections. `None` means no TLS.
    pub tls: Option<TlsContext>,
}

/// Conditions for a connection. Chains that can never match on gRPC are kept; they match no
/// connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterChainMatch {
    /// Ranges that contain the destination address. Empty matches any.
    pub destinations: Vec<CidrRange>,
    /// Type of the source.
    pub source: ConnectionSource,
    /// Ranges that contain the source address. Empty matches any.
    pub sources: Vec<CidrRange>,
    /// Source ports. Empty matches any.
    pub source_ports: Vec<u32>,
    /// Transport protocol.
    pub transport: Transport,
    /// First condition that no gRPC connection meets, if there is one.
    pub unmet: Option<UnmetCondition>,
}

/// Condition that no gRPC connection meets, in the order in which conditions are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum UnmetCondition {
    /// Destination port. It is compared before the destination.
    DestinationPort,
    /// Server name. It is compared after the destination.
    ServerName,
    /// Transport protocol other than `raw_buffer`.
    TransportProtocol,
    /// Application protocol.
    ApplicationProtocol,
    /// Range of the direct source. It is compared before the type of the source.
    DirectSource,
}

/// Transport protocol of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Transport {
    /// Any protocol.
    #[default]
    Any,
    /// `raw_buffer`. It precedes a chain without a protocol.
    Raw,
}

/// Type of a connection's source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ConnectionSource {
    /// Any source.
    #[default]
    Any,
    /// This host (`SAME_IP_OR_LOOPBACK`).
    Local,
    /// Any other host (`EXTERNAL`).
    External,
}

pub(super) fn validate_chain(
    chain: &schema::FilterChain,
    validator: &mut Validator<'_>,
) -> Option<FilterChain> {
    let matches = chain.filter_chain_match.as_ref().map_or_else(
        || Some(FilterChainMatch::default()),
        |matches| {
            validator.field("filter_chain_match", |validator| validate_match(matches, validator))
        },
    );
    let tls = chain.transport_socket.as_ref().map(|socket| {
        validator.field("transport_socket", |validator| validate_downstream(socket, validator))
    });
    let [filter] = chain.filters.as_slice() else {
        validator.error_in("filters", "must be exactly one, an HttpConnectionManager");
        return None;
    };
    let http = validator.element("filters", 0, |validator| {
        let Some(ConfigType::TypedConfig(config)) = filter.config_type.as_ref() else {
            validator.error_in("typed_config", "must be set");
            return None;
        };
        validator.field("typed_config", |validator| {
            validate_connections(config, Side::Server, validator)
        })
    });
    let tls = match tls {
        Some(valid) => Some(valid?),
        None => None,
    };
    Some(FilterChain { matches: matches?, http: http?, tls })
}

fn validate_match(
    matches: &schema::FilterChainMatch,
    validator: &mut Validator<'_>,
) -> Option<FilterChainMatch> {
    let mut ranges = |name, ranges: &[core_schema::CidrRange]| {
        let mut validated = Vec::new();
        for (index, range) in ranges.iter().enumerate() {
            validated.extend(
                validator.element(name, index, |validator| validate_range(range, validator)),
            );
        }
        validated
    };
    let destinations = ranges("prefix_ranges", &matches.prefix_ranges);
    let sources = ranges("source_prefix_ranges", &matches.source_prefix_ranges);
    let source = match filter_chain_match::ConnectionSourceType::try_from(matches.source_type) {
        Ok(filter_chain_match::ConnectionSourceType::Any) => ConnectionSource::Any,
        Ok(filter_chain_match::ConnectionSourceType::SameIpOrLoopback) => ConnectionSource::Local,
        Ok(filter_chain_match::ConnectionSourceType::External) => ConnectionSource::External,
        Err(_) => {
            validator.error_in("source_type", "unknown value");
            return None;
        }
    };
    let source_ports = matches.source_ports.clone();
    let transport = match matches.transport_protocol.as_str() {
        "" => Transport::Any,
        _ => Transport::Raw,
    };
    let unmet = unmet_condition(matches);
    Some(FilterChainMatch { destinations, source, sources, source_ports, transport, unmet })
}

fn unmet_condition(matches: &schema::FilterChainMatch) -> Option<UnmetCondition> {
    if matches.destination_port.is_some() {
        Some(UnmetCondition::DestinationPort)
    } else if !matches.server_names.is_empty() {
        Some(UnmetCondition::ServerName)
    } else if !["", "raw_buffer"].contains(&matches.transport_protocol.as_str()) {
        Some(UnmetCondition::TransportProtocol)
    } else if !matches.application_protocols.is_empty() {
        Some(UnmetCondition::ApplicationProtocol)
    } else if !matches.direct_source_prefix_ranges.is_empty() {
        Some(UnmetCondition::DirectSource)
    } else {
        None
    }
}

/// Maximum number of combinations of match conditions in a listener.
const COMBINATIONS: usize = 100_000;

/// One combination of a match: one element of each list, or `None` for an empty list.
type Combination = (Transport, ConnectionSource, Option<CidrRange>, Option<CidrRange>, Option<u32>);

/// Records an error for chains with a common match, because it would be undefined which of them
/// applies (gRFC A36). A match with lists represents all combinations of their elements.
pub(super) fn validate_duplicates(chains: &[Arc<FilterChain>], validator: &mut Validator<'_>) {
    let mut known: BTreeMap<Combination, usize> = BTreeMap::new();
    for (index, chain) in chains.iter().enumerate() {
        // A chain that never matches conflicts with none.
        if chain.matches.unmet.is_some() {
            continue;
        }
        let why = match add_combinations(&chain.matches, index, &mut known) {
            Ok(()) => continue,
            Err(Conflict::TooMany) => {
                let why = format_args!(
                    "represent more than {COMBINATIONS} combinations of match conditions"
                );
                validator.error_in("filter_chains", why);
                return;
            }
            Err(Conflict::With(other)) if other == index => String::from("contains a duplicate"),
            Err(Conflict::With(other)) => {
                format!("overlaps with that of filter chain {other}")
            }
        };
        validator.element("filter_chains", index, |validator| {
            validator.error_in("filter_chain_match", why)
        });
    }
}

enum Conflict {
    /// Conflict with the filter chain at this index, which may be the same chain.
    With(usize),
    TooMany,
}

fn add_combinations(
    matches: &FilterChainMatch,
    index: usize,
    known: &mut BTreeMap<Combination, usize>,
) -> Result<(), Conflict> {
    for destination in each(&matches.destinations) {
        for source in each(&matches.sources) {
            for port in each(&matches.source_ports) {
                let combination = (matches.transport, matches.source, destination, source, port);
                if let Some(other) = known.insert(combination, index) {
                    return Err(Conflict::With(other));
                }
                if known.len() > COMBINATIONS {
                    return Err(Conflict::TooMany);
                }
            }
        }
    }
    Ok(())
}

/// Yields the elements, or `None` once if there are none.
fn each<T: Copy>(listed: &[T]) -> impl Iterator<Item = Option<T>> {
    let none = listed.is_empty().then_some(None);
    listed.iter().copied().map(Some).chain(none)
}
