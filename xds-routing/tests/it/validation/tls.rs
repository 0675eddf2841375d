//! Validation of TLS contexts in clusters and server listeners (gRFC A29).
#![allow(deprecated, reason = "older servers send only this field")]

use xds_core::proto::StringMatcher;
use xds_routing::{
    Rules,
    cluster::Cluster,
    listener::{CertificateProvider, Listener, ListenerKind, TlsContext, TrustedRoots},
    proto::envoy::{
        config::{
            core::v3::{TransportSocket, TypedExtensionConfig, transport_socket},
            listener::v3 as listeners,
        },
        extensions::transport_sockets::tls::v3::{
            CertificateProviderPluginInstance, CertificateValidationContext, CommonTlsContext,
            DownstreamTlsContext, SdsSecretConfig, TlsCertificate, TlsParameters,
            UpstreamTlsContext,
            certificate_validation_context::SystemRootCerts,
            common_tls_context::{
                CertificateProviderInstance, CombinedCertificateValidationContext,
                ValidationContextType,
            },
        },
    },
};

use crate::{
    support::*,
    validation::{clusters::eds, servers, why},
};

fn socket<M: prost::Message + prost::Name>(context: &M) -> TransportSocket {
    TransportSocket {
        name: "tls".into(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(packed(context))),
    }
}

/// Rules for a bootstrap with the providers `p` and `q`.
fn rules() -> Rules {
    let mut rules = Rules::default();
    rules.certificate_providers = Some(vec!["p".into(), "q".into()]);
    rules
}

fn of_cluster(common: CommonTlsContext) -> Result<TlsContext, String> {
    let context =
        UpstreamTlsContext { common_tls_context: Some(common), ..UpstreamTlsContext::default() };
    let mut cluster = eds("c");
    cluster.transport_socket = Some(socket(&context));
    let validated = Cluster::from_schema(&cluster, &rules()).map_err(|it| it.to_string())?;
    Ok(validated.tls.expect("it is asked for"))
}

fn of_server(context: &DownstreamTlsContext) -> Result<TlsContext, String> {
    let mut chain = servers::chain(None);
    chain.transport_socket = Some(socket(context));
    let listener: listeners::Listener = servers::server(vec![chain]);
    let validated = Listener::from_schema(&listener, &rules()).map_err(|it| it.to_string())?;
    match validated.kind() {
        ListenerKind::Socket(socket) => Ok(socket.filter_chains[0].tls.clone().expect("TLS")),
        other => panic!("{other:?}"),
    }
}

fn plugin(name: &str) -> Option<CertificateProviderPluginInstance> {
    let certificate_name = "c".into();
    Some(CertificateProviderPluginInstance { instance_name: name.into(), certificate_name })
}

fn older(name: &str) -> Option<CertificateProviderInstance> {
    let certificate_name = "c".into();
    Some(CertificateProviderInstance { instance_name: name.into(), certificate_name })
}

fn trusting(name: &str) -> CertificateValidationContext {
    CertificateValidationContext {
        ca_certificate_provider_instance: plugin(name),
        ..CertificateValidationContext::default()
    }
}

fn validated(context: CertificateValidationContext) -> CommonTlsContext {
    CommonTlsContext {
        validation_context_type: Some(ValidationContextType::ValidationContext(context)),
        ..CommonTlsContext::default()
    }
}

fn combined(context: CombinedCertificateValidationContext) -> CommonTlsContext {
    CommonTlsContext {
        validation_context_type: Some(ValidationContextType::CombinedValidationContext(context)),
        ..CommonTlsContext::default()
    }
}

fn instance(context: Option<&CertificateProvider>) -> Option<&str> {
    context.map(|provider| {
        assert_eq!(provider.certificate.as_str(), "c");
        provider.instance.as_str()
    })
}

fn roots(context: &TlsContext) -> Option<&str> {
    match context.roots.as_ref() {
        Some(TrustedRoots::Provider(provider)) => instance(Some(provider)),
        _ => None,
    }
}

