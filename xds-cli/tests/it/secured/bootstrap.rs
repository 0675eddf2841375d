//! Servers and credentials of a bootstrap.

use serde_json::{Value as Json, json};

use super::Stage;
use crate::support::{TempDir, Xds, run, run_with};

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
        (json!({}), 1, "bad.json:1:1: xds_servers: required, but missing".to_owned()),
        (
            bootstrap(&stage, &json!({ "type": "new" })),
            1,
            ": xds_servers[0].channel_creds: no supported type: found google_default, new"
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

#[test]
fn error_of_a_bootstrap_has_its_position_and_the_command_that_lists_all() {
    let files = TempDir::new();
    let file = files.join("b.json");
    let shown = file.to_str().unwrap();
    for (text, why) in [
        ("{\n", "2:1: invalid JSON: expected a key in double quotes"),
        ("", "1:1: invalid JSON: expected a value, found the end of the text"),
        ("{\n \"xds_servers\": 5 }", "2:17: xds_servers: expected a list, found a number"),
        ("{ \"node\": {} }", "1:1: xds_servers: required, but missing"),
    ] {
        files.save("b.json", text);
        for command in ["get", "watch"] {
            let ended = run(&[command, "--bootstrap", shown, "cds"]);
            assert_eq!(ended.code, Some(1), "{text}: {}", ended.stderr);
            let all = format!("`xds check --bootstrap {shown}` reports all errors");
            assert_eq!(ended.stderr, format!("xds: {shown}:{why}; {all}"), "{text}");
        }
    }
}
