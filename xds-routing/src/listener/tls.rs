//! TLS contexts, validated as gRPC does ([gRFC A29]). The owner of the connections applies them.
//!
//! [gRFC A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md

use alloc::vec::Vec;

use xds_core::ResourceName;

use crate::{
    extensions::decode,
    matchers::validate_string_matcher,
    pattern::StringMatcher,
    proto::envoy::{
        config::core::v3::{TransportSocket, transport_socket::ConfigType},
        extensions::transport_sockets::tls::v3::{
            self as schema,
            common_tls_context::{CombinedCertificateValidationContext, ValidationContextType},
        },
    },
    validation::Validator,
};

/// TLS of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsContext {
    /// Source of the local certificate, if there is one.
    pub identity: Option<CertificateProvider>,
    /// Trusted roots for the peer's certificate.
    pub roots: Option<TrustedRoots>,
    /// Matchers for subject alternative names, one of which the peer's certificate must match.
    /// Empty accepts any.
    pub names: Vec<StringMatcher>,
    /// Whether a client must present a certificate. For servers.
    pub requires_client_certificate: bool,
}

/// Certificate provider plugin of the bootstrap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateProvider {
    /// Name of the plugin instance in the bootstrap.
    pub instance: ResourceName,
    /// Name of the certificate within the instance.
    pub certificate: ResourceName,
}

/// Trusted root certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustedRoots {
    /// Roots of a certificate provider.
    Provider(CertificateProvider),
    /// Roots of the operating system.
    System,
}

const UPSTREAM: &str =
    "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
const DOWNSTREAM: &str =
    "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";

/// Validates the TLS context of a cluster, which must configure trusted roots.
pub(crate) fn validate_upstream(
    socket: &TransportSocket,
    validator: &mut Validator<'_>,
) -> Option<TlsContext> {
    let context: schema::UpstreamTlsContext = validate_socket(socket, UPSTREAM, validator)?;
    let Some(common) = context.common_tls_context.as_ref() else {
        validator.error_in("common_tls_context", "must be set");
        return None;
    };
    let context =
        validator.field("common_tls_context", |validator| validate_common(common, validator))?;
    if context.roots.is_none() {
        validator.error_in("common_tls_context", "must configure trusted root certificates");
    }
    Some(context)
}

/// Validates the TLS context of a server, which must configure a certificate.
pub(super) fn validate_downstream(
    socket: &TransportSocket,
    validator: &mut Validator<'_>,
) -> Option<TlsContext> {
    let schema: schema::DownstreamTlsContext = validate_socket(socket, DOWNSTREAM, validator)?;
    let Some(common) = schema.common_tls_context.as_ref() else {
        validator.error_in("common_tls_context", "must be set");
        return None;
    };
    let mut context =
        validator.field("common_tls_context", |validator| validate_common(common, validator))?;
    context.requires_client_certificate =
        schema.require_client_certificate.as_ref().is_some_and(|it| it.value);
    if context.identity.is_none() {
        validator.error_in("common_tls_context.tls_certificate_provider_instance", "must be set");
    }
    if context.requires_client_certificate && context.roots.is_none() {
        let why = "requires trusted root certificates";
        validator.error_in("require_client_certificate", why);
    }
    if schema.require_sni.as_ref().is_some_and(|it| it.value) {
        validator.error_in("require_sni", UNSUPPORTED);
    }
    // System roots verify servers, not clients (B47a).
    if context.roots == Some(TrustedRoots::System) {
        let why = "system_root_certs is not supported for client certificates";
        validator.error_in("common_tls_context", why);
    }
    if !context.names.is_empty() {
        validator.error_in(
            "common_tls_context",
            "matching the names of client certificates is not supported by gRPC",
        );
    }
    if schema.ocsp_staple_policy != 0 {
        validator.error_in("ocsp_staple_policy", "must be LENIENT_STAPLING");
    }
    Some(context)
}

fn validate_socket<M: prost::Message + Default>(
    socket: &TransportSocket,
    type_url: &str,
    validator: &mut Validator<'_>,
) -> Option<M> {
    validator.field("typed_config", |validator| match socket.config_type.as_ref() {
        Some(ConfigType::TypedConfig(config)) if config.type_url == type_url => {
            decode(&config.value, validator)
        }
        Some(ConfigType::TypedConfig(config)) => {
            validator.error_in("type_url", format_args!("`{}` is not supported", config.type_url));
            None
        }
        None => {
            validator.error("must be set");
            None
        }
    })
}

const UNSUPPORTED: &str = "not supported by gRPC";

