//! Clusters with TLS (gRFC A29), with endpoints behind a TLS terminator on loopback.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::{Mutex, OwnedMutexGuard},
};
use tokio_rustls::TlsAcceptor;
use tonic::Code;
use xds_bootstrap::TlsFiles;
use xds_channel::ChannelOptions;
use xds_core::proto::{StringMatcher, envoy::r#type::matcher::v3::string_matcher::MatchPattern};
use xds_routing::proto::envoy::{
    config::{
        cluster::v3::Cluster,
        core::v3::{TransportSocket, transport_socket},
        route::v3::Route,
    },
    extensions::transport_sockets::tls::v3::{
        CertificateProviderPluginInstance, CertificateValidationContext, CommonTlsContext,
        UpstreamTlsContext, common_tls_context::ValidationContextType,
    },
};

use crate::{
    failures::aggregate,
    support::*,
    world::{Backend, Change, World, check, eds, nobody, soon},
};

/// Temporary files of one test, removed when dropped.
pub(crate) struct Files {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    authority: String,
    door: Arc<Door>,
}

/// State of the TLS terminator.
#[derive(Default)]
struct Door {
    /// Locked to delay handshakes.
    hand: Arc<Mutex<()>>,
    /// Number of accepted connections, and of completed handshakes.
    come: AtomicUsize,
    shaken: AtomicUsize,
}

impl Files {
    /// Creates the files of a new certificate authority.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("xds-channel-{}-{number}", process::id()));
        fs::create_dir(&directory).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap().pem();
        fs::write(directory.join("ca"), &authority).unwrap();
        Self { directory, issuer: Issuer::new(params, key), authority, door: Arc::default() }
    }

    /// Delays handshakes until the guard is dropped.
    fn hold(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.door.hand).try_lock_owned().expect("nobody else does")
    }

    /// Returns the number of connections that wait for their handshake.
    fn waiting(&self) -> usize {
        self.door.come.load(Ordering::Relaxed) - self.handshakes()
    }

    /// Returns the number of completed handshakes.
    fn handshakes(&self) -> usize {
        self.door.shaken.load(Ordering::Relaxed)
    }

    /// Issues a certificate and its key.
    fn issue(&self, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer);
        (certificate.unwrap().pem(), key.serialize_pem())
    }

    /// Returns the root certificate file.
    pub(crate) fn roots(&self) -> TlsFiles {
        TlsFiles::default().with_ca_certificate(self.directory.join("ca"))
    }

    /// Creates the client's certificate and key files.
    pub(crate) fn own(&self) -> TlsFiles {
        self.write_identity(["certificate", "key"], &["client.example"])
    }

    /// Creates certificate and key files with this prefix.
    pub(crate) fn identity(&self, prefix: &str, names: &[&str]) -> TlsFiles {
        let files = ["certificate", "key"].map(|kind| format!("{prefix}-{kind}"));
        self.write_identity(files.each_ref().map(String::as_str), names)
    }

    fn write_identity(&self, files: [&str; 2], names: &[&str]) -> TlsFiles {
        let (certificate, key) = self.issue(names);
        let [at, key_at] = files.map(|name| self.directory.join(name));
        fs::write(&at, certificate).unwrap();
        fs::write(&key_at, key).unwrap();
        TlsFiles::default().with_identity(at, key_at)
    }

    /// Starts a TLS terminator in front of a backend. It requires client certificates of the
    /// authority.
    async fn terminate(&self, names: &[&str], backend: SocketAddr) -> SocketAddr {
        let (certificate, key) = self.issue(names);
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap()).unwrap();
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let door = Arc::clone(&self.door);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, door) = (acceptor.clone(), Arc::clone(&door));
                tokio::spawn(async move {
                    door.come.fetch_add(1, Ordering::Relaxed);
                    drop(door.hand.lock().await);
                    let mut near = acceptor.accept(socket).await?;
                    door.shaken.fetch_add(1, Ordering::Relaxed);
                    let mut far = TcpStream::connect(backend).await?;
                    copy_bidirectional(&mut near, &mut far).await
                });
            }
        });
        address
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns a cluster with TLS whose client has no certificate.
pub(crate) fn without_identity(roots: &str) -> Cluster {
    with_identity(None, roots, &[])
}

