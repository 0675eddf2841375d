//! Clients by the names in their certificates, and revocation lists.

use super::{Stage, certificates};
use crate::support::{TempDir, Xds, run};

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
