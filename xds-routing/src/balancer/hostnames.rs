//! Host names of endpoints, for authority rewriting ([gRFC A81]).
//!
//! [gRFC A81]: https://github.com/grpc/proposal/blob/master/A81-xds-authority-rewriting.md

use alloc::{string::String, sync::Arc, vec::Vec};

use crate::{endpoint::Endpoint, scalars::SocketAddress};

/// Host names of the addresses of one or more endpoints, in the order of the addresses. `None` if no
/// endpoint has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Hostnames(Option<Arc<[(SocketAddress, String)]>>);

impl Hostnames {
    pub(super) fn of<'a>(endpoints: impl IntoIterator<Item = &'a Endpoint>) -> Self {
        let named = endpoints.into_iter().filter(|it| !it.hostname.is_empty());
        let of_address = |it: &'a Endpoint| {
            it.addresses.iter().map(move |address| (address.clone(), it.hostname.clone()))
        };
        let mut names: Vec<_> = named.flat_map(of_address).collect();
        names.sort_unstable();
        Self((!names.is_empty()).then(|| names.into()))
    }

    /// Returns the host name of the endpoint with this address.
    pub(super) fn get(&self, address: &SocketAddress) -> Option<&str> {
        let names = self.0.as_ref()?;
        let place = names.binary_search_by(|(known, _)| known.cmp(address)).ok()?;
        names.get(place).map(|(_, name)| &**name)
    }
}