/// Returns a cluster with TLS whose endpoints must have one of these names.
pub(crate) fn secured(roots: &str, names: &[MatchPattern]) -> Cluster {
    with_identity(Some("own"), roots, names)
}

fn with_identity(identity: Option<&str>, roots: &str, names: &[MatchPattern]) -> Cluster {
    let instance = |name: &str| {
        let certificate_name = String::new();
        Some(CertificateProviderPluginInstance { instance_name: name.into(), certificate_name })
    };
    let names = names.iter().map(|pattern| StringMatcher {
        match_pattern: Some(pattern.clone()),
        ..StringMatcher::default()
    });
    #[allow(deprecated, reason = "gRPC reads the names from this field")]
    let validation = CertificateValidationContext {
        ca_certificate_provider_instance: instance(roots),
        match_subject_alt_names: names.collect(),
        ..CertificateValidationContext::default()
    };
    let context = UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_certificate_provider_instance: identity.and_then(instance),
            validation_context_type: Some(ValidationContextType::ValidationContext(validation)),
            ..CommonTlsContext::default()
        }),
        ..UpstreamTlsContext::default()
    };
    let socket = TransportSocket {
        name: "tls".into(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(packed(&context))),
    };
    Cluster { transport_socket: Some(socket), ..eds("c") }
}

fn exactly(name: &str) -> MatchPattern {
    MatchPattern::Exact(name.into())
}

pub(crate) fn to(name: &str) -> Vec<Route> {
    vec![route(prefix(""), cluster(name))]
}

/// Mutual TLS is used; when the cluster's TLS settings change, new connections are made.
#[tokio::test]
async fn cluster_tls_settings_apply_to_its_connections() {
    let (world, files, backend) = (World::new().await, Files::new(), Backend::new().await);
    let address = files.terminate(&["backend.example"], backend.address).await;
    let options = ChannelOptions::new("node-1")
        .with_certificate_provider("roots", files.roots())
        .with_certificate_provider("own", files.own());
    let mut client = world.health_with(options);
    // No name is required, and the channel's name is not in the certificate.
    let change = Change::new().routes(to("c")).cluster_as(secured("roots", &[]));
    world.apply(change.endpoints("c", &[address]).0).await;
    check(&mut client, &[]).await.expect("an answer");
    assert_eq!(backend.counted.scheme.lock().unwrap().as_deref(), Some("https"));

    let mut count = 1;
    for (names, fits) in [
        (vec![exactly("backend.example")], true),
        (vec![exactly("other.example")], false),
        (vec![exactly("other.example"), MatchPattern::Prefix("backend.".into())], true),
        (vec![MatchPattern::Suffix(".elsewhere".into())], false),
    ] {
        world.apply(Change::new().cluster_as(secured("roots", &names)).0).await;
        if fits {
            soon(async { while check(&mut client, &[]).await.is_err() {} }).await;
            count += 1;
            continue;
        }
        let mut message = String::new();
        // Until the change is applied, calls may use the previous connection.
        soon(async {
            while message.is_empty() {
                match check(&mut client, &[]).await {
                    Ok(()) => count += 1,
                    Err(refused) => {
                        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
                        message = refused.message().to_owned();
                    }
                }
            }
        })
        .await;
        assert!(message.contains("NotValidForName"), "{names:?}: {message}");
    }
    assert_eq!(backend.calls(), count, "what is refused sees no call");

    // Finally without TLS, to an endpoint without TLS.
    world.apply(Change::new().at("c", &[backend.address]).0).await;
    let scheme = || backend.counted.scheme.lock().unwrap().clone();
    soon(async {
        while scheme().as_deref() != Some("http") {
            let _ = check(&mut client, &[]).await;
        }
    })
    .await;
    println!("covers: B24");
}

