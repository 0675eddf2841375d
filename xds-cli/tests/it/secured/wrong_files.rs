//! Errors of files with certificates and keys.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::Stage;
use crate::support::{TempDir, Xds, clusters, eventually, run};

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

/// A server with a certificate that clients refuse because of its dates tells why they do, also
/// after the file has been replaced.
#[test]
fn certificate_outside_its_validity_is_logged_as_a_warning() {
    let (files, served) = (TempDir::new(), TempDir::new());
    served.save("cds.yaml", &clusters("one"));
    let write = |from: i32, to: i32| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        files.replace("server.key", &key.serialize_pem());
        files.replace("server.pem", &params.self_signed(&key).unwrap().pem());
    };
    write(2000, 2001);
    let [cert, key] = ["server.pem", "server.key"].map(|it| files.join(it).display().to_string());
    let flags = ["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key];
    let (serve, address) = Xds::serve_with(served.path(), &flags);
    serve.wait_stderr("the certificate has expired");
    assert!(serve.stderr().contains(&cert), "{}", serve.stderr());
    assert!(!serve.stderr().contains("not valid yet"), "{}", serve.stderr());
    write(4000, 4001);
    // A connection reads the files.
    let ended = run(&["get", "cds", "--server", &address, "--ca", &cert, "--timeout", "2s"]);
    assert_ne!(ended.code, Some(0), "{}", ended.stdout);
    serve.wait_stderr("the certificate is not valid yet");
    write(2000, 4000);
    let ended = run(&["get", "cds", "--server", &address, "--ca", &cert, "--timeout", "2s"]);
    let warned = serve.stderr().matches("so peers may refuse it").count();
    assert_eq!(warned, 2, "{}{}", ended.stderr, serve.stderr());
}

/// A revocation list that was not renewed in time may lack certificates that were revoked since.
#[test]
fn expired_revocation_list_is_used_with_a_warning() {
    let stage = Stage::with_lists(&["old.crl"]);
    let watch = stage.watch("n1");
    watch.wait_count("changed", 1);
    let list = stage.path("old.crl");
    let text = format!(
        "the certificate revocation list (CRL) has expired, so it may lack certificates that \
         were revoked since: renew it file={list}"
    );
    let warned = || stage.serve.stderr().matches(&text).count();
    assert_eq!(warned(), 1, "{}", stage.serve.stderr());
    // An unchanged file is not reported again, and a new one is.
    stage.watch("n2").wait_count("changed", 1);
    assert_eq!(warned(), 1, "{}", stage.serve.stderr());
    let valid = std::fs::read_to_string(stage.path("none.crl")).unwrap();
    stage.files.replace("old.crl", &valid);
    stage.watch("n3").wait_count("changed", 1);
    assert_eq!(warned(), 1, "{}", stage.serve.stderr());
}

#[test]
fn certificate_that_expires_while_the_server_runs_is_a_warning() {
    let (files, served) = (TempDir::new(), TempDir::new());
    served.save("cds.yaml", &clusters("one"));
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    params.not_after = date_time_ymd(1970, 1, 1) + now + Duration::from_secs(10);
    files.save("server.pem", &params.self_signed(&key).unwrap().pem());
    files.save("server.key", &key.serialize_pem());
    let path = |name: &str| files.join(name).to_str().unwrap().to_owned();
    let (cert, key) = (path("server.pem"), path("server.key"));
    let flags = ["--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key];
    let (serve, address) = Xds::serve_with(served.path(), &flags);
    assert!(!serve.stderr().contains("expired"), "{}", serve.stderr());
    let text = format!("the certificate has expired, so peers may refuse it: renew it file={cert}");
    eventually("a warning", || {
        // Files are read for each connection.
        run(&["get", "cds", "--server", &address, "--ca", &cert, "--timeout", "1s"]);
        if serve.stderr().contains(&text) { Ok(()) } else { Err(serve.stderr()) }
    });
    run(&["get", "cds", "--server", &address, "--ca", &cert, "--timeout", "1s"]);
    assert_eq!(serve.stderr().matches(&text).count(), 1, "{}", serve.stderr());
}

/// Peers decide how often the files are read, so an error is not repeated.
#[test]
fn broken_credential_file_is_logged_once() {
    let stage = Stage::new();
    let valid = std::fs::read_to_string(stage.path("server.pem")).unwrap();
    let reported = || stage.serve.stderr().matches("cannot reload credentials").count();
    for count in 1..=2 {
        stage.files.replace("server.pem", "broken");
        for node in ["n1", "n2", "n3"] {
            stage.watch(node).wait_count("changed", 1);
        }
        assert_eq!(reported(), count, "{}", stage.serve.stderr());
        stage.files.replace("server.pem", &valid);
        stage.watch("n4").wait_count("changed", 1);
    }
}
