//! `xds watch` of servers that are not simply there: over TLS, and as a bootstrap says.

mod support;

use std::{net::SocketAddr, sync::Arc, thread};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use serde_json::{Value as Json, json};
use support::{TempDir, Xds, clusters, run};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

/// Certificates of one authority, in files: `ca.pem`, `server.pem` and `.key`, `client.pem` and `.key`.
fn certificates(directory: &TempDir) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    directory.save("ca.pem", &params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    for (name, host) in [("server", "127.0.0.1"), ("client", "client")] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &issuer).unwrap();
        directory.save(&format!("{name}.pem"), &certificate.pem());
        directory.save(&format!("{name}.key"), &key.serialize_pem());
    }
}

/// Takes TLS off connections to a server, of clients that show a certificate.
fn terminator(directory: &TempDir, server: &str) -> SocketAddr {
    let certificate = |name: &str| CertificateDer::from_pem_file(directory.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.pem")).unwrap();
    let provider = Arc::new(ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let key = PrivateKeyDer::from_pem_file(directory.join("server.key")).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(vec![certificate("server.pem")], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = server.to_owned();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Runs until the test's process ends.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            listener.set_nonblocking(true).unwrap();
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, server) = (acceptor.clone(), server.clone());
                tokio::spawn(async move {
                    let Ok(mut outside) = acceptor.accept(socket).await else { return };
                    let Ok(mut inside) = TcpStream::connect(server).await else { return };
                    let _ = copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        });
    });
    address
}

struct Stage {
    files: TempDir,
    served: TempDir,
    serve: Xds,
    address: String,
}

impl Stage {
    fn new() -> Self {
        let (files, served) = (TempDir::new(), TempDir::new());
        certificates(&files);
        served.save("cds.yaml", &clusters("one"));
        let (serve, plain) = Xds::serve(served.path());
        let address = terminator(&files, &plain).to_string();
        Self { files, served, serve, address }
    }

