//! Name with its resource or error.

use alloc::boxed::Box;

use super::endpoint_names::{EarlierEndpoints, EndpointNames};
use crate::{
    server::store::{
        encode::body::Payload, on_demand::OnDemandState, revision::Revision,
        subscription_list::SubscriptionList, transaction::ResourceError,
    },
    text::ResourceName,
};

/// Name with its resource or error.
#[derive(Debug, Default)]
pub(crate) struct ResourceEntry {
    pub(crate) name: ResourceName,
    pub(crate) payload: Option<Payload>,
    /// Error sent in place of the resource to clients that name it.
    pub(crate) error: Option<Box<ResourceError>>,
    /// Revision at which it was last set or removed.
    pub(crate) revision: Revision,
    /// Revision at which it was set before that, or the same revision if it was created then.
    pub(crate) before: Revision,
    /// Revision at which the name had its first resource, as far as is known.
    pub(crate) first: Revision,
    /// Revision at which the newest resource was created.
    pub(crate) created: Revision,
    /// Last notification to the application.
    pub(crate) on_demand_state: OnDemandState,
    /// Endpoints that a cluster references, if needed.
    pub(crate) endpoint_names: EndpointNames,
    /// Endpoints that it referenced before, if they were others.
    pub(crate) earlier_endpoints: Option<Box<EarlierEndpoints>>,
    /// Subscriptions to the name.
    pub(crate) subscribers: SubscriptionList,
}

/// Contents of a name in a view.
#[derive(Debug, Default)]
pub(crate) struct EffectiveContents {
    pub(crate) payload: Option<Payload>,
    pub(crate) endpoint_names: EndpointNames,
    pub(crate) error: Option<Box<ResourceError>>,
}

impl ResourceEntry {
    /// Whether there is a resource or an error under the name.
    pub(crate) fn is_held(&self) -> bool {
        self.payload.is_some() || self.error.is_some()
    }

    /// Records the creation of a resource.
    pub(super) fn note_created(&mut self, now: Revision) {
        self.created = now;
        if self.first == Revision::START {
            self.first = now;
        }
    }

    /// Returns the contents to be shown by another view.
    pub(crate) fn effective_contents(&self) -> EffectiveContents {
        EffectiveContents {
            payload: self.payload.clone(),
            endpoint_names: self.endpoint_names.clone(),
            error: self.error.clone(),
        }
    }

    /// Whether the application was asked for the resource and has not answered.
    pub(crate) fn is_requested(&self) -> bool {
        self.on_demand_state == OnDemandState::Requested
    }

    /// Records that the application has answered a request for the name.
    pub(crate) fn answer(&mut self) {
        if self.is_requested() {
            self.on_demand_state = OnDemandState::Provided;
        }
    }
}
