//! TLS of a server's connections ([gRFC A29]), and the names in client certificates.
//!
//! [gRFC A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md

use core::fmt::Display;
use std::sync::Arc;

use rustls::{
    ServerConfig,
    pki_types::CertificateDer,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    sign::SingleCertAndKey,
};
use x509_cert::{
    Certificate,
    der::Decode as _,
    ext::pkix::{SubjectAltName, name::GeneralName},
};
use xds_grpc::credentials::crypto_provider;
use xds_routing::{
    listener::{TlsContext, TrustedRoots},
    serving::{ClientIdentity, ConnectionSecurity},
};

use crate::{
    certificates::{Provider, Providers, provider_of_identity, provider_of_roots},
    tls::ALPN_HTTP2,
};

/// TLS settings of a filter chain.
pub(super) struct ServerTls {
    identity: Arc<Provider>,
    /// Provider of the roots of client certificates, if clients are asked for one.
    roots: Option<Arc<Provider>>,
    requires_client_certificate: bool,
}

impl ServerTls {
    /// Resolves the TLS context of a filter chain with the certificate providers of the server.
    ///
    /// # Errors
    ///
    /// Returns a message that names what is missing.
    pub(super) fn new(context: &TlsContext, providers: &Providers) -> Result<Self, String> {
        let identity = context.identity.as_ref().ok_or("no certificate is configured")?;
        let identity = provider_of_identity(providers, identity)?;
        let roots = match &context.roots {
            None => None,
            Some(TrustedRoots::Provider(provider)) => Some(provider_of_roots(providers, provider)?),
            Some(_) => return Err("the roots of the system do not verify clients".into()),
        };
        let requires_client_certificate = context.requires_client_certificate;
        Ok(Self { identity, roots, requires_client_certificate })
    }

    /// Returns the configuration with the current certificates.
    ///
    /// # Errors
    ///
    /// Returns the fault of a file that has never been valid.
    pub(super) async fn config(&self) -> Result<Arc<ServerConfig>, String> {
        let provider = crypto_provider();
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|why| why.to_string())?;
        let config = match &self.roots {
            None => config.with_no_client_auth(),
            Some(roots) => {
                let roots = roots.roots().await?;
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match self.requires_client_certificate {
                    true => verifier,
                    false => verifier.allow_unauthenticated(),
                };
                config.with_client_cert_verifier(verifier.build().map_err(|why| why.to_string())?)
            }
        };
        let identity = SingleCertAndKey::from(self.identity.identity().await?);
        let mut config = config.with_cert_resolver(Arc::new(identity));
        // A resumed session would not check the client's certificate again, and each connection has
        // a configuration of its own.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        Ok(Arc::new(config))
    }
}

/// Returns the security of a connection whose client presented these verified certificates.
///
/// # Errors
///
/// Returns an error if a certificate cannot be read. Access rules would not see its names.
pub(super) fn security_of(
    certificates: &[CertificateDer<'static>],
) -> Result<ConnectionSecurity, String> {
    match certificates.first() {
        None => Ok(ConnectionSecurity::Tls),
        Some(certificate) => Ok(ConnectionSecurity::MutualTls(identity_of(certificate)?)),
    }
}

/// Returns the names in a verified certificate, also those that are not host names.
fn identity_of(certificate: &CertificateDer<'_>) -> Result<ClientIdentity, String> {
    let unreadable = |why: &dyn Display| format!("cannot read the client's certificate: {why}");
    let parsed = Certificate::from_der(certificate).map_err(|why| unreadable(&why))?;
    let certificate = parsed.tbs_certificate();
    let alternatives = certificate.get_extension::<SubjectAltName>();
    let mut identity =
        ClientIdentity { subject: certificate.subject().to_string(), ..ClientIdentity::default() };
    if let Some((_, SubjectAltName(names))) = alternatives.map_err(|why| unreadable(&why))? {
        for name in names {
            match name {
                GeneralName::UniformResourceIdentifier(uri) => identity.uris.push(uri.to_string()),
                GeneralName::DnsName(name) => identity.dns_names.push(name.to_string()),
                _ => {}
            }
        }
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn identity(names: &[(DnType, &str)], alternatives: Vec<SanType>) -> ClientIdentity {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.subject_alt_names = alternatives;
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        identity_of(certificate.der()).expect("a readable certificate")
    }

    #[test]
    fn names_of_a_certificate_are_read() {
        let uri = "spiffe://example.com/shop";
        let alternatives = vec![
            SanType::URI(uri.try_into().unwrap()),
            SanType::DnsName("shop.example.com".try_into().unwrap()),
            SanType::DnsName("*.shop.example.com".try_into().unwrap()),
        ];
        let identity = identity(&[], alternatives);
        assert_eq!(identity.uris, [uri]);
        assert_eq!(identity.dns_names, ["shop.example.com", "*.shop.example.com"]);
        assert_eq!(identity.subject, "");
    }

    // Without them, the subject would be compared with access rules.
    #[test]
    fn names_that_are_not_host_names_are_read() {
        let names = ["node one", "node:8080", "_grpc.shop.example.com", "*"];
        let alternatives = names.map(|name| SanType::DnsName(name.try_into().unwrap()));
        let identity = identity(&[(DnType::CommonName, "shop")], alternatives.into());
        assert_eq!(identity.dns_names, names);
    }

    // RFC 2253: the last name comes first, and special characters are escaped.
    #[test]
    fn subject_has_the_form_of_rfc_2253() {
        let subject = |names: &[(DnType, &str)]| identity(names, Vec::new()).subject;
        let (country, unit) = (DnType::CountryName, DnType::OrganizationalUnitName);
        let (organization, name) = (DnType::OrganizationName, DnType::CommonName);
        assert_eq!(
            subject(&[
                (country, "US"),
                (DnType::StateOrProvinceName, "CA"),
                (DnType::LocalityName, "Town"),
                (organization.clone(), "Shop"),
                (unit, "Carts"),
                (name.clone(), "cart-1"),
            ]),
            "CN=cart-1,OU=Carts,O=Shop,L=Town,ST=CA,C=US"
        );
        assert_eq!(
            subject(&[(organization, "Shop, Inc."), (name, "a+b")]),
            "CN=a\\+b,O=Shop\\, Inc."
        );
    }

    #[test]
    fn unreadable_certificate_is_an_error() {
        let error = security_of(&[CertificateDer::from(vec![0x30, 0])]).unwrap_err();
        assert!(error.starts_with("cannot read the client's certificate: "), "{error}");
    }
}
