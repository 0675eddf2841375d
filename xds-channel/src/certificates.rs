//! What certificate providers have: files that are read again from time to time, and what was last good in
//! them (A29).

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use tokio::{
    task::{AbortHandle, spawn_blocking},
    time::sleep,
};
use xds_bootstrap::{IdentityFiles, TlsFiles};

/// Files are not read more often than that, however short their interval is.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The instances of certificate providers that a channel has, by name.
pub(crate) type Providers = BTreeMap<String, Arc<Provider>>;

/// One of them. What its files hold is read when it is first asked for, and then at their interval. While that is
/// nothing sound, what was read last stays in use.
pub(crate) struct Provider {
    files: TlsFiles,
    known: Mutex<Known>,
    follower: OnceLock<AbortHandle>,
}

#[derive(Default)]
struct Known {
    roots: Kept<RootCertStore>,
    identity: Kept<CertifiedKey>,
}

impl Provider {
    pub(crate) fn new(files: TlsFiles) -> Arc<Self> {
        Arc::new(Self { files, known: Mutex::default(), follower: OnceLock::new() })
    }

    pub(crate) const fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Who vouches for others.
    ///
    /// # Errors
    ///
    /// The file was never good, and this is wrong with it now.
    pub(crate) async fn roots(self: &Arc<Self>) -> Result<Arc<RootCertStore>, String> {
        self.current(|known| &known.roots).await
    }

    /// The own certificate.
    ///
    /// # Errors
    ///
    /// The files were never good, and this is wrong with them now.
    pub(crate) async fn identity(self: &Arc<Self>) -> Result<Arc<CertifiedKey>, String> {
        self.current(|known| &known.identity).await
    }

    async fn current<T: 'static>(
        self: &Arc<Self>,
        which: impl Fn(&Known) -> &Kept<T>,
    ) -> Result<Arc<T>, String> {
        if let Some(good) = which(&self.known()).good.clone() {
            return Ok(good);
        }
        let reading = Arc::clone(self);
        spawn_blocking(move || reading.read()).await.map_err(|why| why.to_string())?;
        self.follower.get_or_init(|| follow(Arc::downgrade(self), self.files.refresh_interval));
        let known = self.known();
        let kept = which(&known);
        let why = || kept.trouble.clone().unwrap_or_else(|| "there is no certificate".into());
        kept.good.clone().ok_or_else(why)
    }

    /// Reads the files. What is wrong with them is said once.
    fn read(&self) {
        let roots = self.files.ca_certificate.as_deref().map(roots_of);
        let identity = self.files.identity.as_ref().map(identity_of);
        let mut known = self.known();
        let known = &mut *known;
        let news = [
            roots.and_then(|read| known.roots.take(read)),
            identity.and_then(|read| known.identity.take(read)),
        ];
        for reason in news.into_iter().flatten() {
            tracing::warn!(reason, "files of a certificate provider cannot be used");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics under this lock; a poisoned one would still hold a sound state.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provider").field(&self.files).finish()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if let Some(follower) = self.follower.get() {
            follower.abort();
        }
    }
}

/// Reads the files again and again.
fn follow(provider: Weak<Provider>, interval: Duration) -> AbortHandle {
    let following = async move {
        loop {
            sleep(interval.max(SHORTEST_INTERVAL)).await;
            let Some(provider) = provider.upgrade() else { return };
            if spawn_blocking(move || provider.read()).await.is_err() {
                return;
            }
        }
    };
    tokio::spawn(following).abort_handle()
}

/// What was last good, and what is wrong since.
struct Kept<T> {
    good: Option<Arc<T>>,
    trouble: Option<String>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { good: None, trouble: None }
    }
}

impl<T> Kept<T> {
    /// Takes what was read, and returns what is wrong with it if that is news.
    fn take(&mut self, read: Result<T, String>) -> Option<&str> {
        match read {
            Ok(good) => {
                *self = Self { good: Some(Arc::new(good)), trouble: None };
                None
            }
            Err(why) if self.trouble.as_ref() == Some(&why) => None,
            Err(why) => {
                self.trouble = Some(why);
                self.trouble.as_deref()
            }
        }
    }
}

fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let added = roots.add(certificate);
        added.map_err(|why| format!("{}: {why}", file.display()))?;
    }
    Ok(roots)
}

/// Both files belong together, which they do not while only one of them has been replaced.
fn identity_of(files: &IdentityFiles) -> Result<CertifiedKey, String> {
    let IdentityFiles { certificate, private_key } = files;
    let chain = certificates(certificate)?;
    // What a parser says of a key might quote it.
    let key = PrivateKeyDer::from_pem_slice(&read(private_key)?)
        .map_err(|_| format!("{} is no private key", private_key.display()))?;
    let identity = CertifiedKey::from_der(chain, key, &ring::default_provider());
    identity.map_err(|why| format!("{}: {why}", certificate.display()))
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|why| format!("{}: {why}", file.display()))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let content = read(file)?;
    let listed = CertificateDer::pem_slice_iter(&content).collect::<Result<Vec<_>, _>>();
    let listed = listed.ok().filter(|listed| !listed.is_empty());
    listed.ok_or_else(|| format!("{} is no list of certificates", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_good_stays_and_what_is_wrong_is_said_once() {
        let mut kept = Kept::default();
        assert_eq!(kept.take(Err("not there".into())), Some("not there"));
        assert_eq!(kept.take(Err("not there".into())), None);
        assert_eq!(kept.take(Ok(1)), None);
        assert_eq!(kept.take(Err("not there".into())), Some("not there"), "it was, meanwhile");
        assert_eq!(kept.take(Err("garbage".into())), Some("garbage"));
        assert_eq!(kept.good.as_deref(), Some(&1));
        assert_eq!(kept.take(Ok(2)), None);
        assert_eq!(kept.good.as_deref(), Some(&2));
    }
}
