//! Properties of endpoints by address: host names, for authority rewriting ([gRFC A81]), and
//! localities, for load reports ([gRFC A27]).
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A81]: https://github.com/grpc/proposal/blob/master/A81-xds-authority-rewriting.md

use alloc::{string::String, sync::Arc, vec::Vec};

use xds_core::proto::Locality as LocalityName;

use crate::{endpoint::Endpoint, scalars::SocketAddress};

/// Host names of the addresses of one or more endpoints. `None` if no endpoint has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Hostnames(Option<ByAddress<String>>);

impl Hostnames {
    pub(super) fn of<'a>(endpoints: impl IntoIterator<Item = &'a Endpoint>) -> Self {
        let named = endpoints.into_iter().filter(|it| !it.hostname.is_empty());
        let names = ByAddress::new(named.map(|it| (it, it.hostname.clone())));
        Self((!names.0.is_empty()).then_some(names))
    }

    /// Returns the host name of the endpoint with this address.
    pub(super) fn get(&self, address: &SocketAddress) -> Option<&str> {
        self.0.as_ref()?.get(address).map(String::as_str)
    }
}

/// Localities of the addresses of one or more endpoints.
#[derive(Clone, Debug)]
pub(super) enum EndpointLocality {
    One(Arc<LocalityName>),
    /// The locality of the first endpoint, and those of all.
    Several(Arc<LocalityName>, ByAddress<Arc<LocalityName>>),
}

impl EndpointLocality {
    /// Returns the locality of the endpoint with this address.
    pub(super) fn get(&self, address: &SocketAddress) -> &Arc<LocalityName> {
        match self {
            Self::One(locality) => locality,
            Self::Several(first, localities) => localities.get(address).unwrap_or(first),
        }
    }

    /// Returns all localities. Some may occur more than once.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<LocalityName>> {
        let (first, others) = match self {
            Self::One(first) => (first, None),
            Self::Several(first, localities) => (first, Some(localities)),
        };
        let others = others.into_iter().flat_map(|it| it.0.iter().map(|(_, locality)| locality));
        core::iter::once(first).chain(others)
    }
}

/// Values of addresses, in the order of the addresses.
#[derive(Clone, Debug)]
pub(super) struct ByAddress<T>(Arc<[(SocketAddress, T)]>);

impl<T: Clone> ByAddress<T> {
    /// Returns the values of the endpoints. If several endpoints have an address, the first one counts.
    pub(super) fn new<'a>(values: impl IntoIterator<Item = (&'a Endpoint, T)>) -> Self {
        let mut all = Vec::new();
        for (endpoint, value) in values {
            all.extend(endpoint.addresses.iter().map(|address| (address.clone(), value.clone())));
        }
        all.sort_by(|(left, _), (right, _)| left.cmp(right));
        all.dedup_by(|(later, _), (earlier, _)| later == earlier);
        Self(all.into())
    }

    fn get(&self, address: &SocketAddress) -> Option<&T> {
        let place = self.0.binary_search_by(|(known, _)| known.cmp(address)).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }
}
