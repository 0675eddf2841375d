//! TLS options of `xds serve`, `watch`, `get` and `status`.

use super::Stage;
use crate::{
    metrics::metric,
    support::{TempDir, Xds, clusters, run},
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
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    assert!(ended.stderr.contains("CertificateRequired"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("gRPC"), "{}", ended.stderr);
    let ended = run(&base);
    assert!(ended.stderr.contains("--tls or --ca FILE"), "{}", ended.stderr);
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

/// Commands that connect to a server, with its address in place of `@`.
const CONNECTING: [&[&str]; 6] = [
    &["get", "--server", "@", "cds", "--timeout", "2s"],
    &["get", "--server", "@", "cds", "--timeout", "2s", "--poll", "1s"],
    &["watch", "--server", "@", "cds", "--for", "2s"],
    &["status", "@", "--timeout", "2s"],
    &["load", "@", "--clients", "1", "--for", "2s"],
    &["route", "explain", "--server", "@", "--host", "a.example", "--timeout", "2s"],
];

#[track_caller]
fn expect_advice(address: &str, more: &[&str], advice: &str) {
    let commands =
        CONNECTING.into_iter().filter(|it| !(address.contains("://") && it.contains(&"--poll")));
    for command in commands {
        let args: Vec<_> = command
            .iter()
            .map(|&it| if it == "@" { address } else { it })
            .chain(more.iter().copied())
            .collect();
        let ended = run(&args);
        let output = format!("{}\n{}", ended.stdout, ended.stderr);
        assert!(output.contains(advice), "{args:?}: {output}");
    }
}

#[test]
fn connection_without_tls_to_a_tls_port_names_the_options() {
    let stage = Stage::new();
    let advice = "it answered in TLS; connect with TLS: --tls or --ca FILE";
    expect_advice(&stage.address, &[], advice);
    expect_advice(&format!("http://{}", stage.address), &[], advice);
}

#[test]
fn connection_over_tls_to_a_port_without_names_the_options() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("one"));
    let (_serve, address) = Xds::serve(directory.path());
    let advice =
        "the server does not speak TLS on this port: connect without TLS: leave out https://";
    expect_advice(&address, &["--tls"], advice);
    expect_advice(&format!("https://{address}"), &[], advice);
}

#[cfg(feature = "etcd")]
#[test]
fn connection_without_tls_to_an_etcd_with_tls_names_the_option() {
    let stage = Stage::new();
    let address = format!("etcd://{}/xds", stage.address);
    for command in [&["pull"][..], &["rollout", "status"]] {
        let ended = run(&[command, &[&address]].concat());
        assert_eq!(ended.code, Some(4), "{command:?}: {}", ended.stderr);
        let advice = "it answered in TLS; connect with TLS: --etcd-ca FILE";
        assert!(ended.stderr.contains(advice), "{command:?}: {}", ended.stderr);
    }
}