const UPSTREAM: &str = "transport_socket.common_tls_context";

#[test]
fn cluster_tls_requires_trusted_roots() {
    let nobody = why(of_cluster(CommonTlsContext::default()));
    assert!(nobody.ends_with("must configure trusted root certificates"), "{nobody}");
    let context = of_cluster(validated(trusting("p"))).unwrap();
    assert_eq!((roots(&context), instance(context.identity.as_ref())), (Some("p"), None));
    let unknown = why(of_cluster(validated(trusting("other"))));
    assert!(unknown.contains("instance_name: `other` is not in the bootstrap"), "{unknown}");
    let system = CertificateValidationContext {
        system_root_certs: Some(SystemRootCerts {}),
        ..CertificateValidationContext::default()
    };
    assert_eq!(of_cluster(validated(system)).unwrap().roots, Some(TrustedRoots::System));
}

/// Older servers set only the deprecated fields.
#[test]
fn deprecated_certificate_provider_fields_are_used_as_a_fallback() {
    let only_older = CommonTlsContext {
        tls_certificate_certificate_provider_instance: older("q"),
        ..combined(CombinedCertificateValidationContext {
            validation_context_certificate_provider_instance: older("p"),
            ..CombinedCertificateValidationContext::default()
        })
    };
    let context = of_cluster(only_older.clone()).unwrap();
    assert_eq!((roots(&context), instance(context.identity.as_ref())), (Some("p"), Some("q")));
    let of_servers = of_server(&DownstreamTlsContext {
        common_tls_context: Some(only_older.clone()),
        require_client_certificate: boolean(true),
        ..DownstreamTlsContext::default()
    });
    assert_eq!(roots(&of_servers.unwrap()), Some("p"));

    // If both are set, the newer fields are used and the others are not validated.
    let both = CommonTlsContext {
        tls_certificate_provider_instance: plugin("p"),
        tls_certificate_certificate_provider_instance: older("other"),
        ..combined(CombinedCertificateValidationContext {
            default_validation_context: Some(trusting("q")),
            validation_context_certificate_provider_instance: older("other"),
        })
    };
    let context = of_cluster(both).unwrap();
    assert_eq!((roots(&context), instance(context.identity.as_ref())), (Some("q"), Some("p")));

    let unknown = CommonTlsContext {
        tls_certificate_certificate_provider_instance: older("other"),
        ..only_older
    };
    assert_eq!(
        why(of_cluster(unknown)),
        format!(
            "{UPSTREAM}.tls_certificate_certificate_provider_instance.instance_name: `other` is not in the bootstrap"
        )
    );
    let unknown = combined(CombinedCertificateValidationContext {
        validation_context_certificate_provider_instance: older("other"),
        ..CombinedCertificateValidationContext::default()
    });
    let unknown = why(of_cluster(unknown));
    let place = "combined_validation_context.validation_context_certificate_provider_instance";
    assert!(unknown.starts_with(&format!("{UPSTREAM}.{place}.instance_name: ")), "{unknown}");
}

