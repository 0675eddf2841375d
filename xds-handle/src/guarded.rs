//! Protection against panics in application-defined resource types.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;
use xds_core::{
    TypeUrl,
    client::{
        CachedResource, ClientConfig, FlowControl, Rejection, ResourceType, ValidationContext,
        Value, VerdictSource,
    },
    types,
};

/// Wraps all registered resource types so that a panic in one rejects the resource, if panics
/// unwind.
///
/// Drivers call this before they create a [`Client`](xds_core::Client), because the client calls
/// resource types in the driver's task.
// AN-12
#[must_use]
pub fn guard_types(mut config: ClientConfig) -> ClientConfig {
    for registered in &mut config.types {
        *registered = Arc::new(GuardedType::new(Arc::clone(registered)));
    }
    config
}

/// Prepares a configuration for a driver, before it creates a [`Client`](xds_core::Client).
///
/// Wraps the resource types ([`guard_types`]). Turns flow control [off](FlowControl::Off) if the
/// configuration leaves it [unset](FlowControl::Unset), so that a watch that is not polled does not
/// stop reading.
#[must_use]
pub fn prepare(config: ClientConfig) -> ClientConfig {
    let mut config = guard_types(config);
    if config.profile.flow_control == FlowControl::Unset {
        config.profile.flow_control = FlowControl::Off;
    }
    config
}

/// Returns the result of `validate`, or a rejection if it panics.
pub(crate) fn rejecting_panics<T>(
    source: &str,
    validate: impl FnOnce() -> Result<T, Rejection>,
) -> Result<T, Rejection> {
    catch_unwind(AssertUnwindSafe(validate)).unwrap_or_else(|panic| {
        Err(Rejection::new(format!("{source} panicked: {}", text(&*panic))))
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}

#[derive(Debug)]
struct GuardedType {
    type_url: TypeUrl,
    inner: Arc<dyn ResourceType>,
}

impl GuardedType {
    fn new(inner: Arc<dyn ResourceType>) -> Self {
        Self { type_url: inner.type_url().clone(), inner }
    }
}

const RESOURCE_TYPE: &str = "the resource type";

impl ResourceType for GuardedType {
    fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    fn full_state_in_sotw(&self) -> bool {
        let stated = catch_unwind(AssertUnwindSafe(|| self.inner.full_state_in_sotw()));
        stated.unwrap_or_else(|_| types::is_full_state_in_sotw(self.type_url.as_str()))
    }

    fn verdict_source(&self) -> VerdictSource {
        let stated = catch_unwind(AssertUnwindSafe(|| self.inner.verdict_source()));
        stated.unwrap_or(VerdictSource::Validation)
    }

    fn name_field(&self) -> u32 {
        catch_unwind(AssertUnwindSafe(|| self.inner.name_field())).unwrap_or(1)
    }

    fn name<'a>(&self, resource: &'a [u8]) -> Result<&'a str, Rejection> {
        rejecting_panics(RESOURCE_TYPE, || self.inner.name(resource))
    }

    fn validate(
        &self,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        rejecting_panics(RESOURCE_TYPE, || self.inner.validate(resource, context))
    }

    fn validate_update(
        &self,
        cached: CachedResource<'_>,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        rejecting_panics(RESOURCE_TYPE, || self.inner.validate_update(cached, resource, context))
    }
}
