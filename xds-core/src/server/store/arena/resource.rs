//! Name with its resource or error.

use alloc::boxed::Box;

use super::endpoint_names::Needs;
use crate::{
    server::store::{
        encode::body::Payload,
        on_demand::Want,
        revision::{Life, Stamp},
        subscriber_list::List,
        transaction::ResourceError,
    },
    text::ResourceName,
};

/// Name with its resource or error.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) name: ResourceName,
    pub(crate) payload: Option<Payload>,
    /// Error sent in place of the resource to clients that name it.
    pub(crate) error: Option<Box<ResourceError>>,
    /// Revision at which it was last set or removed.
    pub(crate) stamp: Stamp,
    /// Revision at which it was set before that, or the same revision if it was created then.
    pub(crate) before: Stamp,
    pub(crate) life: Life,
    /// Last notification to the application.
    pub(crate) want: Want,
    /// Endpoints that a cluster references, if needed.
    pub(crate) needs: Needs,
    /// Subscriptions to the name.
    pub(crate) subscribers: List,
}

/// Contents of a name in a view.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) payload: Option<Payload>,
    pub(crate) needs: Needs,
    pub(crate) error: Option<Box<ResourceError>>,
}

impl Resource {
    /// Whether there is a resource or an error under the name.
    pub(crate) fn is_held(&self) -> bool {
        self.payload.is_some() || self.error.is_some()
    }

    /// Returns the revision at which it was created.
    pub(crate) fn born(&self) -> Stamp {
        self.life.born()
    }

    /// Returns the revision of the last removal before the resource was created again.
    pub(crate) fn buried(&self) -> Option<Stamp> {
        self.life.buried()
    }

    /// Returns the contents to be shown by another view.
    pub(crate) fn shown(&self) -> Shown {
        Shown {
            payload: self.payload.clone(),
            needs: self.needs.clone(),
            error: self.error.clone(),
        }
    }

    /// Records that the application has answered a request for the name.
    pub(crate) fn answer(&mut self) {
        if self.want == Want::Asked {
            self.want = Want::Answered;
        }
    }
}