/// Certificates and secrets outside of providers, and unsupported validation options.
#[test]
fn tls_features_unsupported_by_grpc_are_rejected_by_name() {
    let extension = || Some(TypedExtensionConfig { name: "e".into(), typed_config: None });
    let secret = || SdsSecretConfig { name: "s".into() };
    type Change = fn(&mut CommonTlsContext);
    let common: [(&str, Change); 2] = [
        ("tls_certificates", |it| it.tls_certificates = vec![TlsCertificate {}]),
        ("tls_certificate_sds_secret_configs", |it| {
            it.tls_certificate_sds_secret_configs = vec![SdsSecretConfig { name: "s".into() }];
        }),
    ];
    for (field, change) in common {
        let mut context = validated(trusting("p"));
        change(&mut context);
        let text = why(of_cluster(context.clone()));
        assert_eq!(text, format!("{UPSTREAM}.{field}: not supported by gRPC"));
        // If a provider has the certificate, these fields are ignored.
        context.tls_certificate_provider_instance = plugin("p");
        assert!(of_cluster(context).is_ok(), "{field}");
    }
    for (field, context) in [
        (
            "tls_params",
            CommonTlsContext {
                tls_params: Some(TlsParameters::default()),
                ..validated(trusting("p"))
            },
        ),
        (
            "custom_handshaker",
            CommonTlsContext { custom_handshaker: extension(), ..validated(trusting("p")) },
        ),
        (
            "validation_context.crl",
            validated(CertificateValidationContext {
                crl: Some(Default::default()),
                ..trusting("p")
            }),
        ),
        (
            "validation_context.custom_validator_config",
            validated(CertificateValidationContext {
                custom_validator_config: extension(),
                ..trusting("p")
            }),
        ),
        (
            "validation_context.verify_certificate_spki",
            validated(CertificateValidationContext {
                verify_certificate_spki: vec!["a".into()],
                ..trusting("p")
            }),
        ),
        (
            "validation_context.verify_certificate_hash",
            validated(CertificateValidationContext {
                verify_certificate_hash: vec!["a".into()],
                ..trusting("p")
            }),
        ),
        (
            "validation_context.require_signed_certificate_timestamp",
            validated(CertificateValidationContext {
                require_signed_certificate_timestamp: boolean(true),
                ..trusting("p")
            }),
        ),
    ] {
        assert_eq!(why(of_cluster(context)), format!("{UPSTREAM}.{field}: not supported by gRPC"));
    }
    let from_secret = CommonTlsContext {
        validation_context_type: Some(ValidationContextType::ValidationContextSdsSecretConfig(
            secret(),
        )),
        ..CommonTlsContext::default()
    };
    let text = why(of_cluster(from_secret));
    let place = format!("{UPSTREAM}.validation_context_sds_secret_config: not supported by gRPC");
    assert!(text.starts_with(&place), "{text}");
}

#[test]
fn server_tls_requires_a_certificate_provider() {
    let with = |common: CommonTlsContext| {
        of_server(&DownstreamTlsContext {
            common_tls_context: Some(common),
            ..DownstreamTlsContext::default()
        })
    };
    let identity = || CommonTlsContext {
        tls_certificate_provider_instance: plugin("p"),
        ..CommonTlsContext::default()
    };
    assert_eq!(instance(with(identity()).unwrap().identity.as_ref()), Some("p"));
    let place = "filter_chains[0].transport_socket";
    assert!(
        why(with(CommonTlsContext::default())).starts_with(&format!(
            "{place}.common_tls_context.tls_certificate_provider_instance: "
        ))
    );
    let validating = |validation| {
        with(CommonTlsContext {
            validation_context_type: validated(validation).validation_context_type,
            ..identity()
        })
    };
    // System roots verify servers, not clients (B47a).
    let system = CertificateValidationContext {
        system_root_certs: Some(SystemRootCerts {}),
        ..CertificateValidationContext::default()
    };
    assert_eq!(
        why(validating(system)),
        format!(
            "{place}.common_tls_context: system_root_certs is not supported for client certificates"
        )
    );
    let named = CertificateValidationContext {
        match_subject_alt_names: vec![StringMatcher {
            match_pattern: Some(
                xds_core::proto::envoy::r#type::matcher::v3::string_matcher::MatchPattern::Exact(
                    "a".into(),
                ),
            ),
            ..StringMatcher::default()
        }],
        ..trusting("p")
    };
    assert!(
        why(validating(named))
            .contains("matching the names of client certificates is not supported")
    );
    let required = of_server(&DownstreamTlsContext {
        common_tls_context: Some(identity()),
        require_client_certificate: boolean(true),
        ..DownstreamTlsContext::default()
    });
    assert!(why(required).starts_with(&format!("{place}.require_client_certificate: ")));
}
