//! Names that are fetched on demand, and the notifications about them.

use alloc::{vec, vec::Vec};

use crate::{
    server::config::OnDemand,
    slab::Slot,
    text::{ResourceName, TypeUrl},
};

/// Last notification about a name to the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Want {
    #[default]
    Untold,
    /// The name is wanted.
    Asked,
    /// The name is wanted, and the application has set the resource or an error.
    Answered,
    /// The name is no longer wanted. The application may have kept the resource; it is notified
    /// of the next subscription anyway, because it may be about to drop the resource.
    // M250
    Left,
}

/// Pending notifications to the application.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    pub(crate) policy: OnDemand,
    pub(crate) news: Vec<News>,
}

#[derive(Debug)]
pub(crate) struct News {
    pub(crate) view: Slot,
    pub(crate) type_url: TypeUrl,
    pub(crate) names: Vec<ResourceName>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Wanted,
    Unwanted,
}

impl Wants {
    pub(crate) fn new(policy: OnDemand) -> Self {
        Self { policy, news: Vec::new() }
    }

    /// Queues a notification. Consecutive names are combined, because one request may have many.
    pub(crate) fn tell(&mut self, view: Slot, type_url: &TypeUrl, name: &ResourceName, kind: Kind) {
        if let Some(last) = self.news.last_mut()
            && (last.view, last.kind) == (view, kind)
            && last.type_url == *type_url
        {
            return last.names.push(name.clone());
        }
        let names = vec![name.clone()];
        self.news.push(News { view, type_url: type_url.clone(), names, kind });
    }
}
