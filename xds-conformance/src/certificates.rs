//! Certificates for one test case.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};

/// Certificate authority.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// Certificate and private key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) private_key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub(crate) fn issue(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity { certificate: certificate.pem(), private_key: key.serialize_pem() }
    }
}

/// Returns the TLS configuration of a server with the identity `own` that accepts clients of
/// `clients` only.
pub(crate) fn mutual_tls(own: &Identity, clients: &Authority) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(der(&clients.pem)).expect("a root");
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let key = PrivateKeyDer::from_pem_slice(own.private_key.as_bytes()).expect("a key");
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("what rustls does by default")
        .with_client_cert_verifier(verifier.build().expect("roots"))
        .with_single_cert(vec![der(&own.certificate)], key)
        .expect("an identity");
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}
