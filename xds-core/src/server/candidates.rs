//! Access of rollouts to views and streams.

use alloc::{sync::Arc, vec::Vec};

use super::{
    DropView, Server, session::session_view::SessionView, store::transaction::TransactionError,
};
use crate::{
    id::StreamId,
    text::{TypeUrl, ViewName},
    time::Time,
};

impl Server {
    /// Opens a view as the candidate of a stable one: its clients count as clients of the stable view
    /// in reports to the application, and both are kept.
    pub(crate) fn open_candidate(
        &mut self,
        candidate: &ViewName,
        stable: &ViewName,
    ) -> Result<(), TransactionError> {
        let limit = self.config.limits.views;
        match self.subscriptions.store.open_candidate(candidate, stable, limit) {
            true => Ok(()),
            false => Err(TransactionError::TooManyViews { limit }),
        }
    }

    /// Drops a candidate that no client sees any more.
    pub(crate) fn drop_candidate(&mut self, candidate: &ViewName, now: Time) {
        let store = &mut self.subscriptions.store;
        if let Some(slot) = store.find_view(candidate) {
            store.close_candidate(slot);
        }
        self.drop_view(candidate, DropView::Freeze, now);
        self.review_layers();
        self.watch_views();
    }

    /// Makes a view a copy of another one that has no layers. Bytes are shared.
    pub(crate) fn copy_to_view(
        &mut self,
        from: &ViewName,
        to: &ViewName,
        now: Time,
    ) -> Result<(), TransactionError> {
        for copy in self.subscriptions.store.copied(from, to) {
            self.apply(copy, now)?;
        }
        Ok(())
    }

    /// Returns the names of a view's layers, topmost first; none if it has resources of its own.
    pub(crate) fn layers_of(&self, view: &ViewName) -> Vec<ViewName> {
        let store = &self.subscriptions.store;
        let view = store.find_view(view).and_then(|slot| store.view(slot));
        let layers = view.map(|view| &*view.layers).unwrap_or_default();
        layers.iter().filter_map(|&it| store.view(it)).map(|it| it.name.clone()).collect()
    }

    /// Returns the view of a stream, if it has one.
    pub(crate) fn view_of(&self, stream: StreamId) -> Option<&ViewName> {
        let view = self.streams.get(stream.0)?.view?;
        Some(&self.subscriptions.store.view(view)?.name)
    }

    /// Returns the streams whose clients have stated their nodes, with the ids of these.
    pub(crate) fn identified(&self) -> impl Iterator<Item = (StreamId, Arc<str>)> {
        self.open_streams().filter_map(|(id, stream)| Some((id, stream.node()?.clone())))
    }

    /// Returns the types of a stream whose newest response is unanswered, with the number in its nonce.
    pub(crate) fn unanswered(&self, stream: StreamId) -> impl Iterator<Item = (TypeUrl, u64)> {
        let unanswered =
            |it: SessionView<'_>| Some((it.arena.type_url.clone(), it.session.unanswered_nonce()?));
        self.sessions_of(stream).filter_map(unanswered)
    }
}
