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

use super::{
    Server, ViewName,
    event::ServerOutput,
    store::on_demand::{Kind, News, Want},
};
use crate::{id::StreamId, xdstp};

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
    pub(crate) fn tell_wants(&mut self) {
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
