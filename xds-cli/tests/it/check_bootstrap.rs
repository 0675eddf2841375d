//! `xds check --bootstrap`: a bootstrap and the files that it names.

use std::fs;

use crate::support::{Ended, TempDir, run};

const CLUSTER_TYPE: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

fn check(directory: &TempDir, file: &str, content: &str) -> Ended {
    let content = content.replace("DIR", directory.path().to_str().unwrap());
    directory.save(file, &content);
    let mut ended = run(&["check", "--bootstrap", directory.join(file).to_str().unwrap()]);
    ended.stdout = ended.stdout.replace(&format!("{}/", directory.path().display()), "");
    ended
}

#[track_caller]
fn assert_lines(ended: &Ended, expected: &[&str]) {
    let lines: Vec<_> = ended.stdout.lines().collect();
    let is_it = lines.len() == expected.len()
        && lines.iter().zip(expected).all(|(line, start)| line.starts_with(start));
    assert!(is_it, "{lines:#?}\n{}", ended.stderr);
}

/// Saves a certificate with its key, and the key of another one.
fn certificates(directory: &TempDir) {
    let certificate = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (one, other) = (certificate(), certificate());
    directory.save("cert.pem", &one.cert.pem());
    directory.save("key.pem", &one.signing_key.serialize_pem());
    directory.save("other.pem", &other.signing_key.serialize_pem());
}

#[test]
fn valid_grpc_bootstrap_passes() {
    let directory = TempDir::new();
    certificates(&directory);
    let ended = check(
        &directory,
        "b.json",
        r#"{"xds_servers": [{"server_uri": "a:1", "channel_creds": [{"type": "tls", "config": {
            "ca_certificate_file": "DIR/cert.pem",
            "certificate_file": "DIR/cert.pem", "private_key_file": "DIR/key.pem"}}]}]}"#,
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert_lines(&ended, &["gRPC bootstrap with 2 named files: 0 errors, 0 warnings"]);
}

#[test]
fn every_part_of_a_grpc_bootstrap_is_checked() {
    let directory = TempDir::new();
    certificates(&directory);
    let ended = check(
        &directory,
        "b.json",
        r#"{"xds_servers": [
 {"server_uri": "a:1", "channel_creds": [{"type": "tls", "config": {
  "ca_certificate_file": "DIR/none.pem",
  "certificate_file": "DIR/cert.pem", "private_key_file": "DIR/other.pem"}}]},
 {"server_uri": "", "channel_creds": [{"type": "insecure"}]},
 {"server_uri": "c:1", "channel_creds": [{"type": "unknown"}]}],
 "node": {"id": 5},
 "certificate_providers": {"d": {"plugin_name": "file_watcher",
  "config": {"certificate_file": "DIR/cert.pem"}}}}"#,
    );
    assert_eq!(ended.code, Some(1));
    assert_lines(
        &ended,
        &[
            "error: b.json:3:26: xds_servers[0].channel_creds[0].config.ca_certificate_file: cannot \
             read none.pem: ",
            "error: b.json:4:23: xds_servers[0].channel_creds[0].config.certificate_file: cert.pem",
            "error: b.json:5:17: xds_servers[1].server_uri: must not be empty",
            "error: b.json:6:41: xds_servers[2].channel_creds: no supported type: found unknown; add ",
            "error: b.json:7:17: node.id: expected a string, found a number",
            "error: b.json:9:34: certificate_providers.d.config.certificate_file: must be given \
             together with `private_key_file`",
            "gRPC bootstrap with 2 named files: 6 errors, 0 warnings",
        ],
    );
}