/// Calls fail if a cluster's TLS settings cannot be met: nothing falls back to weaker settings.
#[tokio::test]
async fn unmet_tls_settings_fail_calls_without_fallback() {
    let (world, files, backend) = (World::new().await, Files::new(), Backend::new().await);
    let address = files.terminate(&["*.example"], backend.address).await;
    let change = Change::new().routes(to("c")).cluster_as(secured("roots", &[]));
    world.apply(change.endpoints("c", &[address]).0).await;
    let nobody = Files::new();
    let options = || ChannelOptions::new("node-1");
    for (options, why) in [
        (options(), "certificate provider `roots` is not in the bootstrap"),
        (
            options().with_certificate_provider("roots", files.own()),
            "the certificate provider `roots` has no root certificates",
        ),
        (
            options()
                .with_certificate_provider("roots", files.roots())
                .with_certificate_provider("own", files.roots()),
            "the certificate provider `own` has no certificate",
        ),
        (
            options()
                .with_certificate_provider("roots", nobody.roots())
                .with_certificate_provider("own", files.own()),
            "TLS: invalid peer certificate",
        ),
        (
            options()
                .with_certificate_provider("roots", TlsFiles::default().with_ca_certificate("/no"))
                .with_certificate_provider("own", files.own()),
            "/no: ",
        ),
    ] {
        let refused = check(&mut world.health_with(options), &[]).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(refused.message().contains(why), "{why}: {refused}");
        let note = "(resolution note: xDS node ID: node-1)";
        assert!(refused.message().ends_with(note), "{refused}");
    }
    assert_eq!(backend.calls(), 0);
    println!("covers: B24 S3.090 S3.091 S3.095");
}

/// The last valid certificates are used for connections while the files are invalid. Files that
/// become valid again replace them.
#[tokio::test]
async fn last_valid_certificates_are_used_while_files_are_invalid() {
    let (world, files, backend) = (World::new().await, Files::new(), Backend::new().await);
    let address = files.terminate(&["one.example", "two.example"], backend.address).await;
    let often = Duration::from_millis(20);
    let options = ChannelOptions::new("node-1")
        .with_certificate_provider("roots", files.roots().with_refresh_interval(often))
        .with_certificate_provider("own", files.own().with_refresh_interval(often));
    let mut client = world.health_with(options);
    let change = Change::new().routes(to("c")).cluster_as(secured("roots", &[]));
    world.apply(change.endpoints("c", &[address]).0).await;
    check(&mut client, &[]).await.expect("an answer");

    // One file is missing, one is invalid, and the key does not match the certificate.
    let write = |name: &str, content: &str| fs::write(files.directory.join(name), content).unwrap();
    let (_, other_key) = files.issue(&["client.example"]);
    fs::remove_file(files.directory.join("ca")).unwrap();
    for (certificate, key) in [("garbage", None), ("", Some(other_key.as_str()))] {
        write("certificate", certificate);
        if let Some(key) = key {
            write("key", key);
        }
    }
    // New connections use the previous contents.
    let before = files.handshakes();
    world.apply(Change::new().cluster_as(secured("roots", &[exactly("one.example")])).0).await;
    soon(async {
        while files.handshakes() == before {
            check(&mut client, &[]).await.expect("an answer");
        }
    })
    .await;
    check(&mut client, &[]).await.expect("an answer");

    // Another authority issues the endpoints' and the client's certificates.
    let others = Files::new();
    let address = others.terminate(&["two.example"], backend.address).await;
    let (certificate, key) = others.issue(&["client.example"]);
    write("ca", &others.authority);
    write("certificate", &certificate);
    write("key", &key);
    let names = [exactly("two.example")];
    let change = Change::new().cluster_as(secured("roots", &names)).endpoints("c", &[address]);
    world.apply(change.0).await;
    soon(async {
        while others.handshakes() == 0 {
            let _ = check(&mut client, &[]).await;
        }
    })
    .await;
    println!("covers: B24");
}

