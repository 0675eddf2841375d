//! Task that keeps a management server in sync with a source: the files of a directory, or the keys
//! of etcd.

use std::{io, path::PathBuf, sync::Arc};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, spawn_blocking},
};
use xds_core::{
    references::Consistency,
    server::{Applied, Transaction, ViewContents},
};
use xds_tokio::{ServerHandle, server::ApplyError};

use super::{
    findings::{Broken, dangling},
    origin::SourceReader,
    parse::Problems,
    rejected::{MaxRemoval, Rejected, Removal},
    sources::{ChangedResources, FileError, Owners, Sources, Update},
};
use crate::{
    diagnostic::{Diagnostic, Level},
    resource_types::Validation,
};

/// Outcome of reading the source, or of applying a change to the server.
///
/// A reload with errors is sent before the change is applied. The change is applied once the
/// receiver has dropped the reload.
#[derive(Debug, Default)]
pub(crate) struct Reload {
    /// New errors.
    pub(crate) errors: Vec<FileError>,
    /// Files that are valid again.
    pub(crate) repaired: Vec<PathBuf>,
    /// New dangling references.
    pub(crate) dangling: Vec<Diagnostic>,
    /// Reason why the state of the files is rejected.
    pub(crate) rejected: Option<Rejected>,
    /// Number of resources that the server has now.
    pub(crate) resources: usize,
    /// Result of applying the change, if there was one.
    pub(crate) applied: Option<Applied>,
    /// Resources that the change concerns, if there was one.
    pub(crate) changes: ChangedResources,
    /// Set if the server has become ready, or if it waits for other files than before.
    pub(crate) readiness: Option<ReadinessChange>,
    _reported: Option<oneshot::Sender<()>>,
}

/// Readiness of the server. A server becomes ready once every file has been valid, and stays ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadinessChange {
    /// Clients wait until these files, or the source, have been valid once.
    Waiting(Vec<PathBuf>),
    /// Requests of clients are answered from now on.
    Ready,
}

/// Handling of a change that leaves a dangling reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DanglingReferences {
    /// The dangling reference is reported, and the change is served.
    Allowed,
    /// The dangling reference is reported, and the change is rejected.
    Rejected,
}

/// Source that a management server follows. Dropping it stops following.
#[derive(Debug)]
pub(crate) struct FollowedSource {
    reloads: mpsc::Receiver<Reload>,
    task: JoinHandle<()>,
}

/// Requirements for the resources of a source.
#[derive(Debug)]
pub(crate) struct FollowOptions {
    /// Check that finds dangling references.
    pub(crate) consistency: Consistency<'static>,
    pub(crate) dangling: DanglingReferences,
    /// Largest share that one change may remove. `None` means no limit.
    pub(crate) max_removal: Option<MaxRemoval>,
    /// Whether a resource that proxies would reject makes its file broken.
    pub(crate) validation: Validation,
    /// Receiver of the objects that define the served resources, if somebody wants to know.
    pub(crate) owners: Option<watch::Sender<Owners>>,
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
        let is_directory = matches!(origin, SourceReader::Directory(_));
        let mut follower = SourceFollower::new(origin, options, server);
        let (mut first, change) = match follower.origin.first().await {
            Ok(update) => follower.examine(update).await,
            Err(why) if is_directory => return Err(why),
            Err(why) => follower.note_failure(&why).await,
        };
        follower.origin.confirm_for(&follower.server);
        if !change.is_empty() {
            let served = follower.serve(change).await;
            first.errors.extend(served.errors);
            first.resources = served.resources;
            first.readiness = served.readiness;
        }
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

impl Reload {
    fn has_changes(&self) -> bool {
        let is_wrong = !self.errors.is_empty() || !self.dangling.is_empty();
        let is_wrong = is_wrong || !self.repaired.is_empty();
        let is_changed = self.applied.is_some() || self.readiness.is_some();
        is_wrong || self.rejected.is_some() || is_changed
    }
}

#[derive(Debug)]
struct SourceFollower {
    origin: SourceReader,
    sources: Sources,
    consistency: Arc<Consistency<'static>>,
    policy: DanglingReferences,
    max_removal: Option<MaxRemoval>,
    owners: Option<watch::Sender<Owners>>,
    /// Dangling references that have been reported.
    dangling: Vec<Diagnostic>,
    /// Rejected removal that has been reported.
    removal: Option<Removal>,
    /// Reported problem with the whole source or with the server.
    last_failure: Option<String>,
    /// Files that the server waits for, as reported; `None` once it is ready.
    waiting: Option<Vec<PathBuf>>,
    server: ServerHandle,
}

impl SourceFollower {
    fn new(origin: SourceReader, options: FollowOptions, server: ServerHandle) -> Self {
        Self {
            origin,
            sources: Sources::new(options.validation),
            consistency: options.consistency.into(),
            policy: options.dangling,
            max_removal: options.max_removal,
            owners: options.owners,
            dangling: Vec::new(),
            removal: None,
            last_failure: None,
            waiting: Some(Vec::new()),
            server,
        }
    }

