//! Certificate providers: files that are reread periodically, with the last valid contents as
//! fallback ([gRFC A29]). Only regular files of a limited size are read.
//!
//! [gRFC A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use hyper::rt::Timer as _;
use rustls::{RootCertStore, sign::CertifiedKey};
use xds_bootstrap::TlsFiles;
use xds_grpc::{
    credentials::{load_identity, load_roots},
    runtime::{SharedRuntime, Task},
};
use xds_routing::listener::CertificateProvider;

/// Lower limit of the refresh interval.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Certificate provider instances of a channel, by name.
pub(crate) type Providers = BTreeMap<String, Arc<Provider>>;

/// Returns the provider of root certificates with the name that a TLS context states.
///
/// # Errors
///
/// Returns what is missing, for error messages of calls.
pub(crate) fn provider_of_roots(
    providers: &Providers,
    stated: &CertificateProvider,
) -> Result<Arc<Provider>, String> {
    let found = provider_of(providers, stated)?;
    match found.files.ca_certificate {
        Some(_) => Ok(Arc::clone(found)),
        None => {
            Err(format!("the certificate provider `{}` has no root certificates", stated.instance))
        }
    }
}

/// Returns the provider of a certificate with the name that a TLS context states.
///
/// # Errors
///
/// Returns what is missing, for error messages of calls.
pub(crate) fn provider_of_identity(
    providers: &Providers,
    stated: &CertificateProvider,
) -> Result<Arc<Provider>, String> {
    let found = provider_of(providers, stated)?;
    match found.files.identity {
        Some(_) => Ok(Arc::clone(found)),
        None => Err(format!("the certificate provider `{}` has no certificate", stated.instance)),
    }
}

fn provider_of<'a>(
    providers: &'a Providers,
    stated: &CertificateProvider,
) -> Result<&'a Arc<Provider>, String> {
    let name = stated.instance.as_str();
    providers
        .get(name)
        .ok_or_else(|| format!("certificate provider `{name}` is not in the bootstrap"))
}

/// Certificate provider instance. Its files are read on first use and then at the refresh interval.
/// While they are invalid, the last valid contents are used.
pub(crate) struct Provider {
    files: TlsFiles,
    known: Mutex<LoadedFiles>,
    runtime: SharedRuntime,
    /// Rereads the files. Dropping it ends that.
    refresher: OnceLock<Task>,
}

#[derive(Default)]
struct LoadedFiles {
    roots: LastValid<RootCertStore>,
    identity: LastValid<CertifiedKey>,
}

impl Provider {
    pub(crate) fn new(files: TlsFiles, runtime: SharedRuntime) -> Arc<Self> {
        Arc::new(Self { files, known: Mutex::default(), runtime, refresher: OnceLock::new() })
    }

    /// Returns the root certificates.
    ///
    /// # Errors
    ///
    /// Returns the current fault of the file if it has never been valid.
    pub(crate) async fn roots(self: &Arc<Self>) -> Result<Arc<RootCertStore>, String> {
        self.current(|known| &known.roots).await
    }

    /// Returns the identity certificate and key.
    ///
    /// # Errors
    ///
    /// Returns the current fault of the files if they have never been valid.
    pub(crate) async fn identity(self: &Arc<Self>) -> Result<Arc<CertifiedKey>, String> {
        self.current(|known| &known.identity).await
    }

    async fn current<T: 'static>(
        self: &Arc<Self>,
        which: impl Fn(&LoadedFiles) -> &LastValid<T>,
    ) -> Result<Arc<T>, String> {
        if let Some(value) = which(&self.known()).value.clone() {
            return Ok(value);
        }
        let reading = Arc::clone(self);
        let read = self.runtime.unblock(move || reading.read()).await;
        read.ok_or("reading the files of the certificate provider failed")?;
        self.refresher.get_or_init(|| self.start_refresher());
        let known = self.known();
        let last = which(&known);
        let why = || last.fault.clone().unwrap_or_else(|| "no certificate is available".into());
        last.value.clone().ok_or_else(why)
    }

    /// Reads the files. Each fault is logged once.
    fn read(&self) {
        let roots = self.files.ca_certificate.as_deref().map(load_roots);
        let identity = self.files.identity.as_ref().map(load_identity);
        let mut known = self.known();
        let known = &mut *known;
        let faults = [
            roots.and_then(|read| known.roots.take(read.map_err(|why| why.to_string()))),
            identity.and_then(|read| known.identity.take(read.map_err(|why| why.to_string()))),
        ];
        for reason in faults.into_iter().flatten() {
            tracing::warn!(reason, "cannot use the files of a certificate provider");
        }
    }

    /// Starts a task that rereads the files at the interval.
    fn start_refresher(self: &Arc<Self>) -> Task {
        let interval = self.files.refresh_interval.max(MIN_INTERVAL);
        let (provider, runtime) = (Arc::downgrade(self), self.runtime.clone());
        self.runtime.start(async move {
            loop {
                runtime.sleep(interval).await;
                let Some(provider) = provider.upgrade() else { return };
                if runtime.unblock(move || provider.read()).await.is_none() {
                    return;
                }
            }
        })
    }

    fn known(&self) -> MutexGuard<'_, LoadedFiles> {
        // No code that may panic runs under this lock, so a poisoned lock still has a valid state.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provider").field(&self.files).finish()
    }
}

/// Last valid contents, and the current fault.
struct LastValid<T> {
    value: Option<Arc<T>>,
    fault: Option<String>,
}

impl<T> Default for LastValid<T> {
    fn default() -> Self {
        Self { value: None, fault: None }
    }
}

impl<T> LastValid<T> {
    /// Stores the result of a read. Returns a fault if it differs from the previous one.
    fn take(&mut self, read: Result<T, String>) -> Option<&str> {
        match read {
            Ok(value) => {
                *self = Self { value: Some(Arc::new(value)), fault: None };
                None
            }
            Err(why) if self.fault.as_ref() == Some(&why) => None,
            Err(why) => {
                self.fault = Some(why);
                self.fault.as_deref()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_valid_value_is_kept_and_each_error_reported_once() {
        let mut last = LastValid::default();
        assert_eq!(last.take(Err("not there".into())), Some("not there"));
        assert_eq!(last.take(Err("not there".into())), None);
        assert_eq!(last.take(Ok(1)), None);
        assert_eq!(last.take(Err("not there".into())), Some("not there"), "it was, meanwhile");
        assert_eq!(last.take(Err("garbage".into())), Some("garbage"));
        assert_eq!(last.value.as_deref(), Some(&1));
        assert_eq!(last.take(Ok(2)), None);
        assert_eq!(last.value.as_deref(), Some(&2));
    }
}
