//! Decision whether the state of a source can be served.

use core::{convert::identity, mem};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::task::spawn_blocking;
use xds_core::{ViewName, server::ViewContents};
use xds_format::Position;
use xds_tokio::server::ApplyError;

use super::{
    findings::{Broken, dangling},
    follow::SourceFollower,
    guarded::guards_without_effect,
    parse::Problems,
    reload::{ReadinessChange, Reload, ViewsChange},
    sources::{Changes, FileError, Update},
};
use crate::{
    diagnostic::{Diagnostic, Level, Rule},
    text::count,
    views::Views,
};

impl SourceFollower {
    /// Examines what was read of the source, and records that it can be read.
    pub(super) async fn examine_read(&mut self, update: Update) -> (Reload, Option<Changes>) {
        self.metrics.note_success();
        let was_failing = mem::take(&mut self.is_failing);
        let (mut reload, change) = self.examine(update).await;
        if was_failing {
            reload.repaired.push(self.origin.place().to_owned());
        }
        (reload, change)
    }

    /// Returns the new errors in the files, and the changes of the resources. There are none if the
    /// state is rejected, or if the server waits for other files.
    pub(super) async fn examine(&mut self, update: Update) -> (Reload, Option<Changes>) {
        if !matches!(update, Update::Nothing) {
            self.note_changed(&update);
        }
        let mut sources = mem::take(&mut self.sources);
        // Parsing large files takes seconds. It must not block streams.
        let updated = spawn_blocking(move || {
            let errors = match update {
                Update::All(objects) => sources.replace(objects),
                Update::Changed(changes) => sources.change(changes),
                Update::Nothing => Vec::new(),
            };
            let repaired = sources.take_repaired();
            (sources, errors, repaired)
        });
        let Ok((sources, errors, repaired)) = updated.await else {
            return (self.report("the resources could not be examined".to_owned()), None);
        };
        self.sources = sources;
        self.note_invalid();
        let unused = self.new_unused();
        let (mut reload, change) = self.decide().await;
        reload.errors.splice(0..0, errors);
        reload.repaired = repaired;
        reload.findings.splice(0..0, unused);
        (reload, change)
    }

    /// Counts the invalid objects, and passes them on to the writer of feedback.
    fn note_invalid(&self) {
        self.metrics.set_broken(self.sources.broken().count());
        let Some(feedback) = &self.feedback else { return };
        let invalid = self.sources.invalid();
        feedback.send_if_modified(|it| {
            let is_changed = it.invalid != invalid;
            it.invalid = invalid;
            is_changed
        });
    }

    /// Decides whether the state of the files can be served.
    async fn decide(&mut self) -> (Reload, Option<Changes>) {
        let never_valid = self.sources.never_valid();
        if self.waiting.is_some() && !never_valid.is_empty() {
            self.last_failure = None;
            let readiness = self.report_waiting(never_valid);
            return (Reload { readiness, ..Reload::default() }, None);
        }
        let caught_up = match self.catch_up().await {
            Err(failed) if self.waiting.is_some() => return (failed, None),
            caught_up => caught_up,
        };
        let has_caught_up = caught_up.is_ok();
        let caught_up = caught_up.unwrap_or_else(identity);
        let (mut reload, change) = self.decide_changes().await;
        if has_caught_up && change.as_ref().is_none_or(Changes::is_empty) {
            self.forget_rollout_failure();
        }
        reload.errors.splice(0..0, caught_up.errors);
        if caught_up.rollout.is_some() {
            (reload.rollout, reload.changes) = (caught_up.rollout, caught_up.changes);
        }
        (reload, change)
    }

    /// Decides whether the differences from what is served can be served.
    async fn decide_changes(&mut self) -> (Reload, Option<Changes>) {
        let resources = self.sources.served();
        let changes = self.sources.changes();
        let preview = match self.preview(&changes).await {
            Ok(preview) => preview,
            Err(failed) => return (failed, None),
        };
        self.last_failure = None;
        let refused = self.refusal_of(&changes, &preview).await;
        let is_new = self.note_refused(refused.as_ref()).await;
        let mut reload = Reload { resources, ..Reload::default() };
        let is_refused = refused.is_some();
        // What is not served has no findings, except those that explain the refusal.
        if refused.as_ref().is_some_and(|it| it.dangling() == 0) {
            reload.refused = refused.filter(|_| is_new);
            return (reload, None);
        }
        let known = self.check(preview, is_refused).await;
        // Dangling references that have not changed have already been reported.
        let is_known: BTreeSet<_> = known.iter().map(key).collect();
        reload.findings = distinct(self.dangling.values());
        reload.findings.retain(|finding| !is_known.contains(&key(finding)));
        if is_refused {
            reload.refused = refused.filter(|_| is_new);
            return (reload, None);
        }
        if changes.is_empty() {
            self.set_merged(false);
            reload.readiness = self.become_ready().await;
        }
        (reload, Some(changes))
    }

    /// Returns the contents of the views that a change concerns. Fails if the server does not accept
    /// the change.
    async fn preview(&mut self, changes: &Changes) -> Result<Vec<ViewContents>, Reload> {
        let mut preview = Vec::new();
        for transaction in self.transactions(changes) {
            match self.server.preview(transaction).await {
                Ok(views) => preview.extend(views),
                Err(why @ ApplyError::Transaction(_)) => return Err(self.report(why.to_string())),
                Err(_) => return Err(Reload::default()),
            }
        }
        // Nobody sees a view that is only the base of others.
        preview.retain(|it| {
            self.selected.as_ref().is_none_or(|views| views.selected().contains(it.view()))
        });
        Ok(preview)
    }

