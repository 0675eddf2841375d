//! Task that keeps a management server in sync with a source: the files of a directory, or the keys
//! of etcd.

use core::future::pending;
use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use tokio::{
    select,
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};
use xds_core::{ViewName, references::Consistency, server::Applied};
use xds_tokio::{ServerHandle, server::ApplyError};

use super::{
    metrics::SourceMetrics,
    reader::SourceReader,
    refused::GuardState,
    reload::{FeedbackState, FollowOptions, ReadinessChange, Reload, ViewsChange},
    rollouts::FollowedRollouts,
    selection::FollowedViews,
    sources::{Changes, Sources, Update},
};
use crate::{diagnostic::Diagnostic, tls_advice::TlsOptions, views::Views};

/// Source that a management server follows. Dropping it stops following.
#[derive(Debug)]
pub(crate) struct FollowedSource {
    reloads: mpsc::Receiver<Reload>,
    task: JoinHandle<()>,
}

impl FollowedSource {
    /// Applies the contents of the source to the server, and keeps following the source.
    ///
    /// Nothing is served until every file has been valid once, because clients would treat the
    /// resources of a broken file as deleted. The server holds requests until then.
    ///
    /// # Errors
    ///
    /// Returns an error if the source is a directory that cannot be read. If this happens later, or
    /// with another source, it is reported like an error of a file, and the last valid state is
    /// kept.
    pub(crate) async fn start(
        origin: SourceReader,
        options: FollowOptions,
        server: ServerHandle,
    ) -> io::Result<(Self, Reload)> {
        let mut follower = SourceFollower::new(origin, options, server);
        let (mut first, change) = match follower.origin.next().await {
            Ok(update) => follower.examine_read(update).await,
            Err(why) if !follower.origin.is_shared() => return Err(why),
            Err(why) => follower.note_failure(&why).await,
        };
        follower.origin.confirm_for(&follower.server);
        if let Some(change) = change.filter(|it| !it.is_empty()) {
            let served = follower.serve_or_roll_out(change).await;
            first.errors.extend(served.errors);
            first.resources = served.resources;
            first.readiness = served.readiness;
            first.forced = served.forced;
            first.rollout = served.rollout;
            first.changes = served.changes;
        }
        follower.note_rollouts();
        follower.note_reached().await;
        let (sender, reloads) = mpsc::channel(1);
        let task = tokio::spawn(follower.run(sender));
        Ok((Self { reloads, task }, first))
    }

    /// Waits for the next reload to report; `None` once the server has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Reload> {
        self.reloads.recv().await
    }
}

impl Drop for FollowedSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// State of the task.
#[derive(Debug)]
pub(super) struct SourceFollower {
    pub(super) origin: SourceReader,
    pub(super) sources: Sources,
    pub(super) consistency: Arc<Consistency<'static>>,
    pub(super) guarding: GuardState,
    pub(super) feedback: Option<watch::Sender<FeedbackState>>,
    pub(super) views: Option<FollowedViews>,
    pub(super) rollouts: Option<FollowedRollouts>,
    /// Views in use, or those that are examined.
    pub(super) selected: Option<Arc<Views>>,
    /// Views whose resources are rejected as long as those of the source do not change.
    pub(super) rejected_views: Option<Arc<Views>>,
    pub(super) metrics: Arc<SourceMetrics>,
    /// Dangling references that have been reported, by view.
    pub(super) dangling: BTreeMap<ViewName, Vec<Diagnostic>>,
    /// Rules and views without effect that have been reported.
    pub(super) unused: Vec<Diagnostic>,
    /// Reported problem with the whole source or with the server.
    pub(super) last_failure: Option<String>,
    /// Whether the last attempt to read or watch the source has failed.
    pub(super) is_failing: bool,
    /// Files that the server waits for, as reported; `None` once it is ready.
    pub(super) waiting: Option<Vec<PathBuf>>,
    pub(super) server: ServerHandle,
}

