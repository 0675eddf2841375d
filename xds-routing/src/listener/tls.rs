//! TLS contexts, judged as gRPC does (A29). What they do is up to those who make connections.

use alloc::vec::Vec;

use xds_core::ResourceName;

use crate::{
    extensions::decode,
    judge::Judge,
    pattern::TextMatcher,
    proto::envoy::{
        config::core::v3::{TransportSocket, transport_socket::ConfigType},
        extensions::transport_sockets::tls::v3::{
            self as schema, common_tls_context::ValidationContextType,
        },
    },
    route::judge_text,
};

/// How connections are secured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsContext {
    /// Where the own certificate comes from, if there is one.
    pub identity: Option<CertificateProvider>,
    /// Who vouches for the certificate of the other side.
    pub roots: Option<TrustedRoots>,
    /// Names of which the other side's certificate must have one; any will do if empty.
    pub names: Vec<TextMatcher>,
    /// Whether the other side needs a certificate; for servers.
    pub requires_client_certificate: bool,
}

/// A plugin of the bootstrap that has certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateProvider {
    /// Its name in the bootstrap.
    pub instance: ResourceName,
    /// Which of its certificates.
    pub certificate: ResourceName,
}

/// Who vouches for certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustedRoots {
    /// Those that a plugin has.
    Provider(CertificateProvider),
    /// Those that the system trusts.
    System,
}

const UPSTREAM: &str =
    "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
const DOWNSTREAM: &str =
    "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";

/// The TLS of a cluster: whoever serves must be vouched for.
pub(crate) fn judge_upstream(
    socket: &TransportSocket,
    judge: &mut Judge<'_>,
) -> Option<TlsContext> {
    let context: schema::UpstreamTlsContext = judge_socket(socket, UPSTREAM, judge)?;
    let Some(common) = context.common_tls_context.as_ref() else {
        judge.fault_in("common_tls_context", "must be set");
        return None;
    };
    let context = judge.field("common_tls_context", |judge| judge_common(common, judge))?;
    if context.roots.is_none() {
        judge.fault_in("common_tls_context", "must say who vouches for certificates");
    }
    Some(context)
}

/// The TLS of a server: it needs a certificate itself.
pub(super) fn judge_downstream(
    socket: &TransportSocket,
    judge: &mut Judge<'_>,
) -> Option<TlsContext> {
    let schema: schema::DownstreamTlsContext = judge_socket(socket, DOWNSTREAM, judge)?;
    let Some(common) = schema.common_tls_context.as_ref() else {
        judge.fault_in("common_tls_context", "must be set");
        return None;
    };
    let mut context = judge.field("common_tls_context", |judge| judge_common(common, judge))?;
    context.requires_client_certificate =
        schema.require_client_certificate.as_ref().is_some_and(|it| it.value);
    if context.identity.is_none() {
        judge.fault_in("common_tls_context.tls_certificate_provider_instance", "must be set");
    }
    if context.requires_client_certificate && context.roots.is_none() {
        let why = "needs somebody who vouches for certificates";
        judge.fault_in("require_client_certificate", why);
    }
    if schema.require_sni.as_ref().is_some_and(|it| it.value) {
        judge.fault_in("require_sni", "not supported by gRPC");
    }
    if !context.names.is_empty() {
        judge.fault_in("common_tls_context", "names of clients are not supported by gRPC");
    }
    if schema.ocsp_staple_policy != 0 {
        judge.fault_in("ocsp_staple_policy", "must be LENIENT_STAPLING");
    }
    Some(context)
}

fn judge_socket<M: prost::Message + Default>(
    socket: &TransportSocket,
    type_url: &str,
    judge: &mut Judge<'_>,
) -> Option<M> {
    judge.field("typed_config", |judge| match socket.config_type.as_ref() {
        Some(ConfigType::TypedConfig(config)) if config.type_url == type_url => {
            decode(&config.value, judge)
        }
        Some(ConfigType::TypedConfig(config)) => {
            judge.fault_in("type_url", format_args!("`{}` is not supported", config.type_url));
            None
        }
        None => {
            judge.fault("must be set");
            None
        }
    })
}

fn judge_common(common: &schema::CommonTlsContext, judge: &mut Judge<'_>) -> Option<TlsContext> {
    if common.tls_params.is_some() {
        judge.fault_in("tls_params", "not supported by gRPC");
    }
    let identity = common.tls_certificate_provider_instance.as_ref().and_then(|provider| {
        judge.field("tls_certificate_provider_instance", |judge| judge_provider(provider, judge))
    });
    let mut context = TlsContext { identity, ..TlsContext::default() };
    let (name, validation) = match common.validation_context_type.as_ref() {
        None => return Some(context),
        Some(ValidationContextType::ValidationContext(validation)) => {
            ("validation_context", Some(validation))
        }
        Some(ValidationContextType::CombinedValidationContext(combined)) => (
            "combined_validation_context.default_validation_context",
            combined.default_validation_context.as_ref(),
        ),
    };
    if let Some(validation) = validation {
        judge.field(name, |judge| judge_validation(validation, &mut context, judge));
    }
    Some(context)
}

fn judge_validation(
    validation: &schema::CertificateValidationContext,
    context: &mut TlsContext,
    judge: &mut Judge<'_>,
) {
    if let Some(provider) = validation.ca_certificate_provider_instance.as_ref() {
        let provider = judge
            .field("ca_certificate_provider_instance", |judge| judge_provider(provider, judge));
        context.roots = provider.map(TrustedRoots::Provider);
    } else if validation.system_root_certs.is_some() {
        context.roots = Some(TrustedRoots::System);
    }
    #[allow(deprecated, reason = "gRPC reads the names from here")]
    for (index, name) in validation.match_subject_alt_names.iter().enumerate() {
        let judged =
            judge.element("match_subject_alt_names", index, |judge| judge_text(name, judge));
        context.names.extend(judged);
    }
    let unsupported = [
        ("verify_certificate_spki", !validation.verify_certificate_spki.is_empty()),
        ("verify_certificate_hash", !validation.verify_certificate_hash.is_empty()),
        (
            "require_signed_certificate_timestamp",
            validation.require_signed_certificate_timestamp.as_ref().is_some_and(|it| it.value),
        ),
    ];
    for (field, _) in unsupported.iter().filter(|(_, is_set)| *is_set) {
        judge.fault_in(field, "not supported by gRPC");
    }
}

fn judge_provider(
    provider: &schema::CertificateProviderPluginInstance,
    judge: &mut Judge<'_>,
) -> Option<CertificateProvider> {
    let known = judge.rules.certificate_providers.as_ref();
    if known.is_some_and(|known| !known.contains(&provider.instance_name)) {
        let why = format_args!("`{}` is not in the bootstrap", provider.instance_name);
        judge.fault_in("instance_name", why);
    }
    Some(CertificateProvider {
        instance: ResourceName::from(provider.instance_name.as_str()),
        certificate: ResourceName::from(provider.certificate_name.as_str()),
    })
}
