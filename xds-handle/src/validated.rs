//! Resources held against the constraints of their schema, before anybody else looks at them.

use bytes::Bytes;
use xds_core::{
    TypeUrl,
    client::{Context, Rejection, ResourceType, Value, Verdict},
};
use xds_format::Validator;

/// A type whose resources have to keep the constraints that the schema states (`validate.rules`,
/// S4.027-S4.032), and then be valid by the type within. What breaks one is rejected with the path
/// of the field, as a proxy does.
///
/// It is for who plays a proxy: gRPC's clients leave constraints alone (X39, B15), and so do
/// servers. All else is up to the type within.
///
/// ```
/// use xds_core::{client::OpaqueType, types};
/// use xds_format::Validator;
/// use xds_handle::Validated;
///
/// let clusters = Validated::new(OpaqueType::new(types::CLUSTER), Validator::envoy());
/// ```
#[derive(Clone, Debug)]
pub struct Validated<T> {
    inner: T,
    validator: Validator,
}

impl<T: ResourceType> Validated<T> {
    /// The type `inner`, with the constraints of the validator's schema.
    #[must_use]
    pub fn new(inner: T, validator: &Validator) -> Self {
        Self { inner, validator: validator.clone() }
    }
}

impl<T: ResourceType> ResourceType for Validated<T> {
    fn type_url(&self) -> &TypeUrl {
        self.inner.type_url()
    }

    fn full_state_in_sotw(&self) -> bool {
        self.inner.full_state_in_sotw()
    }

    fn verdict(&self) -> Verdict {
        self.inner.verdict()
    }

    fn name<'a>(&self, resource: &'a [u8]) -> Result<&'a str, Rejection> {
        self.inner.name(resource)
    }

    fn validate(
        &self,
        resource: &Bytes,
        context: &Context<'_>,
    ) -> Result<Option<Value>, Rejection> {
        self.validator
            .check(self.type_url().as_str(), resource)
            .map_err(|why| Rejection::new(why.to_string()))?;
        self.inner.validate(resource, context)
    }
}
