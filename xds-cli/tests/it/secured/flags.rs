//! TLS options of `xds serve`, `watch`, `get` and `status`.

use super::Stage;
use crate::{
    metrics::metric,
    support::{Xds, clusters, run},
};

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

#[test]
fn poll_without_client_certificate_reports_the_alert_of_the_server() {
    let stage = Stage::serving(&["--rest", "127.0.0.1:0"]);
    let serving = stage.serve.wait_event("serving", |event| event["event"] == "serving");
    let address = serving["rest"].as_str().unwrap();
    let ca = stage.path("ca.pem");
    let base = ["get", "--poll", "1s", "--timeout", "1s", "--server", address, "cds"];
    let ended = run(&[&base[..], &["--ca", &ca]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("CertificateRequired"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("gRPC"), "{}", ended.stderr);
    let ended = run(&base);
    assert!(ended.stderr.contains("is it a gRPC or TLS port?"), "{}", ended.stderr);
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

#[test]
fn metrics_have_the_times_at_which_files_expire() {
    let (directory, name) = (
        Stage::start(&["none.crl", "client.crl"], &["--metrics", "127.0.0.1:0"]),
        "xds_server_credentials_expiry_timestamp_seconds",
    );
    let serving = directory.serve.wait_event("serving", |event| event["event"] == "serving");
    let address = serving["metrics"].as_str().unwrap();
    // 4096-01-01, which the authority's library uses by default, and 2034-01-01.
    for (file, at) in [
        ("certificate", 67_090_118_400.0),
        ("client_ca", 67_090_118_400.0),
        ("crl", 2_019_686_400.0),
    ] {
        assert_eq!(metric(address, &format!("{name}{{file=\"{file}\"}}")), Some(at), "{file}");
    }
}