fn validate_common(
    common: &schema::CommonTlsContext,
    validator: &mut Validator<'_>,
) -> Option<TlsContext> {
    let identity = validate_identity(common, validator);
    let mut context = TlsContext { identity, ..TlsContext::default() };
    for (field, is_set) in [
        ("tls_params", common.tls_params.is_some()),
        ("custom_handshaker", common.custom_handshaker.is_some()),
    ] {
        if is_set {
            validator.error_in(field, UNSUPPORTED);
        }
    }
    match common.validation_context_type.as_ref() {
        None => {}
        Some(ValidationContextType::ValidationContext(validation)) => {
            validator.field("validation_context", |validator| {
                validate_validation(validation, &mut context, validator);
            });
        }
        Some(ValidationContextType::CombinedValidationContext(combined)) => {
            validator.field("combined_validation_context", |validator| {
                validate_combined(combined, &mut context, validator);
            });
        }
        Some(ValidationContextType::ValidationContextSdsSecretConfig(_)) => {
            validator.error_in("validation_context_sds_secret_config", UNSUPPORTED);
        }
    }
    Some(context)
}

/// Validates the source of the local certificate. Older servers set a deprecated field, which is
/// used if the new one is absent. Unsupported sources are errors only if neither is set.
fn validate_identity(
    common: &schema::CommonTlsContext,
    validator: &mut Validator<'_>,
) -> Option<CertificateProvider> {
    if let Some(provider) = common.tls_certificate_provider_instance.as_ref() {
        return Some(validator.field("tls_certificate_provider_instance", |validator| {
            let schema::CertificateProviderPluginInstance { instance_name, certificate_name } =
                provider;
            validate_provider(instance_name, certificate_name, validator)
        }));
    }
    #[allow(deprecated, reason = "older servers send only this field")]
    if let Some(provider) = common.tls_certificate_certificate_provider_instance.as_ref() {
        return Some(validator.field(
            "tls_certificate_certificate_provider_instance",
            |validator| {
                validate_provider(&provider.instance_name, &provider.certificate_name, validator)
            },
        ));
    }
    if !common.tls_certificates.is_empty() {
        validator.error_in("tls_certificates", UNSUPPORTED);
    }
    if !common.tls_certificate_sds_secret_configs.is_empty() {
        validator.error_in("tls_certificate_sds_secret_configs", UNSUPPORTED);
    }
    None
}

/// Validates a combined context: the default context or, if that names no provider for the roots,
/// the deprecated field of older servers.
fn validate_combined(
    combined: &CombinedCertificateValidationContext,
    context: &mut TlsContext,
    validator: &mut Validator<'_>,
) {
    if let Some(validation) = combined.default_validation_context.as_ref() {
        validator.field("default_validation_context", |validator| {
            validate_validation(validation, context, validator);
        });
    }
    if matches!(context.roots, Some(TrustedRoots::Provider(_))) {
        return;
    }
    #[allow(deprecated, reason = "older servers send only this field")]
    if let Some(provider) = combined.validation_context_certificate_provider_instance.as_ref() {
        let provider =
            validator.field("validation_context_certificate_provider_instance", |validator| {
                validate_provider(&provider.instance_name, &provider.certificate_name, validator)
            });
        context.roots = Some(TrustedRoots::Provider(provider));
    }
}

fn validate_validation(
    validation: &schema::CertificateValidationContext,
    context: &mut TlsContext,
    validator: &mut Validator<'_>,
) {
    if let Some(provider) = validation.ca_certificate_provider_instance.as_ref() {
        let provider = validator.field("ca_certificate_provider_instance", |validator| {
            validate_provider(&provider.instance_name, &provider.certificate_name, validator)
        });
        context.roots = Some(TrustedRoots::Provider(provider));
    } else if validation.system_root_certs.is_some() {
        context.roots = Some(TrustedRoots::System);
    }
    #[allow(deprecated, reason = "gRPC reads the names from this field")]
    for (index, name) in validation.match_subject_alt_names.iter().enumerate() {
        let validated = validator.element("match_subject_alt_names", index, |validator| {
            validate_string_matcher(name, validator)
        });
        context.names.extend(validated);
    }
    let unsupported = [
        ("verify_certificate_spki", !validation.verify_certificate_spki.is_empty()),
        ("verify_certificate_hash", !validation.verify_certificate_hash.is_empty()),
        (
            "require_signed_certificate_timestamp",
            validation.require_signed_certificate_timestamp.as_ref().is_some_and(|it| it.value),
        ),
        ("crl", validation.crl.is_some()),
        ("custom_validator_config", validation.custom_validator_config.is_some()),
    ];
    for (field, _) in unsupported.iter().filter(|(_, is_set)| *is_set) {
        validator.error_in(field, UNSUPPORTED);
    }
}

fn validate_provider(
    instance: &str,
    certificate: &str,
    validator: &mut Validator<'_>,
) -> CertificateProvider {
    let known = validator.rules.certificate_providers.as_ref();
    if known.is_some_and(|known| !known.iter().any(|it| it == instance)) {
        validator.error_in("instance_name", format_args!("`{instance}` is not in the bootstrap"));
    }
    CertificateProvider {
        instance: ResourceName::from(instance),
        certificate: ResourceName::from(certificate),
    }
}
