//! Names that are fetched on demand: what the application was notified of.

use alloc::{vec, vec::Vec};

use crate::{
    server::config::OnDemand,
    slab::Slot,
    text::{ResourceName, TypeUrl},
};

/// What the application has been told of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Want {
    #[default]
    Untold,
    /// That it is wanted.
    Asked,
    /// That, and it has set the resource or an error.
    Answered,
    /// That nobody wants it any more. What it has set may have stayed, and if so it is told of the next
    /// one who does all the same: it may be about to give the resource up (M250).
    Left,
}

/// What is to be told the application.
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

    /// What comes one after the other is told together: one request may name a great deal.
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