    async fn run(mut self, reloads: mpsc::Sender<Reload>) {
        loop {
            let (mut reload, change) = match self.origin.next().await {
                Ok(update) => self.examine(update).await,
                Err(why) => self.note_failure(&why).await,
            };
            if reload.has_changes() {
                let (reported, is_reported) = oneshot::channel();
                reload._reported = Some(reported);
                if reloads.send(reload).await.is_err() {
                    return;
                }
                // The receiver signals that it has reported the errors by dropping the reload.
                let _ = is_reported.await;
            }
            if change.is_empty() {
                self.note_reached().await;
                continue;
            }
            let served = self.serve(change).await;
            self.note_reached().await;
            if served.has_changes() && reloads.send(served).await.is_err() {
                return;
            }
        }
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
    async fn note_failure(&mut self, why: &io::Error) -> (Reload, Vec<Transaction>) {
        if self.origin.revision().is_some() {
            let _ = self.server.source_unreachable().await;
        }
        (self.report(why.to_string()), Vec::new())
    }

    /// Returns the new errors in the files, and the transactions to apply, if there are any.
    async fn examine(&mut self, update: Update) -> (Reload, Vec<Transaction>) {
        let mut sources = core::mem::take(&mut self.sources);
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
            return (self.report("a file could not be read".to_owned()), Vec::new());
        };
        self.sources = sources;
        let resources = self.sources.served();
        let never_valid = self.sources.never_valid();
        if self.waiting.is_some() && !never_valid.is_empty() {
            self.last_failure = None;
            let readiness = self.report_waiting(never_valid);
            return (Reload { errors, repaired, readiness, ..Reload::default() }, Vec::new());
        }
        let changes = self.sources.changes();
        let removal = self.max_removal.and_then(|it| it.exceeded_by(&changes.removed(), resources));
        let reported = core::mem::replace(&mut self.removal, removal);
        if let Some(removal) = &self.removal {
            self.last_failure = None;
            let is_new = reported.as_ref() != Some(removal);
            let rejected = is_new.then(|| Rejected::Removal(removal.clone()));
            let reload = Reload { errors, repaired, rejected, resources, ..Reload::default() };
            return (reload, Vec::new());
        }
        let is_change = !changes.is_empty();
        let change = changes.into_transactions(self.origin.revision());
        let mut preview = Vec::new();
        for transaction in &change {
            match self.server.preview(transaction.clone()).await {
                Ok(views) => preview.extend(views),
                Err(why @ ApplyError::Transaction(_)) => {
                    let mut reload = self.report(why.to_string());
                    reload.errors.splice(0..0, errors);
                    reload.repaired = repaired;
                    return (reload, Vec::new());
                }
                Err(_) => return (Reload { errors, repaired, ..Reload::default() }, Vec::new()),
            }
        }
        self.last_failure = None;
        let is_known = self.check(preview).await;
        let mut dangling = self.dangling.clone();
        dangling.retain(|finding| !is_known.contains(finding));
        let wrong = self.dangling.iter().filter(|it| it.level == Level::Error).count();
        let is_rejected = self.policy == DanglingReferences::Rejected && wrong > 0;
        // Dangling references that have not changed have already been reported.
        let is_new = !dangling.is_empty() || is_known.len() != self.dangling.len();
        let rejected = (is_rejected && is_new).then_some(Rejected::Dangling(wrong));
        let mut reload =
            Reload { errors, repaired, dangling, rejected, resources, ..Reload::default() };
        if is_rejected {
            return (reload, Vec::new());
        }
        if !is_change {
            reload.readiness = self.become_ready().await;
        }
        (reload, if is_change { change } else { Vec::new() })
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

    /// Marks the server as ready. Returns `None` if it already was.
    async fn become_ready(&mut self) -> Option<ReadinessChange> {
        self.waiting.take()?;
        // An error means that the server has ended.
        let _ = self.server.set_ready().await;
        Some(ReadinessChange::Ready)
    }

    /// Checks the references of the state to be served. Returns the dangling
    /// references found before.
    async fn check(&mut self, preview: Vec<ViewContents>) -> Vec<Diagnostic> {
        let sources = core::mem::take(&mut self.sources);
        let consistency = Arc::clone(&self.consistency);
        // A rejected change is explained by all its dangling references.
        let is_strict = self.policy == DanglingReferences::Rejected;
        let checked = spawn_blocking(move || {
            let broken = if is_strict { Broken::default() } else { Broken::of(&sources) };
            let of = |contents: &ViewContents| dangling(&sources, contents, &consistency, &broken);
            let found: Vec<_> = preview.iter().flat_map(of).collect();
            (sources, found)
        });
        let Ok((sources, found)) = checked.await else { return Vec::new() };
        self.sources = sources;
        core::mem::replace(&mut self.dangling, found)
    }

    async fn serve(&mut self, change: Vec<Transaction>) -> Reload {
        let mut total: Option<Applied> = None;
        for transaction in change {
            let applied = match self.server.apply(transaction).await {
                Ok(applied) => applied,
                Err(why @ ApplyError::Transaction(_)) => return self.report(why.to_string()),
                Err(_) => return Reload::default(),
            };
            total = Some(match total {
                None => applied,
                Some(mut total) => {
                    total.sequence = applied.sequence;
                    total.changed += applied.changed;
                    total.removed += applied.removed;
                    total
                }
            });
        }
        let changes = self.sources.changes().resources();
        let readiness = self.become_ready().await;
        self.sources.mark_served();
        if let Some(owners) = &self.owners {
            owners.send_replace(self.sources.owners());
        }
        let resources = self.sources.served();
        Reload { resources, applied: total, changes, readiness, ..Reload::default() }
    }

    /// Reports a problem with the whole source, once until it is resolved.
    fn report(&mut self, error: String) -> Reload {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use xds_core::{ViewName, server::ServerConfig};
    use xds_tokio::{ManagementServer, ServerOptions};

    use super::*;

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
            dangling: DanglingReferences::Allowed,
            max_removal: Some(MaxRemoval(10)),
            owners: None,
            validation: Validation::default(),
        };
        let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
        let origin = SourceReader::directory(&directory).unwrap();
        let mut follower = SourceFollower::new(origin, options, server.handle());
        let report = |follower: &mut SourceFollower| follower.report("cannot be read".to_owned());
        fs::write(directory.join("bad.yaml"), "{").unwrap();
        for _ in 0..2 {
            assert_eq!(report(&mut follower).errors.len(), 1);
            assert_eq!(report(&mut follower).errors.len(), 0, "it is known");
            // The directory can be read, and the server is not ready.
            let files = follower.origin.first().await.unwrap();
            assert!(follower.examine(files).await.1.is_empty());
        }
        fs::remove_file(directory.join("bad.yaml")).unwrap();
        let files = follower.origin.first().await.unwrap();
        let change = follower.examine(files).await.1;
        follower.serve(change).await;
        fs::write(directory.join("a.yaml"), cluster("a", "STATIC")).unwrap();
        for _ in 0..2 {
            assert_eq!(report(&mut follower).errors.len(), 1);
            // The directory can be read, and a removal is refused.
            let files = follower.origin.first().await.unwrap();
            assert!(follower.examine(files).await.1.is_empty());
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
            dangling: DanglingReferences::Allowed,
            max_removal: None,
            owners: None,
            validation: Validation::default(),
        };
        let origin = SourceReader::directory(&directory).unwrap();
        let started = FollowedSource::start(origin, options, handle.clone()).await;
        let (mut followed, first) = started.unwrap();
        assert_eq!((first.dangling.len(), first.resources, served().await), (0, 1, 1));

        fs::write(directory.join("b.yaml"), cluster("b", "EDS")).unwrap();
        let reload = followed.next().await.unwrap();
        assert_eq!((reload.dangling.len(), reload.applied), (1, None));
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
