//! Keeps a management server at what the files of a directory say.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::{
    sync::{Notify, mpsc},
    task::{JoinHandle, spawn_blocking},
};
use xds_core::{client::FilePolicy, references::Consistency, server::Applied};
use xds_fs::{File, Place, Watch, list_saved};
use xds_tokio::{ServerHandle, server::ApplyError};

use super::{
    findings::{FileFinding, dangling},
    sources::{FileError, Sources},
};
use crate::resource_types::Validation;

/// What came of looking at the directory once.
#[derive(Debug, Default)]
pub(crate) struct Reload {
    /// What is newly wrong.
    pub(crate) errors: Vec<FileError>,
    /// References that newly lead nowhere.
    pub(crate) dangling: Vec<FileFinding>,
    /// How many resources there are now.
    pub(crate) resources: usize,
    /// What the server made of the changes, if there were any.
    pub(crate) applied: Option<Applied>,
}

/// A directory that a management server follows. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Followed {
    reloads: mpsc::Receiver<Reload>,
    task: JoinHandle<()>,
}

impl Followed {
    /// Brings the server to the state of the directory, and keeps it there. What the check finds
    /// missing is told; under validation a file is broken that proxies would reject something of.
    ///
    /// # Errors
    ///
    /// The directory cannot be read. Later on that is an error like that of a file: the last good
    /// state stays.
    pub(crate) async fn start(
        directory: &Path,
        consistency: Consistency<'static>,
        validation: Validation,
        server: ServerHandle,
    ) -> io::Result<(Self, Reload)> {
        let directory: Arc<Path> = directory.into();
        let changed = Arc::new(Notify::new());
        let for_watch = Arc::clone(&changed);
        let place = Place::Directory(directory.to_path_buf());
        let watch = Watch::start(place, &FilePolicy::default(), move |_| for_watch.notify_one())?;
        let mut follower = Follower {
            changed,
            _watch: watch,
            directory,
            sources: Sources::new(validation),
            consistency: consistency.into(),
            dangling: Vec::new(),
            trouble: None,
            server,
        };
        // What happens before the directory is watched is seen when it is.
        let files = follower.read().await?;
        let first = follower.take(files).await;
        let (sender, reloads) = mpsc::channel(1);
        let task = tokio::spawn(follower.run(sender));
        Ok((Self { reloads, task }, first))
    }

    /// The next reload with news; `None` once the server has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Reload> {
        self.reloads.recv().await
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct Follower {
    directory: Arc<Path>,
    /// Something may have happened.
    changed: Arc<Notify>,
    _watch: Watch,
    sources: Sources,
    consistency: Arc<Consistency<'static>>,
    /// The references that lead nowhere, as far as they were told.
    dangling: Vec<FileFinding>,
    /// Why the directory cannot be read, or the server not be told.
    trouble: Option<String>,
    server: ServerHandle,
}

impl Follower {
    async fn run(mut self, reloads: mpsc::Sender<Reload>) {
        loop {
            self.changed.notified().await;
            let reload = match self.read().await {
                Ok(files) => self.take(files).await,
                Err(why) => self.report(format!("{}: {why}", self.directory.display())),
            };
            let is_news = !reload.errors.is_empty()
                || !reload.dangling.is_empty()
                || reload.applied.is_some();
            if is_news && reloads.send(reload).await.is_err() {
                return;
            }
        }
    }

    async fn read(&self) -> io::Result<Vec<File>> {
        let directory = Arc::clone(&self.directory);
        spawn_blocking(move || list_saved(&directory)).await?
    }

    async fn take(&mut self, files: Vec<File>) -> Reload {
        let mut sources = core::mem::take(&mut self.sources);
        // Large files take seconds to read; streams must not wait for that.
        let consistency = Arc::clone(&self.consistency);
        let updated = spawn_blocking(move || {
            let errors = sources.update(files);
            let dangling = dangling(&sources, &consistency);
            (sources, errors, dangling)
        });
        let Ok((sources, errors, mut dangling)) = updated.await else {
            return self.report("a file could not be read".to_owned());
        };
        self.sources = sources;
        let told = core::mem::replace(&mut self.dangling, dangling.clone());
        dangling.retain(|finding| !told.contains(finding));

        let resources = self.sources.resources();
        let changes = self.sources.changes();
        if changes.is_empty() {
            self.trouble = None;
            return Reload { errors, dangling, resources, applied: None };
        }
        match self.server.apply(changes.into_transaction()).await {
            Ok(applied) => {
                self.sources.mark_served();
                self.trouble = None;
                Reload { errors, dangling, resources, applied: Some(applied) }
            }
            Err(why @ ApplyError::Transaction(_)) => {
                let mut reload = self.report(format!("{}: {why}", self.directory.display()));
                reload.errors.splice(0..0, errors);
                reload.dangling = dangling;
                reload
            }
            Err(_) => Reload { errors, dangling, resources, applied: None },
        }
    }

    /// Trouble with the whole directory, said once until it is over.
    fn report(&mut self, error: String) -> Reload {
        let is_new = self.trouble.as_ref() != Some(&error);
        let file: PathBuf = self.directory.to_path_buf();
        self.trouble = Some(error.clone());
        let resources = self.sources.resources();
        let error = FileError { file, error, kept: resources };
        let errors = if is_new { vec![error] } else { Vec::new() };
        Reload { errors, dangling: Vec::new(), resources, applied: None }
    }
}