/// gRPC ignores fields that it does not know, so a misspelt one has no effect.
#[test]
fn misspelt_field_of_a_grpc_bootstrap_is_a_warning() {
    let directory = TempDir::new();
    let ended = check(
        &directory,
        "b.json",
        r#"{"xds_servers": [
 {"server_uri": "a:1", "channel_creds": [{"type": "insecure", "confg": {}}],
  "server_featurs": ["xds_v3"], "comment": "x"}],
 "node": {"id": "n", "localty": {}, "metadata": {"regon": 1}, "locality": {"subzone": "z"}},
 "authorities": {"a": {"xds_server": []}},
 "certificate_provider": {}}"#,
    );
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let known = |name: &str| format!("did you mean `{name}`? gRPC ignores it");
    assert_lines(
        &ended,
        &[
            &format!(
                "warning: b.json:2:72: xds_servers[0].channel_creds[0].confg: unknown field, {}",
                known("config")
            ),
            &format!(
                "warning: b.json:3:21: xds_servers[0].server_featurs: unknown field, {}",
                known("server_features")
            ),
            &format!("warning: b.json:4:33: node.localty: unknown field, {}", known("locality")),
            &format!(
                "warning: b.json:4:87: node.locality.subzone: unknown field, {}",
                known("sub_zone")
            ),
            &format!(
                "warning: b.json:5:38: authorities.a.xds_server: unknown field, {}",
                known("xds_servers")
            ),
            &format!(
                "warning: b.json:6:26: certificate_provider: unknown field, {}",
                known("certificate_providers")
            ),
            "gRPC bootstrap with 0 named files: 0 errors, 6 warnings",
        ],
    );
}

#[test]
fn token_file_of_a_grpc_bootstrap_is_checked() {
    let directory = TempDir::new();
    directory.save("token", "hush-hush");
    let ended = check(
        &directory,
        "b.json",
        r#"{"xds_servers": [{"server_uri": "a:1", "channel_creds": [{"type": "tls"}],
 "call_creds": [{"type": "jwt_token_file", "config": {"jwt_token_file": "DIR/gone"}}]}]}"#,
    );
    assert_lines(
        &ended,
        &["error: b.json:2:73: xds_servers[0].call_creds[0].config.jwt_token_file: ", "gRPC"],
    );
    assert!(!ended.stdout.contains("hush"), "{}", ended.stdout);
}

#[test]
fn syntax_error_of_a_bootstrap_has_a_position() {
    let directory = TempDir::new();
    let ended = check(&directory, "b.json", "{\"xds_servers\": [\n}");
    assert_eq!(ended.code, Some(1));
    assert_lines(
        &ended,
        &["error: b.json:2:1: invalid JSON: ", "bootstrap with 0 named files: 1 error"],
    );
    let ended = check(&directory, "b.yaml", "static_resources: [\n");
    assert_lines(
        &ended,
        &["error: b.yaml:1:19: invalid YAML: ", "bootstrap with 0 named files: 1 error"],
    );
    assert_eq!(run(&["check", "--bootstrap", "no/such.json"]).code, Some(1));
}

const ENVOY: &str = r#"node: {id: a, cluster: b}
dynamic_resources:
  ads_config:
    {api_type: GRPC, transport_api_version: V3,
    grpc_services: [{envoy_grpc: {cluster_name: xds_cluster}}]}
  lds_config: {path_config_source: {path: DIR/lds.yaml}}
static_resources:
  clusters:
  - name: xds_cluster
    type: STATIC
    load_assignment:
      cluster_name: xds_cluster
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}
  - name: web
    type: EDS
    eds_cluster_config:
      eds_config: {path_config_source: {path: DIR/eds.yaml}}
"#;

fn listener(cluster: &str, certificate: &str) -> String {
    format!(
        r#"resources:
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: l
  address: {{socket_address: {{address: 127.0.0.1, port_value: 80}}}}
  filter_chains:
  - filters:
    - name: tcp
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
        stat_prefix: x
        cluster: {cluster}
    transport_socket:
      name: tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
        common_tls_context:
          tls_certificates:
          - certificate_chain: {{filename: {certificate}}}
            private_key: {{filename: {certificate}.key}}
"#
    )
}

fn endpoints(name: &str) -> String {
    format!(
        "'@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n\
         cluster_name: {name}\n"
    )
}

