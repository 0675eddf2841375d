//! Resources that are asked for and that the store lacks: the application can make or fetch them when
//! somebody wants them (M254-M256).
//!
//! ```text
//!             somebody names it                 it is set, or said to be missing
//!   no matter ------------------> asked: Wanted --------------------------------> answered
//!       ^                            |                                                |
//!       +------ the last one who named it has gone: Unwanted ------------------------+
//!
//! Who names it after that makes it wanted again, though the resource may still be there.
//! ```
//!
//! Until the application has answered, an incremental client is not told that there is no such resource:
//! nobody knows yet.

use alloc::vec::Vec;

use super::{Server, config::OnDemand, event::ServerOutput};
use crate::{
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
    news: Vec<News>,
}

#[derive(Debug)]
struct News {
    view: Slot,
    type_url: TypeUrl,
    name: ResourceName,
    kind: Kind,
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

    pub(crate) fn tell(&mut self, view: Slot, type_url: &TypeUrl, name: &ResourceName, kind: Kind) {
        self.news.push(News { view, type_url: type_url.clone(), name: name.clone(), kind });
    }
}

impl Server {
    /// Passes on what has come to be wanted, or no longer is.
    pub(super) fn tell_wants(&mut self) {
        if self.subscriptions.wants.news.is_empty() {
            return;
        }
        for News { view, type_url, name, kind } in
            core::mem::take(&mut self.subscriptions.wants.news)
        {
            let Some(view) = self.subscriptions.store.view(view) else { continue };
            let view = view.name.clone();
            self.out.ask(match kind {
                Kind::Wanted => ServerOutput::Wanted { view, type_url, name },
                Kind::Unwanted => ServerOutput::Unwanted { view, type_url, name },
            });
        }
    }
}
