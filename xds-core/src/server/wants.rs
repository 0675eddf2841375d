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

use alloc::{vec, vec::Vec};

use super::{Server, ViewName, config::OnDemand, event::ServerOutput};
use crate::{
    id::StreamId,
    slab::Slot,
    text::{ResourceName, TypeUrl},
    xdstp,
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
    names: Vec<ResourceName>,
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

impl Server {
    /// What the application has been asked and has not answered: the clients that wait to be let in
    /// ([`ServerOutput::Authorize`]), in the order in which they came, and the resources that are wanted and neither
    /// set nor said to be missing ([`ServerOutput::Wanted`]). For an application that begins anew with a server that
    /// went on. Costs what there is.
    pub fn open_questions(&self) -> impl Iterator<Item = ServerOutput> + '_ {
        let asks = self.asks_about_clients();
        let waiting = self.streams.iter().filter_map(move |(slot, stream)| {
            let is_asked = asks && stream.view.is_none() && !stream.latched.is_empty();
            let stream_id = self.streams.key(slot).filter(|_| is_asked).map(StreamId)?;
            let node_id = stream.node().cloned().unwrap_or_default();
            Some(ServerOutput::Authorize { stream: stream_id, node_id })
        });
        let store = &self.subscriptions.store;
        let wanted = store.arenas().flat_map(move |arena| {
            let view = store.view(arena.view).map(|view| view.name.clone()).unwrap_or_default();
            let resources = arena.slots().filter_map(|slot| arena.at(slot));
            let asked = resources.filter(|it| it.want == Want::Asked);
            let names: Vec<_> = asked.map(|it| it.name.clone()).collect();
            let type_url = arena.type_url.clone();
            (!names.is_empty()).then_some(ServerOutput::Wanted { view, type_url, names })
        });
        waiting.chain(wanted)
    }

    /// Whether a client names a resource of a view at present, whatever the application was told of that.
    #[must_use]
    pub fn is_named(&self, view: &ViewName, type_url: &str, name: &str) -> bool {
        let store = &self.subscriptions.store;
        let is_named = || {
            let name = xdstp::canonical(&name.into()).ok()?;
            let arena = store.arena(store.find_arena(store.find_view(view)?, type_url)?)?;
            Some(!arena.at(arena.find(name.as_str())?)?.subscribers.is_empty())
        };
        is_named().unwrap_or_default()
    }

    /// Passes on what has come to be wanted, or no longer is.
    pub(super) fn tell_wants(&mut self) {
        if self.subscriptions.wants.news.is_empty() {
            return;
        }
        for News { view, type_url, names, kind } in
            core::mem::take(&mut self.subscriptions.wants.news)
        {
            let Some(view) = self.subscriptions.store.view(view) else { continue };
            let view = view.name.clone();
            self.out.ask(match kind {
                Kind::Wanted => ServerOutput::Wanted { view, type_url, names },
                Kind::Unwanted => ServerOutput::Unwanted { view, type_url, names },
            });
        }
    }
}