#[test]
fn valid_envoy_bootstrap_passes() {
    let directory = TempDir::new();
    certificates(&directory);
    fs::copy(directory.join("key.pem"), directory.join("cert.pem.key")).unwrap();
    directory.save("lds.yaml", &listener("web", directory.join("cert.pem").to_str().unwrap()));
    directory.save("eds.yaml", &endpoints("web"));
    let ended = check(&directory, "envoy.yaml", ENVOY);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert_lines(&ended, &["Envoy bootstrap with 3 named files: 0 errors, 0 warnings"]);
}

#[test]
fn files_of_an_envoy_bootstrap_are_checked() {
    let directory = TempDir::new();
    directory.save("lds.yaml", &listener("web", directory.join("cert.pem").to_str().unwrap()));
    directory.save("eds.yaml", &endpoints("wab"));
    let ended = check(&directory, "envoy.yaml", ENVOY);
    assert_lines(
        &ended,
        &[
            "error: envoy.yaml:19:47: static_resources.clusters[1].eds_cluster_config.eds_config.\
             path_config_source.path: eds.yaml has no eds resource `web`, did you mean `wab`?",
            "error: lds.yaml:18:43: resources[0].filter_chains[0].transport_socket.typed_config.\
             common_tls_context.tls_certificates[0].certificate_chain.filename: cannot read cert.pem: ",
            "Envoy bootstrap with 3 named files: 2 errors, 0 warnings",
        ],
    );

    directory.save("lds.yaml", &format!("'@type': {CLUSTER_TYPE}\nname: c\nconnect_timeout: 0s\n"));
    directory.remove("eds.yaml");
    let ended = check(&directory, "envoy.yaml", ENVOY);
    assert_lines(
        &ended,
        &[
            "error: envoy.yaml:19:47: static_resources.clusters[1].eds_cluster_config.eds_config.\
             path_config_source.path: cannot read eds.yaml: ",
            "error: lds.yaml:3:18: cds `c`: connect_timeout: must be greater than 0s, is 0s",
            "Envoy bootstrap with 2 named files: 2 errors, 0 warnings",
        ],
    );
    directory.save("lds.yaml", &format!("'@type': {CLUSTER_TYPE}\nname: c\n"));
    let ended = check(&directory, "envoy.yaml", ENVOY);
    assert!(
        ended
            .stdout
            .contains("lds.yaml has the cds resource `c`, but only lds resources may be in it"),
        "{}",
        ended.stdout
    );
}

#[test]
fn every_error_of_an_envoy_bootstrap_is_reported() {
    let directory = TempDir::new();
    let broken = r#"node: {id: a}
admin: {adress: {}}
dynamic_resources:
  ads_config:
    api_type: GRPC
    grpc_services: [{envoy_grpc: {cluster_name: xds_clutser}}]
static_resources:
  clusters:
  - name: xds_cluster
    type: STATICC
    connect_timeout: 5
  listeners:
  - name: l
    address: {socket_address: {address: 127.0.0.1, port_value: 80}}
    filter_chains:
    - filters:
      - name: tcp
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: x
          cluster: wbe
"#;
    let ended = check(&directory, "envoy.yaml", broken);
    assert_eq!(ended.code, Some(1));
    assert_lines(
        &ended,
        &[
            "warning: envoy.yaml:1:7: node.cluster: must not be empty, unless it is given with",
            "error: envoy.yaml:2:9: admin: unknown field `adress`",
            "error: envoy.yaml:5:5: dynamic_resources.ads_config: cluster `xds_clutser` is not in",
            "error: envoy.yaml:5:5: dynamic_resources.ads_config.transport_api_version: must be V3",
            "error: envoy.yaml:10:11: static_resources.clusters[0].type: unknown value `STATICC`",
            "error: envoy.yaml:11:22: static_resources.clusters[0].connect_timeout: expected a duration",
            "error: envoy.yaml:21:20: lds `l` refers to cds `wbe`, which is missing",
            "Envoy bootstrap with 0 named files: 6 errors, 1 warning",
        ],
    );
}

