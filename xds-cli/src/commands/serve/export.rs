//! `--export`: files with the served resources.

use std::{io, path::Path, sync::Arc};

use tokio::task::spawn_blocking;
use xds_core::ViewName;
use xds_fs::{Export, ExportFormat, Unprintable};
use xds_source::Subdirectories;
use xds_tokio::ServerHandle;

use super::{served_files, write_failures::WriteFailures};
use crate::{failure::Failure, schema::schema};

/// Writer that keeps the files in sync with the server.
pub(super) struct Exporter {
    /// `None` while a task writes, which may take long on a slow disk.
    export: Option<Export>,
    server: ServerHandle,
    failures: Arc<WriteFailures>,
    /// Unprintable resources that were reported last.
    unprintable: Vec<Unprintable>,
}

impl Exporter {
    /// Creates the directory without writing files.
    ///
    /// It must not be the served directory, because the exported files would be served.
    pub(super) fn new(
        to: &Path,
        served: Option<&Path>,
        subdirectories: Subdirectories,
        server: ServerHandle,
        failures: Arc<WriteFailures>,
    ) -> Result<Self, Failure> {
        let failure = |why| Failure::Export { directory: to.to_owned(), why };
        if served_files::are_in(to, served, subdirectories) {
            return Err(failure(io::Error::other(
                "the export directory must not be the served directory, or one of its views",
            )));
        }
        let export = Export::new(to, ExportFormat::Json, schema()).map_err(failure)?;
        if let Some(mode) = export.open_to_others().map_err(failure)? {
            let directory = to.display();
            tracing::warn!(
                "other users can access the export directory {directory} (mode {mode:04o}); \
                 files with secrets have mode 0600, and `chmod 700 {directory}` protects \
                 the other files, too"
            );
        }
        Ok(Self { export: Some(export), server, failures, unprintable: Vec::new() })
    }

    /// Writes the resources like [`write`](Self::write), and counts and logs a failure.
    pub(super) async fn write_or_warn(&mut self) {
        if let Err(why) = self.write().await {
            self.failures.note_export();
            tracing::warn!(%why, "cannot export the resources");
        }
    }

    /// Writes the resources that the server has now. If writing fails, the next call tries again.
    pub(super) async fn write(&mut self) -> io::Result<()> {
        let Ok(contents) = self.server.contents(ViewName::default()).await else { return Ok(()) };
        let Some(mut export) = self.export.take() else { return Ok(()) };
        let written = spawn_blocking(move || {
            let written = export.write(contents.iter());
            (export, written)
        });
        let (export, written) = written.await?;
        self.export = Some(export);
        let written = written?;
        for path in written.changed {
            tracing::debug!(path = %path.display(), "exported");
        }
        if written.unprintable != self.unprintable {
            let count = written.unprintable.len();
            for (number, why) in written.unprintable.iter().enumerate() {
                tracing::warn!("unprintable resource {} of {count}: {why}", number + 1);
            }
            self.unprintable = written.unprintable;
        }
        Ok(())
    }
}
