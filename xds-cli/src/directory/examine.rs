//! Decision whether the state of a source can be served.

use core::mem;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::task::spawn_blocking;
use xds_core::server::ViewContents;
use xds_format::Position;
use xds_tokio::server::ApplyError;

use super::{
    findings::{Broken, dangling},
    follow::SourceFollower,
    parse::Problems,
    rejected::Rejected,
    reload::{DanglingReferences, ReadinessChange, Reload, ViewsChange},
    sources::{Changes, FileError, Update},
};
use crate::{
    diagnostic::{Diagnostic, Level},
    views::Views,
};

impl SourceFollower {
    /// Returns the new errors in the files, and the changes of the resources. There are none if the
    /// state is rejected, or if the server waits for other files.
    pub(super) async fn examine(&mut self, update: Update) -> (Reload, Option<Changes>) {
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
        self.metrics.set_broken(self.sources.broken().count());
        let unused = self.new_unused_views();
        let (mut reload, change) = self.decide().await;
        reload.errors.splice(0..0, errors);
        reload.repaired = repaired;
        if mem::take(&mut self.is_failing) {
            reload.repaired.push(self.origin.place());
        }
        reload.findings.splice(0..0, unused);
        (reload, change)
    }

    /// Decides whether the state of the files can be served.
    async fn decide(&mut self) -> (Reload, Option<Changes>) {
        let resources = self.sources.served();
        let never_valid = self.sources.never_valid();
        if self.waiting.is_some() && !never_valid.is_empty() {
            self.last_failure = None;
            let readiness = self.report_waiting(never_valid);
            return (Reload { readiness, ..Reload::default() }, None);
        }
        let changes = self.sources.changes();
        let removal = self.max_removal.and_then(|it| it.exceeded_by(&changes.removed(), resources));
        let reported = mem::replace(&mut self.removal, removal);
        if let Some(removal) = &self.removal {
            self.last_failure = None;
            let is_new = reported.as_ref() != Some(removal);
            let rejected = is_new.then(|| Rejected::Removal(removal.clone()));
            return (Reload { rejected, resources, ..Reload::default() }, None);
        }
        let mut preview = Vec::new();
        for transaction in changes.clone().into_transactions(self.origin.revision()) {
            match self.server.preview(transaction).await {
                Ok(views) => preview.extend(views),
                Err(why @ ApplyError::Transaction(_)) => {
                    return (self.report(why.to_string()), None);
                }
                Err(_) => return (Reload::default(), None),
            }
        }
        self.last_failure = None;
        // Nobody sees a view that is only the base of others.
        preview.retain(|it| {
            self.selected.as_ref().is_none_or(|views| views.selected().contains(it.view()))
        });
        let changed: Vec<_> = preview.iter().map(|it| it.view().clone()).collect();
        let known = self.check(preview).await;
        let found = distinct(self.dangling.values());
        let wrong = distinct(changed.iter().filter_map(|view| self.dangling.get(view)));
        let wrong = wrong.iter().filter(|it| it.level == Level::Error).count();
        let is_rejected = self.policy == DanglingReferences::Rejected && wrong > 0;
        // Dangling references that have not changed have already been reported.
        let is_known: BTreeSet<_> = known.iter().map(key).collect();
        let is_new = |finding: &&Diagnostic| !is_known.contains(&key(finding));
        let findings: Vec<_> = found.iter().filter(is_new).cloned().collect();
        let is_new = !findings.is_empty() || known.len() != found.len();
        let rejected = (is_rejected && is_new).then_some(Rejected::Dangling(wrong));
        let mut reload = Reload { findings, rejected, resources, ..Reload::default() };
        if is_rejected {
            return (reload, None);
        }
        if changes.is_empty() {
            reload.readiness = self.become_ready().await;
        }
        (reload, Some(changes))
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

    /// Returns new warnings about rules and views without effect.
    fn new_unused_views(&mut self) -> Vec<Diagnostic> {
        let Some(views) = &self.selected else { return Vec::new() };
        let unused = views.findings(&self.sources.views());
        let is_known = mem::replace(&mut self.unused, unused);
        self.unused.iter().filter(|it| !is_known.contains(it)).cloned().collect()
    }

    /// Checks the references of the state to be served. Returns the dangling
    /// references found before.
    async fn check(&mut self, preview: Vec<ViewContents>) -> Vec<Diagnostic> {
        let sources = mem::take(&mut self.sources);
        let consistency = Arc::clone(&self.consistency);
        // A rejected change is explained by all its dangling references.
        let is_strict = self.policy == DanglingReferences::Rejected;
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
        Some(ReadinessChange::Waiting(files))
    }

    /// Reports a problem with the whole source, once until it is resolved.
    pub(super) fn report(&mut self, error: String) -> Reload {
        let is_new = self.last_failure.as_ref() != Some(&error);
        let file: PathBuf = self.origin.place();
        let readiness = self.report_waiting(vec![file.clone()]);
        self.last_failure = Some(error.clone());
        let resources = self.sources.served();
        let problems = Problems::one(&file, error);
        let error = FileError { file, problems, kept: resources };
        let errors = if is_new { vec![error] } else { Vec::new() };
        Reload { errors, resources, readiness, ..Reload::default() }
    }
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
