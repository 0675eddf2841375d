//! What is in files of certificates and keys. No error quotes a file: a parser's words might.

use std::path::Path;

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use xds_bootstrap::IdentityFiles;

use super::{error::CredentialsError, files};

/// The files' content, the certificates first.
pub(super) fn read_identity(identity: &IdentityFiles) -> Result<[Vec<u8>; 2], CredentialsError> {
    Ok([files::read(&identity.certificate)?, files::read(&identity.private_key)?])
}

/// What the content of the two files stands for.
pub(super) fn parse_identity(
    identity: &IdentityFiles,
    [certificate, private_key]: &[Vec<u8>; 2],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CredentialsError> {
    let chain = certificates(certificate)
        .ok_or_else(|| CredentialsError::NoCertificates(identity.certificate.clone()))?;
    let key = PrivateKeyDer::from_pem_slice(private_key)
        .map_err(|_| CredentialsError::NoPrivateKey(identity.private_key.clone()))?;
    Ok((chain, key))
}

/// The root certificates in the content of a file.
pub(super) fn parse_roots(path: &Path, content: &[u8]) -> Result<RootCertStore, CredentialsError> {
    let listed =
        certificates(content).ok_or_else(|| CredentialsError::NoCertificates(path.to_owned()))?;
    let mut roots = RootCertStore::empty();
    for certificate in listed {
        roots.add(certificate).map_err(|why| CredentialsError::BadRoot {
            path: path.to_owned(),
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

pub(super) fn bad_identity(identity: &IdentityFiles, why: &rustls::Error) -> CredentialsError {
    CredentialsError::BadIdentity {
        certificate: identity.certificate.clone(),
        private_key: identity.private_key.clone(),
        why: why.to_string().into(),
    }
}
