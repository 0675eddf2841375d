//! Judgement of a change by the guards, before it is served.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use tokio::task::spawn_blocking;
use xds_core::{
    ViewName,
    guards::{Guards, ViewChange},
    server::ViewContents,
};
use xds_format::nearest;

use super::{follow::SourceFollower, refused::Refused, sources::Changes};
use crate::diagnostic::{Diagnostic, Level, Rule};

impl SourceFollower {
    /// Judges a change by the guards. Returns why it is refused, unless it is forced.
    pub(super) async fn refusal_of(
        &mut self,
        changes: &Changes,
        preview: &[ViewContents],
    ) -> Option<Refused> {
        let stated = self.sources.forced();
        self.guarding.used.retain(|id| stated.ids.contains(id));
        self.guarding.forcing = None;
        let is_first = self.waiting.is_some();
        if self.guarding.guards.is_empty() || changes.is_empty() && !is_first {
            return None;
        }
        let mut views: BTreeMap<ViewName, [ViewContents; 2]> = BTreeMap::new();
        if is_first {
            // Views that clients can have are judged although they have no resources.
            let selected = self.selected.as_ref().map(|it| it.selected().into_iter().cloned());
            let expected: Vec<_> = match selected {
                Some(selected) => selected.collect(),
                None => vec![ViewName::default()],
            };
            views.extend(expected.into_iter().map(|view| (view, Default::default())));
        }
        for after in preview.iter() {
            // An error means that the server has ended.
            let before = self.server.contents(after.view().clone()).await.ok()?;
            views.insert(after.view().clone(), [before, after.clone()]);
        }
        let guards = Arc::clone(&self.guarding.guards);
        let judged = spawn_blocking(move || {
            guards.judge(
                views.iter().map(|(view, [before, after])| ViewChange::new(view, before, after)),
            )
        });
        let change = judged.await.ok()?.err()?;
        // M272
        if stated.ids.contains(&change.id) && !self.guarding.used.contains(&change.id) {
            self.guarding.forcing = Some(change);
            return None;
        }
        let objects = self.sources.concerned_by(changes);
        Some(Refused { change, objects, revision: self.origin.revision(), stated })
    }

    /// Reports to the server, the metrics and the writer of rejections whether the newest state of the
    /// source is refused. Returns whether this is new.
    pub(super) async fn note_refused(&mut self, refused: Option<&Refused>) -> bool {
        match (&self.guarding.reported, refused) {
            (None, None) => return false,
            (Some(reported), Some(refused)) if reported.is_same(refused) => return false,
            _ => {}
        }
        self.guarding.reported = refused.cloned();
        self.metrics.note_refused(refused.is_some());
        if let Some(feedback) = &self.feedback {
            feedback.send_modify(|it| it.refused = refused.cloned());
        }
        let why = refused.map(|it| it.change.to_string().into());
        // An error means that the server has ended.
        let _ = self.server.source_refused(why).await;
        true
    }
}

/// Returns a warning for each rule about a view that does not exist.
pub(crate) fn guards_without_effect(
    place: &Path,
    guards: &Guards,
    judged: &BTreeSet<&ViewName>,
) -> impl Iterator<Item = Diagnostic> {
    guards.iter().filter_map(|guard| {
        let view = guard.view().filter(|view| !judged.contains(view))?;
        let names = judged.iter().map(|it| it.as_str()).filter(|it| !it.is_empty());
        let similar = nearest(view.as_str(), names);
        let similar = similar.map(|it| format!(", did you mean `{it}`?")).unwrap_or_default();
        let text = format!("the rule `{guard}` has no effect: there is no view `{view}`{similar}");
        Some(Diagnostic::new(Rule::Guard, Level::Warning, place, text))
    })
}
