//! `xds serve` and `xds watch` over TLS, and `xds watch` with a bootstrap.

use crate::support::{TempDir, Xds, clusters, run, run_with};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use serde_json::{Value as Json, json};

/// Writes the certificates of one authority: `ca.pem`, `server.pem` and `.key`,
/// `client.pem` and `.key`, and the revocation lists `none.crl` and `client.crl`.
fn certificates(directory: &TempDir) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    directory.save("ca.pem", &params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    for (name, host, serial) in [("server", "127.0.0.1", 1_u64), ("client", "client", 2)] {
        let key = KeyPair::generate().unwrap();
        let mut certificate = CertificateParams::new([host.to_owned()]).unwrap();
        certificate.serial_number = Some(serial.into());
        let certificate = certificate.signed_by(&key, &issuer).unwrap();
        directory.save(&format!("{name}.pem"), &certificate.pem());
        directory.save(&format!("{name}.key"), &key.serialize_pem());
    }
    for (name, serials) in [("none.crl", &[][..]), ("client.crl", &[2_u64])] {
        let revoked = |&serial: &u64| RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2034, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        directory.save(name, &list.signed_by(&issuer).unwrap().pem().unwrap());
    }
}

struct Stage {
    files: TempDir,
    served: TempDir,
    serve: Xds,
    address: String,
}

impl Stage {
    fn new() -> Self {
        Self::serving(&[])
    }

    fn serving(more: &[&str]) -> Self {
        Self::start(&[], more)
    }

    /// Starts a server with these files of revocation lists.
    fn with_lists(lists: &[&str]) -> Self {
        Self::start(lists, &[])
    }

    fn start(lists: &[&str], more: &[&str]) -> Self {
        let (files, served) = (TempDir::new(), TempDir::new());
        certificates(&files);
        served.save("cds.yaml", &clusters("one"));
        let path = |name: &str| files.join(name).to_str().unwrap().to_owned();
        let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
        let tls = ["--tls-cert", &cert, "--tls-key", &key, "--client-ca", &ca];
        let lists: Vec<_> = lists.iter().map(|list| path(list)).collect();
        let lists: Vec<_> = lists.iter().flat_map(|list| ["--crl", list]).collect();
        let flags = [&["--listen", "127.0.0.1:0"][..], &tls, &lists, more].concat();
        let (serve, address) = Xds::serve_with(served.path(), &flags);
        Self { files, served, serve, address }
    }

    /// Starts `xds watch` with the client's certificate.
    fn watch(&self, node: &str) -> Xds {
        let (ca, cert, key) =
            (self.path("ca.pem"), self.path("client.pem"), self.path("client.key"));
        let flags = ["--ca", &ca, "--cert", &cert, "--key", &key, "--node", node];
        let base = ["watch", "-o", "ndjson", "--server", &self.address, "cds"];
        Xds::spawn(&[&base[..], &flags].concat())
    }

