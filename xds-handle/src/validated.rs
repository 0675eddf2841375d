//! Resources held against the constraints of their schema, before anybody else looks at them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use xds_core::{
    TypeUrl,
    client::{ClientConfig, Context, Held, Rejection, ResourceType, Value, Verdict},
};
use xds_format::{Schema, Validator, deprecated_uses};

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
    deprecations: Option<(Schema, Deprecations)>,
}

/// Has a whole client judge as a proxy does.
///
/// ```
/// use xds_core::{client::{ClientConfig, ManagementServer, Node, OpaqueType, Profile}, types};
/// use xds_format::Validator;
/// use xds_handle::ValidatedTypes as _;
///
/// let config = ClientConfig::new(Node::new("n"), ManagementServer::new("127.0.0.1:18000"))
///     .with_profile(Profile::envoy())
///     .with_type(OpaqueType::new(types::LISTENER))
///     .with_type(OpaqueType::new(types::CLUSTER))
///     .with_validated_types(Validator::envoy());
/// ```
pub trait ValidatedTypes {
    /// Holds resources of all types that are registered by now against the constraints of the validator's schema, as
    /// [`Validated`] does. It goes behind the last `with_type`. Who makes the configuration from a proxy's bootstrap
    /// wants this: neither the bootstrap nor [`Profile::envoy`](xds_core::client::Profile::envoy) does it, because
    /// they know no schema.
    #[must_use]
    fn with_validated_types(self, validator: &Validator) -> Self;
}

impl ValidatedTypes for ClientConfig {
    fn with_validated_types(mut self, validator: &Validator) -> Self {
        for registered in &mut self.types {
            *registered = Arc::new(Validated::new(Arc::clone(registered), validator));
        }
        self
    }
}

/// How often deprecated fields and values were seen in resources that are valid (S4.011): once it stays as it is, nobody
/// uses them any more. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Deprecations(Arc<Mutex<BTreeMap<String, u64>>>);

/// So many different fields and values are counted: the schema has less.
const MOST_DEPRECATIONS: usize = 4096;

impl Deprecations {
    /// By the full name of the field or value: in how many places of how many resources, taken together.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.counters().clone()
    }

    fn count(&self, full_name: String) {
        let mut counters = self.counters();
        if counters.len() < MOST_DEPRECATIONS || counters.contains_key(&full_name) {
            *counters.entry(full_name).or_default() += 1;
        }
    }

    /// Nothing that panics happens while it is locked.
    fn counters(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ResourceType> Validated<T> {
    /// The type `inner`, with the constraints of the validator's schema.
    #[must_use]
    pub fn new(inner: T, validator: &Validator) -> Self {
        Self { inner, validator: validator.clone(), deprecations: None }
    }

    /// Counts what valid resources use that the schema says is deprecated.
    #[must_use]
    pub fn with_deprecations(mut self, schema: &Schema, deprecations: Deprecations) -> Self {
        self.deprecations = Some((schema.clone(), deprecations));
        self
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
        self.judge(resource, || self.inner.validate(resource, context))
    }

    fn validate_after(
        &self,
        held: Held<'_>,
        resource: &Bytes,
        context: &Context<'_>,
    ) -> Result<Option<Value>, Rejection> {
        self.judge(resource, || self.inner.validate_after(held, resource, context))
    }
}

impl<T: ResourceType> Validated<T> {
    /// First the constraints, then what the type within says.
    fn judge(
        &self,
        resource: &Bytes,
        inner: impl FnOnce() -> Result<Option<Value>, Rejection>,
    ) -> Result<Option<Value>, Rejection> {
        self.validator
            .check(self.type_url().as_str(), resource)
            .map_err(|why| Rejection::new(why.to_string()))?;
        let value = inner()?;
        if let Some((schema, deprecations)) = &self.deprecations {
            let uses = deprecated_uses(schema, self.type_url().as_str(), resource);
            for it in uses.unwrap_or_default() {
                deprecations.count(it.full_name);
            }
        }
        Ok(value)
    }
}
