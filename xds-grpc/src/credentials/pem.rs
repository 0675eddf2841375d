//! Parsing of certificate and key files. Errors never quote a file, so parser messages are not
//! included.

use std::path::Path;

use rustls::{
    InconsistentKeys, RootCertStore,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime, pem::PemObject as _,
    },
    sign::CertifiedKey,
};
use tracing::warn;
use webpki::OwnedCertRevocationList;
use xds_bootstrap::IdentityFiles;

use super::{
    crypto::crypto_provider, error::CredentialsError, expiry::time_error,
    file_content::FileContent, files,
};

/// Reads root certificates from a regular file of at most 1 MiB. Blocks while it reads.
///
/// # Errors
///
/// Returns an error if the file cannot be read or contains anything but valid root certificates.
pub fn load_roots(path: &Path) -> Result<RootCertStore, CredentialsError> {
    parse_roots(path, &files::read(path)?)
}

/// Reads a certificate chain and its private key from regular files of at most 1 MiB each. Blocks
/// while it reads.
///
/// # Errors
///
/// Returns an error if a file cannot be read or is invalid, or if the key does not match the
/// certificate. They do not match while only one of the files has been replaced.
pub fn load_identity(identity: &IdentityFiles) -> Result<CertifiedKey, CredentialsError> {
    let (chain, key) = parse_identity(identity, &read_identity(identity)?)?;
    CertifiedKey::from_der(chain, key, &crypto_provider())
        .map_err(|why| bad_identity(identity, &why))
}

/// Reads the certificate file and the private key file, in this order.
pub(super) fn read_identity(identity: &IdentityFiles) -> Result<[Vec<u8>; 2], CredentialsError> {
    Ok([files::read(&identity.certificate)?, files::read(&identity.private_key)?])
}

/// Parses the contents of the certificate file and the private key file.
pub(super) fn parse_identity(
    identity: &IdentityFiles,
    [certificate, private_key]: &[Vec<u8>; 2],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CredentialsError> {
    let chain = certificates(&identity.certificate, certificate)?;
    let key = PrivateKeyDer::from_pem_slice(private_key).map_err(|_| {
        let (path, found) =
            (identity.private_key.clone(), FileContent::instead_of_key(private_key));
        CredentialsError::NoPrivateKey { path, found }
    })?;
    if let Some(why) = chain.first().and_then(outside_validity) {
        let file = identity.certificate.display();
        warn!(%file, "{why}, so peers may refuse it");
    }
    Ok((chain, key))
}

/// Returns why a certificate is not valid at this time, with advice. `None` if it is.
fn outside_validity(certificate: &CertificateDer<'_>) -> Option<&'static str> {
    match time_error(certificate, UnixTime::now())? {
        webpki::Error::CertExpired { .. } => {
            Some("the certificate has expired (renew it, or check the clock of this machine)")
        }
        webpki::Error::CertNotValidYet { .. } => Some(
            "the certificate is not valid yet (check the clock of this machine and of its issuer)",
        ),
        _ => None,
    }
}

/// Parses root certificates.
pub(super) fn parse_roots(path: &Path, content: &[u8]) -> Result<RootCertStore, CredentialsError> {
    let listed = certificates(path, content)?;
    let mut roots = RootCertStore::empty();
    for certificate in listed {
        roots.add(certificate).map_err(|why| CredentialsError::BadRoot {
            path: path.to_owned(),
            why: why.to_string().into(),
        })?;
    }
    Ok(roots)
}

/// Parses certificate revocation lists. At least one is required, and all must be valid.
pub(super) fn parse_revocation_lists(
    path: &Path,
    content: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, CredentialsError> {
    let invalid = |why: String| CredentialsError::BadRevocationList {
        path: path.to_owned(),
        why: why.into(),
    };
    let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(content).collect();
    let all = all.ok().filter(|all| !all.is_empty());
    let all =
        all.ok_or_else(|| invalid(FileContent::instead_of_revocation_lists(content).to_string()))?;
    for list in &all {
        OwnedCertRevocationList::from_der(list).map_err(|why| invalid(why.to_string()))?;
    }
    Ok(all)
}

/// Parses certificates. At least one is required, and all must be valid PEM.
pub(super) fn certificates(
    path: &Path,
    content: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(|| {
        let (path, found) = (path.to_owned(), FileContent::instead_of_certificates(content));
        CredentialsError::NoCertificates { path, found }
    })
}

pub(super) fn bad_identity(identity: &IdentityFiles, why: &rustls::Error) -> CredentialsError {
    CredentialsError::BadIdentity {
        certificate: identity.certificate.clone(),
        private_key: identity.private_key.clone(),
        why: match why {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => MISMATCH.into(),
            other => other.to_string().into(),
        },
    }
}

const MISMATCH: &str =
    "the private key does not match the certificate, which must be the first one in its file";