#[test]
fn source_with_another_version_of_the_transport_is_an_error() {
    let directory = TempDir::new();
    let envoy = |stated: &str| {
        let text = ENVOY.replace("DIR/lds.yaml", "LDS").replace("DIR/eds.yaml", "EDS");
        check(&directory, "envoy.yaml", &text.replace("transport_api_version: V3,", stated)).stdout
    };
    let wrong = |position: &str, stated: &str| {
        format!("error: envoy.yaml:{position}: dynamic_resources.ads_config.{stated}")
    };
    for stated in
        ["transport_api_version: V3,", "transportApiVersion: v3,", "transport_api_version: 2,"]
    {
        let shown = envoy(stated);
        assert!(!shown.contains("must be V3"), "{stated}: {shown}");
    }
    for (stated, expected) in [
        (
            "",
            wrong(
                "4:5",
                "transport_api_version: must be V3: Envoy does not start with AUTO, the default",
            ),
        ),
        (
            "transport_api_version: V2,",
            wrong("4:45", "transport_api_version: must be V3: Envoy does not start with V2"),
        ),
        (
            "transportApiVersion: auto,",
            wrong("4:43", "transportApiVersion: must be V3: Envoy does not start with AUTO"),
        ),
    ] {
        let shown = envoy(stated).replace("\n       ", " ");
        assert!(shown.contains(&expected), "{stated}: {shown}");
    }
}

#[test]
fn file_that_is_no_bootstrap_is_told_from_a_broken_one() {
    let directory = TempDir::new();
    let shown = |file: &str, text: &str| {
        let ended = check(&directory, file, text);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        ended.stdout.replace("\n       ", " ")
    };
    for (file, text, place) in [
        ("e.yaml", "node: {id: a}\nstatic_resource:\n  clusters: []\n", "e.yaml:3:3: "),
        ("e.json", "{\"node\": {},\n \"static_resource\": {}}", "e.json:2:21: "),
    ] {
        let shown = shown(file, text);
        assert!(shown.starts_with(&format!("error: {place}neither a gRPC bootstrap")), "{shown}");
        assert!(
            shown.contains("unknown field `static_resource`, did you mean `static_resources`?"),
            "{shown}"
        );
    }
    assert!(shown("e.yaml", "a: b\n").contains("nor an Envoy bootstrap"));
    let incomplete = shown("b.json", "{\"node\": {\"id\": \"a\"}}");
    assert!(incomplete.contains("xds_servers: required, but missing"), "{incomplete}");
}