    fn path(&self, name: &str) -> String {
        self.files.join(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn tls_flags_configure_trust_and_client_identity() {
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
        // Connections without a client certificate, or without TLS, are closed.
        (&["--ca", &ca], &stage.address),
        (&[], &stage.address),
    ] {
        let watch = Xds::spawn(&[&base[..], flags].concat());
        let error = watch.wait_event("error", |event| event["event"] == "error");
        assert!(error["error"].as_str().unwrap().contains(words), "{flags:?}: {error}");
    }
}

#[test]
fn get_uses_tls_and_reports_failed_verification_as_unreachable() {
    let stage = Stage::new();
    let (ca, cert, key) =
        (stage.path("ca.pem"), stage.path("client.pem"), stage.path("client.key"));
    let base = ["get", "--server", &stage.address, "cds", "-o", "names", "--cert", &cert];
    let fetched = run(&[&base[..], &["--key", &key, "--ca", &ca]].concat());
    assert_eq!((fetched.code, &*fetched.stdout), (Some(0), "cds:one"), "{}", fetched.stderr);
    let refused = run(&[&base[..], &["--key", &key, "--ca", &cert]].concat());
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("TLS: invalid peer certificate"), "{}", refused.stderr);
}

/// REST-JSON uses the certificates of the streams.
#[test]
fn rest_uses_the_tls_settings_of_streams() {
    let stage = Stage::serving(&["--rest", "127.0.0.1:0"]);
    let serving = stage.serve.wait_event("serving", |event| event["event"] == "serving");
    let address = serving["rest"].as_str().unwrap().to_owned();
    let (ca, cert, key) =
        (stage.path("ca.pem"), stage.path("client.pem"), stage.path("client.key"));
    let base = ["watch", "-o", "ndjson", "--poll", "50ms", "--server", &address, "cds"];
    let watch = Xds::spawn(&[&base[..], &["--ca", &ca, "--cert", &cert, "--key", &key]].concat());
    assert_eq!(watch.wait_count("changed", 1)[0]["name"], "one");
    for flags in [&["--ca", &ca][..], &[]] {
        let stranger = Xds::spawn(&[&base[..], flags].concat());
        stranger.wait_event("error", |event| event["event"] == "error");
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
fn bootstrap_configures_server_node_and_credentials() {
    println!("covers: B42");
    let stage = Stage::new();
    let file = stage.path("bootstrap.json");
    stage.files.save("bootstrap.json", &bootstrap(&stage, &tls(&stage)).to_string());
    let args = ["watch", "--bootstrap", &file, "cds"];
    let watch = Xds::spawn(&[&args[..], &["-o", "ndjson"]].concat());
    assert_eq!(watch.wait_count("changed", 1)[0]["name"], "one");
    stage.serve.wait_row("cds", |row| row["node"] == "from-the-file");
    watch.wait_stderr(
        "channel_creds[0].type: credentials of type `google_default` are not supported",
    );

    let watch = Xds::spawn(&[&args[..], &["--node", "me"]].concat());
    watch.wait_stdout(&format!("watching cds * on {} as me", stage.address));
    stage.serve.wait_row("cds", |row| row["node"] == "me");
}

#[test]
fn bootstrap_credential_errors_name_the_file_and_field() {
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
        (
            contradicting,
            1,
            "xds_servers[0]: the address has the scheme http, but the cred".to_owned(),
        ),
        (json!({}), 1, "bad.json: xds_servers: required, but missing".to_owned()),
        (
            bootstrap(&stage, &json!({ "type": "new" })),
            1,
            "bad.json: xds_servers[0].channel_creds: no supported type: found google_default, new"
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
            "authorities[\"a\"].xds_servers[0].server_uri: \"nonsense\" is not a server address"
                .into(),
        ),
    ] {
        stage.files.save("bad.json", &content.to_string());
        let ended = run(&["watch", "--bootstrap", &bad, "cds"]);
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    }
    let ended = run(&["watch", "cds", "--tls", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("TLS: the address has the scheme http, but"), "{}", ended.stderr);
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
        (
            &["--tls", "--server-name", "a b"],
            1,
            "--server-name: \"a b\" is neither a DNS name".into(),
        ),
        (&["--cert", &text], 2, "--key".into()),
        (&["--bootstrap", &bad], 2, "--bootstrap".into()),
    ] {
        let ended = run(&[&server[..], flags].concat());
        assert_eq!(ended.code, Some(code), "{flags:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&told), "{flags:?}: {}", ended.stderr);
    }
    assert_eq!(run(&["watch", "cds", "--bootstrap", &bad, "--tls"]).code, Some(2));
    let ended = run(&["watch", "cds", "--server", "https://user:hush@127.0.0.1:1"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hush") && ended.stderr.contains("127.0.0.1:1"));
    let variable = [("XDS_SERVER", "https://user:hush@127.0.0.1:1")];
    let ended = run_with(&["get", "cds"], &variable);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hush") && ended.stderr.contains("127.0.0.1:1"));
    let ended = run(&["watch", "cds", "--bootstrap", &nowhere]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&format!("{nowhere}: cannot read: ")), "{}", ended.stderr);
}

/// An error about a wrong file names its kind and the remedy.
#[test]
fn wrong_credential_file_error_states_its_kind() {
    let stage = Stage::new();
    let (ca, cert, key) =
        (stage.path("ca.pem"), stage.path("server.pem"), stage.path("server.key"));
    let (other, nowhere, directory) =
        (stage.path("client.key"), stage.path("nowhere"), stage.path("directory"));
    std::fs::create_dir(stage.files.join("directory")).unwrap();
    let content = std::fs::read_to_string(&cert).unwrap();
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (name, content) in
        [("empty", ""), ("der", "0\u{82}"), ("cut", &content[..100]), ("encrypted", encrypted)]
    {
        stage.files.save(name, content);
    }
    let (empty, der) = (stage.path("empty"), stage.path("der"));
    let (cut, encrypted) = (stage.path("cut"), stage.path("encrypted"));
    let list = "is not a list of certificates in PEM form";
    let private = "is not a private key in PEM form";
    // Flags of the certificate first, then flags of the key.
    for (certificate, private_key, [served, watched], told) in [
        (&nowhere, &key, ["--tls-cert", "--cert"], format!("cannot read {nowhere}: No such file")),
        (
            &directory,
            &key,
            ["--tls-cert", "--cert"],
            format!("cannot read {directory}: the path is a directory"),
        ),
        (
            &cert,
            &directory,
            ["--tls-key", "--key"],
            format!("cannot read {directory}: the path is a directory"),
        ),
        (
            &key,
            &cert,
            ["--tls-cert", "--cert"],
            format!("{key} {list}: the file contains a private key"),
        ),
        (
            &cert,
            &cert,
            ["--tls-key", "--key"],
            format!("{cert} {private}: the file contains a certificate"),
        ),
        (&empty, &key, ["--tls-cert", "--cert"], format!("{empty} {list}: the file is empty")),
        (
            &der,
            &key,
            ["--tls-cert", "--cert"],
            format!("{der} {list}: no line begins with `-----BEGIN`; if the file is in DER"),
        ),
        (
            &cut,
            &key,
            ["--tls-cert", "--cert"],
            format!("{cut} {list}: the file is truncated or invalid"),
        ),
        (
            &cert,
            &encrypted,
            ["--tls-key", "--key"],
            format!(
                "{encrypted} {private}: the file contains an encrypted private key; decrypt it with `openssl pkey`"
            ),
        ),
        (
            &cert,
            &other,
            ["--tls-cert", "--cert"],
            format!("{cert} and {other}: the private key does not match the certificate"),
        ),
        (
            &ca,
            &key,
            ["--tls-cert", "--cert"],
            format!("{ca} and {key}: the private key does not match the certificate"),
        ),
    ] {
        let path = stage.served.path().to_str().unwrap();
        let serve = [
            "serve",
            path,
            "--listen",
            "127.0.0.1:0",
            "--tls-cert",
            certificate,
            "--tls-key",
            private_key,
        ];
        let watch = [
            "watch",
            "cds",
            "--server",
            "127.0.0.1:1",
            "--ca",
            &ca,
            "--cert",
            certificate,
            "--key",
            private_key,
        ];
        for (args, flag) in [(&serve[..], served), (&watch, watched)] {
            let ended = run(args);
            assert_eq!(ended.code, Some(1), "{args:?}: {}", ended.stderr);
            let told = format!("xds: {flag}: {told}");
            assert!(ended.stderr.starts_with(&told), "{args:?}: {}\nnot {told}", ended.stderr);
        }
    }
    for (authority, told) in [
        (&other, format!("{other} {list}: the file contains a private key")),
        (&directory, format!("cannot read {directory}: the path is a directory")),
    ] {
        let path = stage.served.path().to_str().unwrap();
        let own = ["--tls-cert", &cert, "--tls-key", &key, "--client-ca", authority];
        let ended = run(&[&["serve", path, "--listen", "127.0.0.1:0"][..], &own].concat());
        assert!(ended.stderr.starts_with(&format!("xds: --client-ca: {told}")), "{}", ended.stderr);
        let ended = run(&["watch", "cds", "--server", "127.0.0.1:1", "--ca", authority]);
        assert!(ended.stderr.starts_with(&format!("xds: --ca: {told}")), "{}", ended.stderr);
    }
}

#[test]
fn server_credential_errors_are_reported_before_serving() {
    let stage = Stage::new();
    let (cert, key, text) =
        (stage.path("server.pem"), stage.path("server.key"), stage.path("text"));
    stage.files.save("text", "hello");
    let directory = stage.served.path().to_str().unwrap();
    let serve = ["serve", directory, "--listen", "127.0.0.1:0", "--for", "10s"];
    for (flags, code, told) in [
        (
            &["--tls-cert", &text, "--tls-key", &key][..],
            1,
            format!("--tls-cert: {text} is not a list"),
        ),
        (
            &["--tls-cert", &cert, "--tls-key", &text],
            1,
            format!("--tls-key: {text} is not a private"),
        ),
        (
            &["--tls-cert", &cert, "--tls-key", &key, "--client-ca", &text],
            1,
            format!("--client-ca: {text} is not a list"),
        ),
        (&["--tls-cert", &cert], 2, "--tls-key".into()),
        (&["--client-ca", &cert], 2, "--tls-cert".into()),
    ] {
        let ended = run(&[&serve[..], flags].concat());
        assert_eq!(ended.code, Some(code), "{flags:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(&told), "{flags:?}: {}", ended.stderr);
    }
}

#[test]
fn status_uses_the_tls_options_of_watch() {
    let stage = Stage::serving(&["--csds", "127.0.0.1:0"]);
    let serving = stage.serve.wait_event("serving", |event| event["event"] == "serving");
    let csds = serving["csds"].as_str().unwrap();
    let (ca, cert, key) =
        (stage.path("ca.pem"), stage.path("client.pem"), stage.path("client.key"));
    let ended = run(&["status", csds, "--ca", &ca, "--cert", &cert, "--key", &key]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "no clients"), "{}", ended.stderr);
    // A stranger is not let in, and no certificate is trusted unseen.
    for flags in [&["--ca", &*ca][..], &["--ca", &cert, "--cert", &cert, "--key", &key], &[]] {
        let ended = run(&[&["status", csds], flags].concat());
        assert_eq!(ended.code, Some(4), "{flags:?}: {}{}", ended.stdout, ended.stderr);
    }
}

/// Returns the text of the first error of `xds watch`.
fn first_error(watch: &Xds) -> String {
    let error = watch.wait_event("error", |event| event["event"] == "error");
    error["error"].as_str().unwrap().to_owned()
}

#[test]
fn allow_san_serves_only_clients_with_a_matching_name() {
    let stage = Stage::serving(&["--allow-san", "spiffe://mesh/*", "--allow-san", "cl*"]);
    stage.watch("any").wait_count("changed", 1);
    let stage = Stage::serving(&["--allow-san", "*.client", "--csds", "127.0.0.1:0"]);
    let expected = "the names of the client certificate are not allowed: [\"client\"]";
    let error = first_error(&stage.watch("any"));
    assert!(error.contains(expected), "{error}");
    // Client status is as confidential.
    let serving = &stage.serve.events_of("serving")[0];
    let csds = serving["csds"].as_str().unwrap();
    let (ca, cert, key) =
        (stage.path("ca.pem"), stage.path("client.pem"), stage.path("client.key"));
    let ended = run(&["status", csds, "--ca", &ca, "--cert", &cert, "--key", &key]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
}

#[test]
fn node_from_san_serves_only_the_node_of_the_certificate() {
    let stage = Stage::serving(&["--node-from-san"]);
    let error = first_error(&stage.watch("other"));
    let expected = "the node id is \"other\", but the client certificate is for \"client\"";
    assert!(error.contains(expected), "{error}");
    stage.watch("client").wait_count("changed", 1);
    let stage = Stage::serving(&["--node-from-san", "--allow-san", "other"]);
    let error = first_error(&stage.watch("client"));
    assert!(error.contains("not allowed"), "{error}");
}

#[test]
fn revoked_client_certificate_is_rejected_after_the_list_changed() {
    let stage = Stage::with_lists(&["none.crl"]);
    stage.watch("client").wait_count("changed", 1);
    let revoked = std::fs::read_to_string(stage.path("client.crl")).unwrap();
    stage.files.replace("none.crl", &revoked);
    let error = first_error(&stage.watch("client"));
    assert!(error.contains("because it has been revoked"), "{error}");
    stage.serve.wait_stderr("the client's certificate has been revoked");
}

#[test]
fn errors_of_revocation_lists_and_patterns_name_the_flag() {
    let files = TempDir::new();
    certificates(&files);
    let path = |name: &str| files.join(name).to_str().unwrap().to_owned();
    let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let base = ["serve", ".", "--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key];
    let base = [&base[..], &["--client-ca", &ca]].concat();
    for (flags, code, part) in [
        (["--crl", &*path("missing")], 1, "--crl: cannot read"),
        (["--crl", &*ca], 1, "--crl: "),
        (["--allow-san", "spiffe://mesh/**"], 2, "contains **"),
        (["--allow-san", ""], 2, "--allow-san"),
    ] {
        let ended = run(&[&base[..], &flags].concat());
        assert_eq!(ended.code, Some(code), "{flags:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{flags:?}: {}", ended.stderr);
    }
}