    /// Examines the resources that other views would have. Returns the views too if they can be used.
    pub(super) async fn examine_views(
        &mut self,
        views: Arc<Views>,
    ) -> (Reload, Option<Changes>, Option<Arc<Views>>) {
        self.rejected_views = None;
        let bases = self.sources.set_bases(views.bases().clone());
        let before = self.selected.replace(Arc::clone(&views));
        let (mut reload, change) = self.examine(Update::Nothing).await;
        if change.is_some() || self.waiting.is_some() {
            return (reload, change, Some(views));
        }
        self.sources.set_bases(bases);
        self.selected = before;
        self.rejected_views = Some(views);
        reload.views = Some(ViewsChange::Rejected);
        // What was reported of the state in use is known again.
        drop(self.examine(Update::Nothing).await);
        (reload, None, None)
    }

    /// Returns new warnings about views, and about rules for views and for changes, without effect.
    fn new_unused(&mut self) -> Vec<Diagnostic> {
        let default = ViewName::default();
        let (mut unused, judged) = match &self.selected {
            Some(views) => (views.findings(&self.sources.views()), views.selected()),
            None => {
                let all = self.sources.all_views().into_iter().chain([&default]);
                let unused = views_without_clients(self.origin.place(), &self.sources.views());
                (unused, all.collect())
            }
        };
        let guards = &self.guarding.guards;
        unused.extend(guards_without_effect(self.origin.place(), guards, &judged));
        let is_known = mem::replace(&mut self.unused, unused);
        self.unused.iter().filter(|it| !is_known.contains(it)).cloned().collect()
    }

    /// Checks the references of the state to be served. A rejected change is explained by all its
    /// dangling references. Returns the dangling references found before.
    async fn check(&mut self, preview: Vec<ViewContents>, is_strict: bool) -> Vec<Diagnostic> {
        let sources = mem::take(&mut self.sources);
        let consistency = Arc::clone(&self.consistency);
        let checked = spawn_blocking(move || {
            let broken = if is_strict { Broken::default() } else { Broken::of(&sources) };
            let of = |contents: &ViewContents| {
                let found = dangling(&sources, contents, &consistency, &broken);
                (contents.view().clone(), found)
            };
            let found: Vec<_> = preview.iter().map(of).collect();
            (sources, found)
        });
        let Ok((sources, found)) = checked.await else { return Vec::new() };
        self.sources = sources;
        let known = distinct(self.dangling.values());
        self.dangling.extend(found);
        let views = self.sources.all_views();
        self.dangling.retain(|view, _| views.contains(view));
        known
    }

    /// Records the files that the server waits for. Returns `None` if they have not changed, or if
    /// the server is ready.
    fn report_waiting(&mut self, files: Vec<PathBuf>) -> Option<ReadinessChange> {
        let reported = self.waiting.as_mut()?;
        if *reported == files {
            return None;
        }
        reported.clone_from(&files);
        self.metrics.set_waiting(files.clone());
        Some(ReadinessChange::Waiting(files))
    }

    /// Reports a problem with the whole source, once until it is resolved.
    pub(super) fn report(&mut self, error: String) -> Reload {
        let is_new = self.last_failure.as_ref() != Some(&error);
        let file: PathBuf = self.origin.place().to_owned();
        let readiness = self.report_waiting(vec![file.clone()]);
        self.last_failure = Some(error.clone());
        let resources = self.sources.served();
        let problems = Problems::one(&file, error);
        let error = FileError { file, problems, kept: resources };
        let errors = if is_new { vec![error] } else { Vec::new() };
        Reload { errors, resources, readiness, ..Reload::default() }
    }
}

/// Returns a warning for each view with resources that clients cannot have, because no file selects
/// their views.
fn views_without_clients(place: &Path, views: &BTreeMap<ViewName, usize>) -> Vec<Diagnostic> {
    let unused = views.iter().filter(|(view, count)| !view.as_str().is_empty() && **count > 0);
    let finding = |(view, resources): (&ViewName, &usize)| {
        let resources = count(*resources as u64, "resource");
        let text = format!(
            "no client has the view `{view}` ({resources}): all have the view `default`, because no \
             file of views (`--views`) is given"
        );
        Diagnostic::new(Rule::UnusedView, Level::Warning, place, text)
    };
    unused.map(finding).collect()
}

/// Returns the findings of several views, each once.
fn distinct<'f>(views: impl Iterator<Item = &'f Vec<Diagnostic>>) -> Vec<Diagnostic> {
    let mut seen = BTreeSet::new();
    views.flatten().filter(|finding| seen.insert(key(finding))).cloned().collect()
}

/// Returns what distinguishes a finding from others.
fn key(finding: &Diagnostic) -> (&Path, Option<Position>, &str) {
    (&finding.file, finding.position, &finding.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_that_no_client_has_are_reported_if_no_views_are_selected() {
        let views = [("", 3), ("edge", 2), ("empty", 0)];
        let views = views.into_iter().map(|(view, resources)| (view.into(), resources)).collect();
        let found = views_without_clients(Path::new("kube://"), &views);
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "kube://: no client has the view `edge` (2 resources): all have the view `default`, because \
              no file of views (`--views`) is given"
            ]
        );
    }
}
