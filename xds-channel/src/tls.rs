//! TLS to endpoints as configured by their cluster ([gRFC A29]): certificate providers and allowed
//! names.
//!
//! [gRFC A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md

use core::fmt;
use std::{net::IpAddr, sync::Arc};

use hyper_util::rt::TokioIo;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
    sign::SingleCertAndKey,
};
use tokio_rustls::TlsConnector;
use webpki::EndEntityCert;
use xds_grpc::{
    credentials::{PeerRole, RuntimeTime, crypto_provider, explain_tls_failure},
    runtime::{Io, SharedRuntime},
};
use xds_routing::{
    listener::{TlsContext, TrustedRoots},
    pattern::StringMatcher,
};

use crate::certificates::{Provider, Providers, provider_of_identity, provider_of_roots};

pub(crate) const ALPN_HTTP2: &[u8] = b"h2";

/// TLS settings of a cluster's connections.
#[derive(Clone, Debug)]
pub(crate) struct ClusterTls {
    /// Provider of root certificates; `None` uses the operating system's.
    roots: Option<Arc<Provider>>,
    /// Provider of the client certificate, if one is used.
    identity: Option<Arc<Provider>>,
    names: Vec<StringMatcher>,
}

// Compares the settings, not the current contents of the providers.
impl PartialEq for ClusterTls {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |one: &Option<Arc<Provider>>, other: &Option<Arc<Provider>>| {
            one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr)
        };
        is_same(&self.roots, &other.roots)
            && is_same(&self.identity, &other.identity)
            && self.names == other.names
    }
}

impl ClusterTls {
    /// Resolves a cluster's TLS context with the channel's certificate providers.
    ///
    /// # Errors
    ///
    /// Returns what is missing, for error messages of calls.
    pub(crate) fn new(context: &TlsContext, providers: &Providers) -> Result<Self, String> {
        let roots = match &context.roots {
            Some(TrustedRoots::Provider(provider)) => Some(provider_of_roots(providers, provider)?),
            Some(TrustedRoots::System) => None,
            _ => return Err("no root certificates are configured".into()),
        };
        let identity = context.identity.as_ref();
        let identity = identity.map(|it| provider_of_identity(providers, it)).transpose()?;
        Ok(Self { roots, identity, names: context.names.clone() })
    }

    /// Performs the TLS handshake with an endpoint.
    pub(crate) async fn connect(
        &self,
        io: Box<dyn Io>,
        name: ServerName<'static>,
        runtime: &SharedRuntime,
    ) -> Result<Box<dyn Io>, String> {
        let config = Arc::new(self.config(runtime).await?);
        let connecting = TlsConnector::from(config).connect(name, TokioIo::new(io));
        let stream = connecting.await;
        let stream = stream
            .map_err(|why| format!("TLS: {}", explain_tls_failure(&why, PeerRole::Server)))?;
        if stream.get_ref().1.alpn_protocol() != Some(ALPN_HTTP2) {
            return Err("TLS: the endpoint did not agree to speak HTTP/2 (ALPN h2)".into());
        }
        Ok(Box::new(TokioIo::new(stream)))
    }

    async fn config(&self, runtime: &SharedRuntime) -> Result<ClientConfig, String> {
        let roots = match &self.roots {
            Some(provider) => provider.roots().await?,
            None => {
                let read = runtime.unblock(system_roots).await;
                Arc::new(read.ok_or("reading the root certificates failed")??)
            }
        };
        let provider = crypto_provider();
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Verifier { roots, algorithms, names: self.names.clone() };
        let config =
            ClientConfig::builder_with_details(provider, Arc::new(RuntimeTime(runtime.clone())))
                .with_safe_default_protocol_versions()
                .map_err(|why| why.to_string())?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.identity {
            None => config.with_no_client_auth(),
            Some(provider) => {
                let identity = SingleCertAndKey::from(provider.identity().await?);
                config.with_client_cert_resolver(Arc::new(identity))
            }
        };
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        Ok(config)
    }
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match roots.is_empty() {
        true => Err("the operating system has no root certificates".into()),
        false => Ok(roots),
    }
}

/// Verifier of endpoint certificates: accepts those issued by a trusted root that have one of the
/// allowed names, if any are configured. The TLS server name is ignored, as gRFC A29 requires.
struct Verifier {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
    names: Vec<StringMatcher>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("names", &self.names).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        match self.names.is_empty() || is_named(end_entity, &self.names)? {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Returns whether a certificate has an allowed name. DNS names and URIs are compared, and IP
/// addresses with exact matchers.
fn is_named(certificate: &CertificateDer<'_>, names: &[StringMatcher]) -> Result<bool, Error> {
    let parsed = EndEntityCert::try_from(certificate)
        .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let is_address = |name: &StringMatcher| match name {
        StringMatcher::Exact(text, _) => text.parse::<IpAddr>().is_ok_and(|address| {
            let name = ServerName::IpAddress(address.into());
            parsed.verify_is_valid_for_subject_name(&name).is_ok()
        }),
        _ => false,
    };
    Ok(parsed.valid_dns_names().any(|own| names.iter().any(|name| is_dns_name(name, own)))
        || parsed.valid_uri_names().any(|own| names.iter().any(|name| name.matches(own)))
        || names.iter().any(is_address))
}

/// Matches a DNS name. An exact matcher also matches a wildcard certificate for its parent domain.
fn is_dns_name(name: &StringMatcher, own: &str) -> bool {
    match (name, own.strip_prefix("*.")) {
        (StringMatcher::Exact(text, _), Some(parent)) => text
            .split_once('.')
            .is_some_and(|(word, rest)| !word.is_empty() && rest.eq_ignore_ascii_case(parent)),
        (StringMatcher::Exact(text, _), None) => text.eq_ignore_ascii_case(own),
        _ => name.matches(own),
    }
}

#[cfg(test)]
mod tests {
    use xds_routing::pattern::LetterCase;

    use super::*;

    #[test]
    fn certificate_names_may_have_a_wildcard_label() {
        let exactly = |text: &str| StringMatcher::Exact(text.into(), LetterCase::Sensitive);
        for (name, own, fits) in [
            ("a.example", "a.example", true),
            ("a.example", "A.Example", true),
            ("a.example", "*.example", true),
            ("b.a.example", "*.example", false),
            (".example", "*.example", false),
            ("example", "*.example", false),
            ("*.example", "*.example", true),
        ] {
            assert_eq!(is_dns_name(&exactly(name), own), fits, "{name} {own}");
        }
        let suffix = StringMatcher::Suffix(".example".into(), LetterCase::Sensitive);
        assert!(is_dns_name(&suffix, "*.example"), "all else takes it as text");
    }
}
