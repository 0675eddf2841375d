//! A name, and what there is under it.

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

/// A name, and what there is under it.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) name: ResourceName,
    pub(crate) payload: Option<Payload>,
    /// What is told instead to who names it.
    pub(crate) error: Option<Box<ResourceError>>,
    /// When it was last set or deleted.
    pub(crate) stamp: Stamp,
    /// When it was set before that; if it was created then, the same.
    pub(crate) before: Stamp,
    pub(crate) life: Life,
    /// What the application was told of it.
    pub(crate) want: Want,
    /// The endpoints it names, if that is asked about.
    pub(crate) needs: Needs,
    /// Who subscribes to it by name.
    pub(crate) subscribers: List,
}

/// What a name stands for in a view.
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

    /// When it was created, as whatever it was then.
    pub(crate) fn born(&self) -> Stamp {
        self.life.born()
    }

    /// When it was last deleted before it was created as it is.
    pub(crate) fn buried(&self) -> Option<Stamp> {
        self.life.buried()
    }

    /// What another view shows of it.
    pub(crate) fn shown(&self) -> Shown {
        Shown {
            payload: self.payload.clone(),
            needs: self.needs.clone(),
            error: self.error.clone(),
        }
    }

    /// The application has said what there is.
    pub(crate) fn answer(&mut self) {
        if self.want == Want::Asked {
            self.want = Want::Answered;
        }
    }
}
