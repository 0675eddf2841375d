//! Resource types whose messages are decoded once a watch has chosen the message type.

use std::sync::OnceLock;

use bytes::Bytes;
use xds_core::{
    TypeUrl,
    client::{Rejection, ResourceType, ValidationContext, Value},
};

use crate::message::ResourceMessage;

type Decode = fn(&Bytes) -> Result<Value, Rejection>;

/// Resource type of a client. The first typed watch determines the message to which its resources
/// are decoded; before that, resources are accepted undecoded.
#[derive(Debug)]
pub(super) struct LateDecoded {
    type_url: TypeUrl,
    name_field: u32,
    decode: OnceLock<Decode>,
}

impl LateDecoded {
    pub(super) const fn new(type_url: TypeUrl, name_field: u32) -> Self {
        Self { type_url, name_field, decode: OnceLock::new() }
    }

    /// Decodes all resources that arrive from now on to `T`, unless another watch has already
    /// chosen a message type.
    pub(super) fn decode_to<T: ResourceMessage>(&self) {
        let _ = self.decode.set(|bytes| decode::<T>(bytes).map(Value::new));
    }
}

/// Decodes a resource.
pub(super) fn decode<T: ResourceMessage>(bytes: &Bytes) -> Result<T, Rejection> {
    // A cheap clone: messages may keep slices of the bytes.
    T::decode(bytes.clone()).map_err(|error| Rejection::new(error.to_string()))
}

impl ResourceType for LateDecoded {
    fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    fn name_field(&self) -> u32 {
        self.name_field
    }

    fn validate(
        &self,
        resource: &Bytes,
        _: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        self.decode.get().map(|decode| decode(resource)).transpose()
    }
}
