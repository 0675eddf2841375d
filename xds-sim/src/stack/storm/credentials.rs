//! Certificates of a storm, which may be replaced while connections use them.

use std::{
    env, fs,
    path::PathBuf,
    process,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::stack::certificates::{
    AUTHORITY, CertificateFiles, NEW_AUTHORITY, NEW_SERVER, NEW_SERVER_KEY,
};

/// Certificates of a run, in files.
pub(super) struct StormCredentials {
    pub(super) files: CertificateFiles,
    /// Authority of the clients, which is not replaced.
    pub(super) client_authority: PathBuf,
    /// Replacement of the server's certificate; `None` if it is never replaced.
    replacement: Option<Replacement>,
}

/// Replacement of the server's certificate, and of the authority that signs it, step by step.
struct Replacement {
    steps: usize,
    /// Directory of this run's files, which is removed at the end.
    directory: PathBuf,
}

impl StormCredentials {
    /// Certificates that are never replaced. They are written once per process, because parallel
    /// runs must not see half a file.
    pub(super) fn permanent() -> Self {
        static FILES: OnceLock<CertificateFiles> = OnceLock::new();

        let files = FILES.get_or_init(|| write(&directory("permanent"))).clone();
        Self { client_authority: files.authority.clone(), files, replacement: None }
    }

    /// Certificates that can be replaced, in files of their own.
    pub(super) fn replaceable() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);

        let directory = directory(&NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        let files = write(&directory);
        let client_authority = directory.join("client-ca.pem");
        overwrite(&client_authority, AUTHORITY);
        let replacement = Some(Replacement { steps: 0, directory });
        Self { files, client_authority, replacement }
    }

    /// Takes the next step of the replacement. Returns its description, or `None` if there is none.
    /// The certificate and its key are in two files, so they do not match in between.
    pub(super) fn replace(&mut self) -> Option<&'static str> {
        let replacement = self.replacement.as_mut()?;
        let files = &self.files;
        let (file, content, what) = match replacement.steps {
            0 => {
                let both = format!("{AUTHORITY}{NEW_AUTHORITY}");
                (&files.authority, both, "clients trust both authorities")
            }
            1 => (&files.server, NEW_SERVER.into(), "the server has a new certificate"),
            2 => (&files.server_key, NEW_SERVER_KEY.into(), "the server has its key"),
            3 => (&files.authority, NEW_AUTHORITY.into(), "clients trust only the new authority"),
            _ => return None,
        };
        replacement.steps += 1;
        overwrite(file, &content);
        Some(what)
    }
}

impl Drop for StormCredentials {
    fn drop(&mut self) {
        if let Some(replacement) = &self.replacement {
            // Only some small files would be left.
            let _ = fs::remove_dir_all(&replacement.directory);
        }
    }
}

fn directory(name: &str) -> PathBuf {
    env::temp_dir().join(format!("xds-stack-{}-{name}", process::id()))
}

fn overwrite(file: &PathBuf, content: &str) {
    fs::write(file, content).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
}

fn write(directory: &PathBuf) -> CertificateFiles {
    let written = fs::create_dir_all(directory).and_then(|()| CertificateFiles::write(directory));
    written.unwrap_or_else(|error| panic!("cannot write to {}: {error}", directory.display()))
}
