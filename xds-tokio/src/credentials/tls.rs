//! Certificates and keys in files, as a configuration of rustls that follows the files (A65).

use core::fmt;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{task::JoinHandle, time::sleep};
use tracing::warn;
use xds_bootstrap::{IdentityFiles, TlsFiles};

use super::{
    error::CredentialsError,
    files::{self, off_the_runtime},
};
use crate::client::ALPN_HTTP2;

/// Files are not read more often than that, however short their interval is.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The files, and what was last good in them.
pub(super) struct TlsSource {
    /// `None` where it is of a kind that cannot be used.
    files: Option<TlsFiles>,
    /// Neither lock is held while a file is read: what it is on may hang.
    loaded: Mutex<Latest>,
    /// Reads the files between connections.
    refresher: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Latest {
    loaded: Option<Arc<Loaded>>,
    /// The number of the reading that brought it.
    reading: u64,
    /// How many readings have begun.
    begun: u64,
}

/// What was made of the files, and of which content.
struct Loaded {
    contents: Contents,
    roots: Arc<RootCertStore>,
    roots_read: Instant,
    /// Sessions are resumed through it, so it stays while the files do.
    config: Arc<ClientConfig>,
}

#[derive(PartialEq, Eq)]
struct Contents {
    ca_certificate: Option<Vec<u8>>,
    identity: Option<[Vec<u8>; 2]>,
}

impl TlsSource {
    pub(super) fn new(files: TlsFiles) -> Self {
        Self { files: Some(files), loaded: Mutex::default(), refresher: Mutex::default() }
    }

    /// Nothing that can be used.
    pub(super) fn unknown() -> Self {
        Self { files: None, loaded: Mutex::default(), refresher: Mutex::default() }
    }

    /// What the files say now; if that is nothing sound, what they said when they last did.
    pub(super) async fn current(self: &Arc<Self>) -> Result<Arc<ClientConfig>, CredentialsError> {
        let source = Arc::clone(self);
        let config = off_the_runtime(move || source.load()).await?;
        self.keep_fresh();
        Ok(config)
    }

    fn load(&self) -> Result<Arc<ClientConfig>, CredentialsError> {
        let files = self.files.as_ref().ok_or(CredentialsError::Unsupported)?;
        let (before, number) = {
            let mut latest = lock(&self.loaded);
            latest.begun += 1;
            (latest.loaded.clone(), latest.begun)
        };
        match (read(files, before.as_deref()), before) {
            (Ok(Some(new)), _) => {
                let mut latest = lock(&self.loaded);
                // One that began later may be done already, and knows better.
                if latest.reading < number {
                    latest.reading = number;
                    latest.loaded = Some(Arc::new(new));
                }
                let loaded = latest.loaded.as_ref().ok_or(CredentialsError::Unsupported)?;
                Ok(Arc::clone(&loaded.config))
            }
            (Ok(None), Some(before)) => Ok(Arc::clone(&before.config)),
            (Err(why), Some(before)) => {
                warn!(reason = %why, "what was read before stays in use");
                Ok(Arc::clone(&before.config))
            }
            (Err(why), None) => Err(why),
            (Ok(None), None) => Err(CredentialsError::Unsupported),
        }
    }

    /// Sees to it that the files are read at their interval as long as anybody may connect with them.
    fn keep_fresh(self: &Arc<Self>) {
        let Some(interval) = self.files.as_ref().map(|files| files.refresh_interval) else {
            return;
        };
        let mut refresher = lock(&self.refresher);
        if refresher.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let source = Arc::downgrade(self);
        *refresher = Some(tokio::spawn(async move {
            loop {
                sleep(interval.max(SHORTEST_INTERVAL)).await;
                let Some(source) = Weak::upgrade(&source) else { return };
                // What is wrong is logged, and found again by whoever connects.
                let _ = off_the_runtime(move || source.load()).await;
            }
        }));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks; a poisoned one would still hold a sound state.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for TlsSource {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.refresher).take() {
            task.abort();
        }
    }
}

impl fmt::Debug for TlsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsSource").field(&self.files).finish()
    }
}

/// What the files say; `None` if that is what they said before.
fn read(files: &TlsFiles, before: Option<&Loaded>) -> Result<Option<Loaded>, CredentialsError> {
    let contents = Contents {
        ca_certificate: files.ca_certificate.as_deref().map(files::read).transpose()?,
        identity: match &files.identity {
            Some(own) => Some([files::read(&own.certificate)?, files::read(&own.private_key)?]),
            None => None,
        },
    };
    let is_known = |before: &&Loaded| before.contents.ca_certificate == contents.ca_certificate;
    // The system's roots are many files, which are not read for every connection.
    let is_young = |before: &&Loaded| {
        contents.ca_certificate.is_some() || before.roots_read.elapsed() < files.refresh_interval
    };
    let (roots, roots_read) = match before.filter(is_known).filter(is_young) {
        Some(before) if before.contents == contents => return Ok(None),
        Some(before) => (Arc::clone(&before.roots), before.roots_read),
        None => (Arc::new(read_roots(files, &contents)?), Instant::now()),
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|why| CredentialsError::NoSystemRoots(why.to_string().into()))?
        .with_root_certificates(Arc::clone(&roots));
    let mut config = match (&files.identity, &contents.identity) {
        (Some(own), Some([certificate, private_key])) => {
            let chain = certificates(certificate)
                .ok_or_else(|| CredentialsError::NoCertificates(own.certificate.clone()))?;
            // The parser's words might quote the file.
            let key = PrivateKeyDer::from_pem_slice(private_key)
                .map_err(|_| CredentialsError::NoPrivateKey(own.private_key.clone()))?;
            config.with_client_auth_cert(chain, key).map_err(|why| bad_identity(own, &why))?
        }
        _ => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
    Ok(Some(Loaded { contents, roots, roots_read, config: Arc::new(config) }))
}

fn read_roots(files: &TlsFiles, contents: &Contents) -> Result<RootCertStore, CredentialsError> {
    let mut roots = RootCertStore::empty();
    let (Some(path), Some(content)) = (&files.ca_certificate, &contents.ca_certificate) else {
        let found = rustls_native_certs::load_native_certs();
        // A system may have odd ones among them.
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable == 0 {
            let why = found.errors.first().map(|why| why.to_string().into());
            return Err(CredentialsError::NoSystemRoots(
                why.unwrap_or_else(|| "none found".into()),
            ));
        }
        return Ok(roots);
    };
    let listed =
        certificates(content).ok_or_else(|| CredentialsError::NoCertificates(path.clone()))?;
    for certificate in listed {
        roots.add(certificate).map_err(|why| CredentialsError::BadRoot {
            path: path.clone(),
            why: why.to_string().into(),
        })?;
    }
    Ok(roots)
}

/// The certificates of a PEM text; `None` if there are none, or something in it is broken.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!all.is_empty()).then_some(all)
}

fn bad_identity(files: &IdentityFiles, why: &rustls::Error) -> CredentialsError {
    CredentialsError::BadIdentity {
        certificate: files.certificate.clone(),
        private_key: files.private_key.clone(),
        why: why.to_string().into(),
    }
}