/// Calls use the old connections after a change of the TLS settings, until the new ones are ready.
#[tokio::test]
async fn old_connections_serve_until_new_tls_connections_are_ready() {
    let (world, files, backend) = (World::new().await, Files::new(), Backend::new().await);
    let address = files.terminate(&["backend.example"], backend.address).await;
    let options = ChannelOptions::new("node-1")
        .with_certificate_provider("roots", files.roots())
        .with_certificate_provider("own", files.own());
    let mut client = world.health_with(options);
    let change = Change::new().routes(to("c")).cluster_as(secured("roots", &[]));
    world.apply(change.endpoints("c", &[address]).0).await;
    check(&mut client, &[]).await.expect("an answer");

    // Handshakes are delayed.
    let held = files.hold();
    let names = [exactly("backend.example")];
    world.apply(Change::new().cluster_as(secured("roots", &names)).0).await;
    soon(async {
        while files.waiting() == 0 {
            check(&mut client, &[]).await.expect("an answer");
        }
    })
    .await;
    for _ in 0..10 {
        soon(check(&mut client, &[])).await.expect("an answer by the old connection");
    }
    assert_eq!(files.handshakes(), 1);
    drop(held);
    soon(async {
        while files.handshakes() == 1 {
            check(&mut client, &[]).await.expect("an answer");
        }
    })
    .await;
    for _ in 0..10 {
        check(&mut client, &[]).await.expect("an answer");
    }
    println!("covers: B24");
}

/// gRFC A75: each member of an aggregate cluster has its own TLS settings. A member with invalid
/// ones counts as failed.
#[tokio::test]
async fn aggregate_members_use_their_own_tls_settings() {
    let (world, files) = (World::new().await, Files::new());
    let [behind, plain] = [Backend::new().await, Backend::new().await];
    let address = files.terminate(&["backend.example"], behind.address).await;
    let options = ChannelOptions::new("node-1")
        .with_certificate_provider("roots", files.roots())
        .with_certificate_provider("own", files.own());
    let mut client = world.health_with(options);
    let lost = Cluster { name: "lost".into(), ..secured("unknown", &[]) };
    let odd =
        Cluster { name: "odd".into(), load_balancing_policy: unsupported_policy(), ..eds("odd") };
    let change = Change::new()
        .routes(to("all"))
        .cluster_as(aggregate("all", &["lost", "odd", "c", "plain"]))
        .cluster_as(lost)
        .endpoints("lost", &[plain.address])
        .cluster_as(odd)
        .endpoints("odd", &[plain.address])
        .cluster_as(secured("roots", &[]))
        .endpoints("c", &[address])
        .at("plain", &[plain.address]);
    world.apply(change.0).await;
    check(&mut client, &[]).await.expect("an answer of the first that can give one");
    assert_eq!((behind.calls(), plain.calls()), (1, 0));
    let scheme = |of: &Backend| of.counted.scheme.lock().unwrap().clone();
    assert_eq!(scheme(&behind).as_deref(), Some("https"));

    // The next member, without TLS, takes over.
    world.apply(Change::new().endpoints("c", &[nobody().await]).0).await;
    soon(async {
        while plain.calls() == 0 {
            check(&mut client, &[]).await.expect("an answer");
        }
    })
    .await;
    assert_eq!(scheme(&plain).as_deref(), Some("http"));

    // If all members fail, the last one's reason is reported.
    let seen = behind.calls();
    world.apply(Change::new().cluster_as(aggregate("all", &["odd", "lost"])).0).await;
    let mut refused = check(&mut client, &[]).await;
    while refused.is_ok() {
        refused = check(&mut client, &[]).await;
    }
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let why =
        "cluster `lost` requires TLS, but certificate provider `unknown` is not in the bootstrap";
    assert!(refused.message().contains(why), "{refused}");
    assert_eq!(behind.calls(), seen, "it was the other one's turn");
    println!("covers: B24 B30b");
}