impl SourceFollower {
    fn new(origin: SourceReader, mut options: FollowOptions, server: ServerHandle) -> Self {
        let mut sources = Sources::new(options.validation);
        let selected = options.views.as_ref().map(|views| views.selection().views());
        if let Some(views) = &selected {
            sources.set_bases(views.bases().clone());
        }
        if let Some(rollouts) = &mut options.rollouts {
            sources.restore_served(rollouts.take_restored());
        }
        Self {
            origin,
            sources,
            consistency: options.consistency.into(),
            guarding: GuardState::new(options.guards),
            feedback: options.feedback,
            views: options.views,
            rollouts: options.rollouts,
            selected,
            rejected_views: None,
            metrics: options.metrics,
            dangling: BTreeMap::new(),
            unused: Vec::new(),
            last_failure: None,
            is_failing: false,
            waiting: Some(Vec::new()),
            server,
        }
    }

    async fn run(mut self, reloads: mpsc::Sender<Reload>) {
        loop {
            let views_read = async {
                match &mut self.views {
                    Some(views) => views.next().await,
                    None => pending().await,
                }
            };
            let mut is_of_source = false;
            let (reload, change, views) = select! {
                update = self.origin.next() => {
                    is_of_source = update.is_ok();
                    let (reload, change) = match update {
                        Ok(update) => self.examine_read(update).await,
                        Err(why) => self.note_failure(&why).await,
                    };
                    (reload, change, None)
                }
                read = views_read => match read {
                    Ok(views) => {
                        self.metrics.set_invalid_views(false);
                        self.examine_views(views).await
                    }
                    Err(errors) => {
                        self.metrics.set_invalid_views(true);
                        let views = Some(ViewsChange::Invalid(errors));
                        (Reload { views, ..Reload::default() }, None, None)
                    }
                },
                () = Self::rollouts_due(&mut self.rollouts) => {
                    if self.is_failing {
                        self.retry_rollouts_later();
                        continue;
                    }
                    let (reload, change) = self.examine(Update::Nothing).await;
                    (reload, change, None)
                }
            };
            if self.apply(&reloads, reload, change, views).await.is_none() {
                return;
            }
            // The change may have made the views acceptable.
            if is_of_source && let Some(views) = self.rejected_views.take() {
                let (mut reload, change, views) = self.examine_views(views).await;
                if views.is_some() {
                    reload.views = None;
                    if self.apply(&reloads, reload, change, views).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Reports a reload, and then applies the change and uses the views. Returns `None` if there is no
    /// receiver.
    async fn apply(
        &mut self,
        reloads: &mpsc::Sender<Reload>,
        mut reload: Reload,
        change: Option<Changes>,
        views: Option<Arc<Views>>,
    ) -> Option<()> {
        if reload.has_changes() {
            let (reported, is_reported) = oneshot::channel();
            reload._reported = Some(reported);
            reloads.send(reload).await.ok()?;
            // The receiver signals that it has reported the errors by dropping the reload.
            let _ = is_reported.await;
        }
        let served = match (change, views) {
            (change, Some(views)) => self.serve_views(change.unwrap_or_default(), views).await,
            (Some(change), None) if !change.is_empty() => self.serve_or_roll_out(change).await,
            (_, None) => Reload::default(),
        };
        self.note_rollouts();
        self.note_reached().await;
        if served.has_changes() {
            reloads.send(served).await.ok()?;
        }
        Some(())
    }

    /// Tells the server up to which revision of the source it has all changes. What was rejected
    /// counts: other replicas reject it too.
    fn note_reached(&self) -> impl Future<Output = ()> + Send + 'static {
        let is_known = self.waiting.is_none() && self.origin.is_reachable();
        let reached = self.origin.revision().filter(|_| is_known);
        let server = self.server.clone();
        async move {
            if let Some(revision) = reached {
                // An error means that the server has ended.
                let _ = server.source_reached(revision.0).await;
            }
        }
    }

    /// Reports a failure of the source. The last valid state stays in use.
    async fn note_failure(&mut self, why: &io::Error) -> (Reload, Option<Changes>) {
        self.metrics.note_failure(why);
        self.is_failing = true;
        if self.origin.revision().is_some() {
            let _ = self.server.source_unreachable().await;
        }
        let why = TlsOptions::Etcd.named_in(&why.to_string());
        let place = format!("{}: ", self.origin.place().display());
        // The report begins with the place.
        (self.report(why.strip_prefix(&place).unwrap_or(&why).to_owned()), None)
    }

    /// Marks the server as ready. Returns `None` if it already was.
    pub(super) async fn become_ready(&mut self) -> Option<ReadinessChange> {
        self.waiting.take()?;
        self.metrics.set_waiting(Vec::new());
        // An error means that the server has ended.
        let _ = self.server.set_ready().await;
        Some(ReadinessChange::Ready)
    }

    /// Applies a change to the server.
    pub(super) async fn serve(&mut self, change: Changes) -> Reload {
        match self.apply_all(change.clone()).await {
            Ok(applied) => self.served(&change, applied).await,
            Err(failed) => failed,
        }
    }

    /// Applies a change together with other views. Clients that get another view lose nothing in
    /// between: resources are removed after they have moved.
    async fn serve_views(&mut self, change: Changes, views: Arc<Views>) -> Reload {
        let (set, removed) = change.clone().split();
        let mut total = match self.apply_all(set).await {
            Ok(applied) => applied,
            Err(failed) => return failed,
        };
        let moved = match &self.views {
            Some(followed) => followed.selection().replace(views, &self.server).await,
            None => return Reload::default(),
        };
        let Ok(moved) = moved else { return Reload::default() };
        match self.apply_all(removed).await {
            Ok(applied) => total = together(total, applied),
            Err(failed) => return failed,
        }
        let views = Some(ViewsChange::Used(moved));
        if change.is_empty() {
            let resources = self.sources.served();
            return Reload { views, resources, ..Reload::default() };
        }
        Reload { views, ..self.served(&change, total).await }
    }

    pub(super) async fn apply_all(&mut self, change: Changes) -> Result<Option<Applied>, Reload> {
        let mut total = None;
        if change.is_empty() {
            return Ok(None);
        }
        for transaction in change.into_transactions(self.origin.revision()) {
            match self.server.apply(transaction).await {
                Ok(applied) => total = together(total, Some(applied)),
                Err(why @ ApplyError::Transaction(_)) => return Err(self.report(why.to_string())),
                Err(_) => return Err(Reload::default()),
            }
        }
        Ok(total)
    }

    /// Notes that a change was applied.
    pub(super) async fn served(&mut self, change: &Changes, applied: Option<Applied>) -> Reload {
        let changes = change.resources();
        let readiness = self.become_ready().await;
        self.sources.mark_served();
        if let Some(feedback) = &self.feedback {
            let owners = self.sources.owners();
            feedback.send_modify(|it| it.owners = owners);
        }
        let forced = self.guarding.served();
        let resources = self.sources.served();
        Reload { resources, applied, changes, readiness, forced, ..Reload::default() }
    }
}

/// Adds the results of two transactions, in the order in which they were applied.
fn together(first: Option<Applied>, second: Option<Applied>) -> Option<Applied> {
    let (Some(first), Some(mut total)) = (first, second) else { return second.or(first) };
    total.changed += first.changed;
    total.removed += first.removed;
    Some(total)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use xds_core::{
        ViewName,
        guards::{Guard, Guards},
        server::ServerConfig,
    };
    use xds_source::{DirectorySource, Subdirectories, read_directory};
    use xds_tokio::{ManagementServer, ServerOptions};

    use super::*;
    use crate::resource_types::Validation;

    fn reader(directory: &Path) -> SourceReader {
        let source = DirectorySource::watch(directory, Subdirectories::Ignored).unwrap();
        SourceReader::new(source, directory.to_owned())
    }

    fn read(directory: &Path) -> Update {
        Update::All(read_directory(directory, Subdirectories::Ignored).unwrap())
    }

    fn cluster(name: &str, kind: &str) -> String {
        format!(
            "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\n\
             type: {kind}\n"
        )
    }

    #[tokio::test]
    async fn directory_error_that_recurs_is_reported_again() {
        let directory = std::env::temp_dir().join(format!("xds-trouble-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(
            directory.join("a.yaml"),
            cluster("a", "STATIC") + "---\n" + &cluster("b", "STATIC"),
        )
        .unwrap();
        let options = FollowOptions {
            consistency: Consistency::default(),
            guards: [Guard::max_removal(10)].into_iter().collect(),
            feedback: None,
            views: None,
            rollouts: None,
            metrics: Arc::default(),
            validation: Validation::default(),
        };
        let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
        let origin = reader(&directory);
        let mut follower = SourceFollower::new(origin, options, server.handle());
        let report = |follower: &mut SourceFollower| follower.report("cannot be read".to_owned());
        fs::write(directory.join("bad.yaml"), "{").unwrap();
        for _ in 0..2 {
            assert_eq!(report(&mut follower).errors.len(), 1);
            assert_eq!(report(&mut follower).errors.len(), 0, "it is known");
            // The directory can be read, and the server is not ready.
            let files = read(&directory);
            assert!(follower.examine(files).await.1.is_none());
        }
        fs::remove_file(directory.join("bad.yaml")).unwrap();
        let files = read(&directory);
        let change = follower.examine(files).await.1;
        follower.serve(change.unwrap()).await;
        fs::write(directory.join("a.yaml"), cluster("a", "STATIC")).unwrap();
        for _ in 0..2 {
            assert_eq!(report(&mut follower).errors.len(), 1);
            // The directory can be read, and a removal is refused.
            let files = read(&directory);
            assert!(follower.examine(files).await.1.is_none());
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn errors_of_invalid_files_are_passed_on_until_the_files_are_valid() {
        let directory = std::env::temp_dir().join(format!("xds-invalid-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("a.yaml"), cluster("a", "STATICC")).unwrap();
        let (feedback, state) = watch::channel(FeedbackState::default());
        let options = FollowOptions {
            consistency: Consistency::default(),
            guards: Guards::default(),
            feedback: Some(feedback),
            views: None,
            rollouts: None,
            metrics: Arc::default(),
            validation: Validation::default(),
        };
        let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
        let mut follower = SourceFollower::new(reader(&directory), options, server.handle());
        for (kind, error) in [("STATICC", Some("did you mean `STATIC`?")), ("STATIC", None)] {
            fs::write(directory.join("a.yaml"), cluster("a", kind)).unwrap();
            follower.examine(read(&directory)).await;
            let invalid = &state.borrow().invalid;
            let errors: Vec<_> = invalid.values().map(String::as_str).collect();
            assert_eq!(errors.len(), usize::from(error.is_some()), "{errors:?}");
            assert!(error.is_none_or(|error| errors[0].contains(error)), "{errors:?}");
        }
        fs::remove_dir_all(directory).unwrap();
    }

    #[tokio::test]
    async fn dangling_reference_is_reported_before_it_is_served() {
        let directory = std::env::temp_dir().join(format!("xds-follow-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("a.yaml"), cluster("a", "STATIC")).unwrap();
        let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
        let handle = server.handle();
        let served = async || handle.contents(ViewName::default()).await.unwrap().len();
        let options = FollowOptions {
            consistency: Consistency::default(),
            guards: Guards::default(),
            feedback: None,
            views: None,
            rollouts: None,
            metrics: Arc::default(),
            validation: Validation::default(),
        };
        let origin = reader(&directory);
        let started = FollowedSource::start(origin, options, handle.clone()).await;
        let (mut followed, first) = started.unwrap();
        assert_eq!((first.findings.len(), first.resources, served().await), (0, 1, 1));

        fs::write(directory.join("b.yaml"), cluster("b", "EDS")).unwrap();
        let reload = followed.next().await.unwrap();
        assert_eq!((reload.findings.len(), reload.applied), (1, None));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(served().await, 1, "nobody has let go of the news");
        drop(reload);
        let reload = followed.next().await.unwrap();
        assert_eq!(reload.applied.map(|it| it.changed), Some(1));
        assert_eq!((reload.resources, served().await), (2, 2));
        drop(followed);
        fs::remove_dir_all(directory).unwrap();
        println!("covers: M206 B56");
    }
}
