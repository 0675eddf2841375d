//! Object of any kind.

use super::{
    names::Kind,
    types::{ConfigMap, EndpointSlice, Metadata, Service},
};

/// Object that was read or changed.
#[derive(Clone, Debug)]
pub(crate) enum Observed {
    Service(Box<Service>),
    Slice(Box<EndpointSlice>),
    ConfigMap(Box<ConfigMap>),
}

impl Observed {
    pub(crate) fn metadata(&self) -> &Metadata {
        match self {
            Self::Service(service) => &service.metadata,
            Self::Slice(slice) => &slice.metadata,
            Self::ConfigMap(config_map) => &config_map.metadata,
        }
    }

    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Service(_) => Kind::Service,
            Self::Slice(_) => Kind::EndpointSlice,
            Self::ConfigMap(_) => Kind::ConfigMap,
        }
    }

    /// Returns the namespace and the name.
    pub(crate) fn name(&self) -> (String, String) {
        let metadata = self.metadata();
        (metadata.namespace.clone(), metadata.name.clone())
    }
}
