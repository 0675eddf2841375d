//! Validation of resources against the constraints of their schema.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use xds_core::{
    TypeUrl,
    client::{
        CachedResource, ClientConfig, Rejection, ResourceType, ValidationContext, Value,
        VerdictSource,
    },
};
use xds_format::{Schema, Validator, deprecated_uses};

/// Resource type that also enforces the schema's constraints (`validate.rules`). Like Envoy, it
/// rejects a resource that violates one, with the path of the field. The inner type validates
/// resources that pass.
///
/// Use it in clients that act as a proxy. gRPC clients and management servers do not enforce
/// constraints.
// S4.027-S4.032, X39, B15
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

/// Extension of a client's configuration that makes all its types enforce constraints, as Envoy
/// does.
///
/// ```
/// use xds_core::{client::{ClientConfig, ServerAddress, Node, OpaqueType, Profile}, types};
/// use xds_format::Validator;
/// use xds_handle::ValidatedTypes as _;
///
/// let config = ClientConfig::new(Node::new("n"), ServerAddress::new("127.0.0.1:18000"))
///     .with_profile(Profile::envoy())
///     .with_type(OpaqueType::new(types::LISTENER))
///     .with_type(OpaqueType::new(types::CLUSTER))
///     .with_validated_types(Validator::envoy());
/// ```
pub trait ValidatedTypes {
    /// Enforces the constraints of the validator's schema in all resource types registered so far,
    /// with [`Validated`]. Call it after the last `with_type`.
    ///
    /// Call this for a configuration from an Envoy bootstrap too: neither the bootstrap nor
    /// [`Profile::envoy`](xds_core::client::Profile::envoy) has a schema to do it.
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

/// Counters of deprecated fields and values in valid resources. When the counts no longer grow,
/// nothing uses them any more. Clones share the counters.
// S4.011
#[derive(Clone, Debug, Default)]
pub struct Deprecations(Arc<Mutex<BTreeMap<String, u64>>>);

/// Maximum number of different fields and values. The Envoy schema has fewer.
const MAX_DEPRECATIONS: usize = 4096;

impl Deprecations {
    /// Returns the number of uses by full name of the field or value, in all resources.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.counters().clone()
    }

    fn count(&self, full_name: String) {
        let mut counters = self.counters();
        if counters.len() < MAX_DEPRECATIONS || counters.contains_key(&full_name) {
            *counters.entry(full_name).or_default() += 1;
        }
    }

    /// Locks the counters. No code that may panic runs under the lock.
    fn counters(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ResourceType> Validated<T> {
    /// Wraps the type `inner` to enforce the constraints of the validator's schema.
    #[must_use]
    pub fn new(inner: T, validator: &Validator) -> Self {
        Self { inner, validator: validator.clone(), deprecations: None }
    }

    /// Counts the use of deprecated fields and values in valid resources.
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

    fn verdict_source(&self) -> VerdictSource {
        self.inner.verdict_source()
    }

    fn name_field(&self) -> u32 {
        self.inner.name_field()
    }

    fn name<'a>(&self, resource: &'a [u8]) -> Result<&'a str, Rejection> {
        self.inner.name(resource)
    }

    fn validate(
        &self,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        self.check(resource, || self.inner.validate(resource, context))
    }

    fn validate_update(
        &self,
        cached: CachedResource<'_>,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        self.check(resource, || self.inner.validate_update(cached, resource, context))
    }
}

impl<T: ResourceType> Validated<T> {
    /// Checks the constraints, then calls the inner type.
    fn check(
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