    fn path(&self, name: &str) -> String {
        self.files.join(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn flags_say_whom_to_believe_and_what_to_show() {
    let stage = Stage::new();
    let (ca, cert, key) =
        (stage.path("ca.pem"), stage.path("client.pem"), stage.path("client.key"));
    let base = ["watch", "-o", "ndjson", "--server", &stage.address, "cds"];
    let all = ["--ca", &ca, "--cert", &cert, "--key", &key];
    let watch = Xds::spawn(&[&base[..], &all].concat());
    assert_eq!(watch.wait_count("changed", 1)[0]["name"], "one");
    stage.served.replace("cds.yaml", &clusters("one two"));
    watch.wait_count("changed", 2);

    for (flags, words) in [
        (&["--ca", &cert, "--cert", &cert, "--key", &key][..], "TLS: invalid peer certificate"),
        (&[&all[..], &["--server-name", "xds.example"]].concat(), "not valid for"),
        // Whoever shows no certificate is hung up on, and so is whoever speaks no TLS.
        (&["--ca", &ca], &stage.address),
        (&[], &stage.address),
    ] {
        let watch = Xds::spawn(&[&base[..], flags].concat());
        let error = watch.wait_event("error", |event| event["event"] == "error");
        assert!(error["error"].as_str().unwrap().contains(words), "{flags:?}: {error}");
    }
}

fn bootstrap(stage: &Stage, credentials: &Json) -> Json {
    json!({
        "xds_servers": [{
            "server_uri": stage.address,
            "channel_creds": [{ "type": "google_default" }, credentials],
            "server_features": ["xds_v3"],
        }],
        "node": { "id": "from-the-file", "cluster": "c" },
    })
}

fn tls(stage: &Stage) -> Json {
    json!({ "type": "tls", "config": {
        "ca_certificate_file": stage.path("ca.pem"),
        "certificate_file": stage.path("client.pem"),
        "private_key_file": stage.path("client.key"),
    } })
}

#[test]
fn a_bootstrap_says_where_and_who_and_how() {
    println!("covers: B42");
    let stage = Stage::new();
    let file = stage.path("bootstrap.json");
    stage.files.save("bootstrap.json", &bootstrap(&stage, &tls(&stage)).to_string());
    let args = ["watch", "--bootstrap", &file, "cds"];
    let watch = Xds::spawn(&[&args[..], &["-o", "ndjson"]].concat());
    assert_eq!(watch.wait_count("changed", 1)[0]["name"], "one");
    stage.serve.wait_row("cds", |row| row["node"] == "from-the-file");
    watch.wait_stderr("channel_creds[0].type: credentials of type `google_default` are known");

    let watch = Xds::spawn(&[&args[..], &["--node", "me"]].concat());
    watch.wait_stdout(&format!("watching cds * on {} as me", stage.address));
    stage.serve.wait_row("cds", |row| row["node"] == "me");
}

#[test]
fn mistakes_name_the_file_and_the_field() {
    let stage = Stage::new();
    let bad = stage.path("bad.json");
    let (nowhere, text) = (stage.path("nowhere"), stage.path("text"));
    stage.files.save("text", "hello");
    let with = |key: &str, path: &str| {
        let mut credentials = tls(&stage);
        credentials["config"][key] = path.into();
        bootstrap(&stage, &credentials)
    };
    let mut elsewhere = bootstrap(&stage, &json!({ "type": "insecure" }));
    elsewhere["authorities"] = json!({ "a": { "xds_servers": [{
        "server_uri": "nonsense", "channel_creds": [{ "type": "insecure" }],
    }] } });
    let token = json!([{ "type": "jwt_token_file", "config": { "jwt_token_file": text } }]);
    let mut with_token = bootstrap(&stage, &tls(&stage));
    with_token["xds_servers"][0]["call_creds"] = token;
    let mut contradicting = bootstrap(&stage, &tls(&stage));
    contradicting["xds_servers"][0]["server_uri"] = format!("http://{}", stage.address).into();
    for (content, code, told) in [
        (contradicting, 1, "xds_servers[0]: the address says http, but the cred".to_owned()),
        (json!({}), 1, "bad.json: xds_servers: required, but missing".to_owned()),
        (
            bootstrap(&stage, &json!({ "type": "new" })),
            1,
            "bad.json: xds_servers[0].channel_creds: no supported type; offered: google_default, new"
                .to_owned(),
        ),
        (
            with("ca_certificate_file", &nowhere),
            1,
            format!("bad.json: xds_servers[0]: ca_certificate_file: cannot read {nowhere}: "),
        ),
        (
            with("certificate_file", &text),
            1,
            format!("xds_servers[0]: certificate_file: {text} is not a list of certificates"),
        ),
        (
            with("private_key_file", &text),
            1,
            format!("xds_servers[0]: private_key_file: {text} is not a private key"),
        ),
        (with_token, 1, format!("xds_servers[0]: jwt_token_file: {text} is not a JWT")),
        (
            elsewhere,
            3,
            "authorities[\"a\"].xds_servers[0].server_uri: \"nonsense\" is not the address".into(),
        ),
    ] {
        stage.files.save("bad.json", &content.to_string());
        let ended = run(&["watch", "--bootstrap", &bad, "cds"]);
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    }
    let ended = run(&["watch", "cds", "--tls", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("TLS: the address says http, but"), "{}", ended.stderr);
    let server = ["watch", "cds", "--server", "127.0.0.1:1"];
    let ca = stage.path("ca.pem");
    for (flags, code, told) in [
        (&["--ca", &nowhere][..], 1, format!("--ca: cannot read {nowhere}: ")),
        (
            &["--ca", &ca, "--cert", &text, "--key", &nowhere],
            1,
            format!("--key: cannot read {nowhere}"),
        ),
        (
            &["--ca", &ca, "--cert", &text, "--key", &text],
            1,
            "is not a list of certificates".into(),
        ),
        (&["--ca", &ca, "--token-file", &text], 1, format!("--token-file: {text} is not a JWT")),
        (&["--tls", "--server-name", "a b"], 1, "--server-name: \"a b\" is not a name".into()),
        (&["--cert", &text], 2, "--key".into()),
        (&["--bootstrap", &bad], 2, "--bootstrap".into()),
    ] {
        let ended = run(&[&server[..], flags].concat());
        assert_eq!(ended.code, Some(code), "{flags:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&told), "{flags:?}: {}", ended.stderr);
    }
    for args in [&["watch", "cds", "--bootstrap", &bad, "--tls"][..], &["watch", "cds"]] {
        assert_eq!(run(args).code, Some(2), "{args:?}");
    }
    let ended = run(&["watch", "cds", "--server", "https://user:hush@127.0.0.1:1"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hush") && ended.stderr.contains("127.0.0.1:1"));
    let ended = run(&["watch", "cds", "--bootstrap", &nowhere]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&format!("{nowhere}: cannot read: ")), "{}", ended.stderr);
}