#[test]
fn client_names_the_option_for_the_other_kind_of_bootstrap() {
    let directory = TempDir::new();
    directory.save("envoy.yaml", ENVOY);
    directory.save("none.yaml", "static_resource: {}\n");
    directory.save(
        "grpc.json",
        r#"{"xds_servers": [{"server_uri": "a:1", "channel_creds": [{"type": "insecure"}]}]}"#,
    );
    for (option, file, expected) in [
        (
            "--bootstrap",
            "envoy.yaml",
            "this is a bootstrap of Envoy, which --proxy-bootstrap reads",
        ),
        ("--bootstrap", "none.yaml", "did you mean `static_resources`?"),
        ("--proxy-bootstrap", "grpc.json", "this is a bootstrap of gRPC, which --bootstrap reads"),
        ("--proxy-bootstrap", "none.yaml", "did you mean `static_resources`?"),
    ] {
        let path = directory.join(file);
        let ended = run(&["watch", option, path.to_str().unwrap(), "cds", "--for", "1s"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{option} {file}: {}", ended.stderr);
    }
}

#[test]
fn bootstrap_options_exclude_a_directory() {
    for args in [
        &["check"][..],
        &["check", "dir", "--bootstrap", "b.json"],
        &["check", "--bootstrap", "b.json", "--proxy-bootstrap", "e.yaml"],
        &["check", "--bootstrap", "b.json", "--validate"],
    ] {
        assert_eq!(run(args).code, Some(2), "{args:?}");
    }
}

/// Envoy does not start with two static clusters or secrets of one name, or two listeners at one
/// address, and ignores a listener with the name of an earlier one.
#[test]
fn static_resources_with_a_name_or_an_address_of_an_earlier_one_are_reported() {
    let directory = TempDir::new();
    let bootstrap = r#"node: {id: a, cluster: b}
static_resources:
  clusters:
  - {name: c}
  - {name: d}
  - {name: c}
  secrets:
  - {name: s, generic_secret: {secret: {inline_string: x}}}
  - {name: s, session_ticket_keys: {keys: [{inline_string: x}]}}
  - {name: s, generic_secret: {secret: {inline_string: z}}}
  listeners:
  - {name: a, address: {socket_address: {address: 127.0.0.1, port_value: 80}}}
  - {name: a, address: {socket_address: {address: 127.0.0.1, port_value: 80}}}
  - {name: b, address: {socket_address: {address: 127.0.0.1, port_value: 80}}, bind_to_port: false}
  - {address: {socket_address: {address: 127.0.0.1, port_value: 81}}}
  - {address: {socket_address: {address: 127.0.0.1, port_value: 82}}}
  - {name: e, address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
  - {name: f, address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
  - {name: g, address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: 80}}}
  - name: h
    address: {socket_address: {address: 127.0.0.1, port_value: 83}}
    additional_addresses: [{address: {socket_address: {address: 127.0.0.1, port_value: 82}}}]
"#;
    let ended = check(&directory, "envoy.yaml", bootstrap);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    let at = "error: envoy.yaml:";
    let field = "static_resources";
    let why = "Envoy does not start:";
    assert_lines(
        &ended,
        &[
            &format!("{at}6:12: {field}.clusters[2].name: {why} line 4 has a cluster of this name"),
            &format!("{at}10:12: {field}.secrets[2].name: {why} line 8 has a secret of this name"),
            "warning: envoy.yaml:13:12: static_resources.listeners[1].name: Envoy ignores this \
             listener: line 12 has a listener of this name",
            &format!(
                "{at}14:24: {field}.listeners[2].address: {why} line 12 has a listener at this address"
            ),
            &format!(
                "{at}22:38: {field}.listeners[8].additional_addresses[0].address: {why} line 16 has a listener at this address"
            ),
            "Envoy bootstrap with 0 named files: 4 errors, 1 warning",
        ],
    );
}

#[test]
fn type_of_version_2_in_a_bootstrap_is_an_error() {
    let directory = TempDir::new();
    let bootstrap = "node: {id: a, cluster: b}\nstatic_resources:\n  clusters:\n  - name: c\n    \
        transport_socket:\n      name: t\n      typed_config:\n        \
        \"@type\": type.googleapis.com/envoy.api.v2.auth.UpstreamTlsContext\n        sni: x\n";
    let ended = check(&directory, "envoy.yaml", bootstrap);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert_lines(
        &ended,
        &[
            "error: envoy.yaml:8:9: static_resources.clusters[0].transport_socket.typed_config: \
             `envoy.api.v2.auth.UpstreamTlsContext` is a type of an earlier version of the API: use \
             `envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext`",
            "Envoy bootstrap with 0 named files: 1 error, 0 warnings",
        ],
    );
}

#[test]
fn errors_of_a_bootstrap_do_not_contain_its_secrets() {
    let directory = TempDir::new();
    let key = "{private_key: {inline_bytes: \"-----BEGIN TOPSECRET-----\"}}";
    let bootstrap = format!(
        "node: {{id: a, cluster: b}}\nstatic_resources:\n  secrets:\n  - {{name: s, tls_certificate: {key}}}\n"
    );
    let ended = check(&directory, "envoy.yaml", &bootstrap);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("use `inline_string` for PEM text"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("TOPSECRET"), "{}", ended.stdout);
}
