//! `xds convert`: formats, messages of any type, secrets, and what a format cannot express.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use crate::support::{TempDir, run};

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// Result of a command whose standard input and output are bytes.
struct Converted {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

/// Runs `xds convert` with a standard input.
#[track_caller]
fn convert(args: &[&str], input: impl AsRef<[u8]>) -> Converted {
    let mut child = Command::new(env!("CARGO_BIN_EXE_xds"))
        .arg("convert")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    Converted { code: ended.status.code(), stdout: ended.stdout, stderr }
}

/// Returns the output of a conversion that must succeed without a warning.
#[track_caller]
fn converted(args: &[&str], input: impl AsRef<[u8]>) -> Vec<u8> {
    let ended = convert(args, input);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{args:?}");
    ended.stdout
}

#[track_caller]
fn text(args: &[&str], input: impl AsRef<[u8]>) -> String {
    String::from_utf8(converted(args, input)).unwrap()
}

/// Returns the error of a conversion that must fail without output.
#[track_caller]
fn refused(args: &[&str], input: impl AsRef<[u8]>) -> (Option<i32>, String) {
    let ended = convert(args, input);
    assert!(ended.stdout.is_empty(), "{args:?}: {:?}", ended.stdout);
    (ended.code, ended.stderr)
}

/// A response with every field that a resource file does not need, and a wrapped resource.
const RESPONSE: &str = "version_info: \"7\"
resources:
- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: a
  connect_timeout: 1s
- \"@type\": type.googleapis.com/envoy.service.discovery.v3.Resource
  name: b
  version: w
  resource:
    \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
    name: b
  cache_control:
    do_not_cache: true
type_url: type.googleapis.com/envoy.config.cluster.v3.Cluster
nonce: n1
control_plane:
  identifier: cp
";

/// Fields by number: the printer's order.
fn in_order(yaml: &str) -> String {
    yaml.replacen(
        "  name: b\n  version: w\n  resource:\n    \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n    name: b\n",
        "  version: w\n  resource:\n    \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n    name: b\n  name: b\n",
        1,
    )
}

#[test]
fn response_keeps_all_fields_through_every_format() {
    let mut content = RESPONSE.as_bytes().to_vec();
    for (from, to) in [
        ("yaml", "json"),
        ("json", "textproto"),
        ("textproto", "binary"),
        ("binary", "textproto"),
        ("textproto", "yaml"),
        ("yaml", "binary"),
        ("binary", "json"),
        ("json", "yaml"),
    ] {
        content = converted(&["--from", from, "--to", to], &content);
        assert!(!content.is_empty(), "{from} to {to}");
    }
    assert_eq!(String::from_utf8(content).unwrap(), in_order(RESPONSE));
}

#[test]
fn file_formats_follow_the_suffixes() {
    let directory = TempDir::new();
    directory.save("r.yaml", RESPONSE);
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    for (from, to) in [
        ("r.yaml", "r.json"),
        ("r.json", "r.txtpb"),
        ("r.txtpb", "r.pb"),
        ("r.pb", "r.textproto"),
        ("r.textproto", "s.yml"),
    ] {
        let ended = run(&["convert", &path(from), "-o", &path(to)]);
        assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (Some(0), "", ""), "{from}");
    }
    assert_eq!(fs::read_to_string(directory.join("s.yml")).unwrap(), in_order(RESPONSE));
    assert!(fs::read_to_string(directory.join("r.json")).unwrap().starts_with("{\n  \"version_i"));
    // A file may be converted in place, and --to and --from take precedence.
    let file = path("r.json");
    let ended = run(&["convert", &file, "--to", "yaml", "-o", &file]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    let ended = run(&["convert", &file, "--from", "yaml", "--to", "yaml"]);
    assert_eq!((ended.stdout + "\n", ended.code), (in_order(RESPONSE), Some(0)));
}

#[test]
fn lists_and_streams_of_resources_become_what_the_format_has() {
    let stream = format!("\"@type\": {CLUSTER}\nname: a\n---\n\"@type\": {CLUSTER}\nname: b\n");
    let list = format!(
        "[\n  {{\n    \"@type\": \"{CLUSTER}\",\n    \"name\": \"a\"\n  }},\n  {{\n    \"@type\": \
         \"{CLUSTER}\",\n    \"name\": \"b\"\n  }}\n]\n"
    );
    assert_eq!(text(&["--from", "yaml", "--to", "json"], &stream), list);
    assert_eq!(text(&["--from", "json", "--to", "yaml"], &list), stream);
    // Formats with one message have a response.
    let response = format!(
        "# proto-message: envoy.service.discovery.v3.DiscoveryResponse\nresources {{\n  \
         [{CLUSTER}] {{\n    name: \"a\"\n  }}\n}}\nresources {{\n  [{CLUSTER}] {{\n    name: \
         \"b\"\n  }}\n}}\ntype_url: \"{CLUSTER}\"\n"
    );
    assert_eq!(text(&["--from", "yaml", "--to", "textproto"], &stream), response);
    let binary = converted(&["--from", "yaml", "--to", "binary"], &stream);
    assert_eq!(text(&["--from", "binary", "--to", "textproto"], binary), response);

    let one = "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: a\n";
    let expected = "# proto-message: envoy.config.cluster.v3.Cluster\nname: \"a\"\n";
    assert_eq!(text(&["--from", "yaml", "--to", "textproto"], one), expected);
    assert_eq!(text(&["--from", "textproto", "--to", "yaml"], expected), one);
    // An empty list stays one.
    assert_eq!(text(&["--from", "yaml", "--to", "json"], "[]"), "[]\n");
    assert_eq!(text(&["--from", "json", "--to", "yaml"], "[]"), "[]\n");
    assert_eq!(text(&["--from", "yaml", "--to", "yaml"], "resources: []"), "resources: []\n");
}

/// A type of version 2 of the API has no header in proto text.
#[test]
fn type_url_survives_formats_that_state_names() {
    let old = "\"@type\": type.googleapis.com/envoy.api.v2.Cluster\nname: a\n";
    let there = text(&["--from", "yaml", "--to", "textproto"], old);
    let back = text(&["--from", "textproto", "--to", "yaml"], there);
    assert!(
        back.contains("- \"@type\": type.googleapis.com/envoy.api.v2.Cluster\n  name: a\n"),
        "{back}"
    );
}

#[test]
fn message_type_option_reads_and_writes_bare_messages() {
    // DiscoveryRequest { node { id: "x" }, resource_names: "a" }
    let request = b"\x12\x03\x0a\x01x\x1a\x01a";
    let yaml = "node:\n  id: x\nresource_names:\n- a\n";
    for name in ["DiscoveryRequest", "envoy.service.discovery.v3.DiscoveryRequest"] {
        let of_type = |from, to, input: &[u8]| {
            converted(&["--type", name, "--from", from, "--to", to], input)
        };
        assert_eq!(of_type("yaml", "binary", yaml.as_bytes()), request);
        assert_eq!(of_type("binary", "yaml", request), yaml.as_bytes());
        assert_eq!(
            of_type("json", "yaml", &of_type("yaml", "json", yaml.as_bytes())),
            yaml.as_bytes()
        );
    }
    // Resources of a discovery service are written as `xds serve` reads them.
    let typed = format!("\"@type\": {CLUSTER}\nname: a\n");
    for given in ["cds", CLUSTER, "Cluster", "envoy.config.cluster.v3.Cluster"] {
        assert_eq!(
            text(&["--type", given, "--from", "binary", "--to", "yaml"], b"\x0a\x01a"),
            typed
        );
        assert_eq!(
            converted(&["--type", given, "--from", "yaml", "--to", "binary"], &typed),
            b"\x0a\x01a"
        );
    }
    // The type of proto text without a header.
    assert_eq!(text(&["--type", "cds", "--from", "textproto", "--to", "yaml"], "name: 'a'"), typed);

    for (args, input, code, part) in [
        (
            &["--from", "yaml", "--to", "json"][..],
            "node: {id: x}",
            1,
            "<stdin>:1:1: expected an object with `@type`, a list of such objects, or an object with \
             `resources`, found an object with neither; --type states the type",
        ),
        (
            &["--type", "Nothing", "--from", "yaml", "--to", "json"],
            "",
            2,
            "--type Nothing: unknown type",
        ),
        (
            &["--type", "Config", "--from", "yaml", "--to", "json"],
            "",
            2,
            "--type Config: several messages have this name: envoy.extensions.",
        ),
        (
            &["--type", "cds", "--from", "yaml", "--to", "binary"],
            "name: a\n---\nname: b\n",
            1,
            "binary output with --type has one message of type envoy.config.cluster.v3.Cluster; the \
             input has 2 messages",
        ),
        (
            &["--from", "yaml", "--to", "binary"],
            "\"@type\": type.googleapis.com/envoy.service.discovery.v3.DiscoveryRequest\n",
            1,
            "use --type envoy.service.discovery.v3.DiscoveryRequest to write the message alone",
        ),
    ] {
        let (ended, stderr) = refused(args, input);
        assert_eq!(ended, Some(code), "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
    }
}

#[test]
fn errors_name_file_line_column_and_field() {
    let directory = TempDir::new();
    directory
        .save("c.yaml", &format!("resources:\n- \"@type\": {CLUSTER}\n  name: a\n  typ: EDS\n"));
    let file = directory.join("c.yaml");
    let file = file.to_str().unwrap();
    let ended = run(&["convert", file, "--to", "json"]);
    let expected = format!(
        "xds: {file}:4:3: resources[0]: unknown field `typ` in `envoy.config.cluster.v3.Cluster`, did you mean `type`?"
    );
    assert_eq!((ended.code, &*ended.stderr), (Some(1), &*expected));
    let ended = run(&["convert", &file.replace("c.yaml", "none.yaml"), "--to", "json"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("cannot read ") && ended.stderr.contains("none.yaml"));
}

#[test]
fn missing_format_is_a_usage_error() {
    for (args, part) in [
        (&["--from", "yaml"][..], "use --to yaml, json, textproto or binary"),
        (&["--to", "yaml"], "use --from yaml, json, textproto or binary"),
        (&["Cargo.toml", "--to", "yaml"], "unknown file suffix `.toml`"),
        (&["--from", "yaml", "-o", "a.toml"], "or state the format with --to"),
        (&["--from", "yaml", "--to", "xml"], "yaml, json, textproto, binary"),
        (&["--from", "yaml", "--check", "-o", "a.json"], "cannot be used with"),
    ] {
        let (code, stderr) = refused(args, RESPONSE);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(part), "{args:?}: {stderr}");
    }
}

#[test]
fn what_a_format_cannot_express_is_an_error() {
    let two = "resources: []\nversion_info: a\n---\nresources: []\nversion_info: b\n";
    for (from, to, input, part) in [
        // A response with field 1023, and an `Any` of an unknown type.
        (
            "binary",
            "yaml",
            &b"\x0a\x017\xfa\x3f\x01x"[..],
            "the field number 1023 of `envoy.service.discovery.v3.DiscoveryResponse` is not in the schema",
        ),
        ("binary", "textproto", b"\x0a\x017\xfa\x3f\x01x", "--to binary keeps the bytes"),
        (
            "binary",
            "json",
            b"\x12\x09\x0a\x05t/a.B\x12\x00",
            "resources[0]: an `Any` cannot be written as JSON or YAML: the type `t/a.B` is not in the schema",
        ),
        (
            "yaml",
            "json",
            two.as_bytes(),
            "JSON has no form for 2 messages of which one is a DiscoveryResponse: use --to yaml",
        ),
        (
            "yaml",
            "binary",
            two.as_bytes(),
            "binary protobuf holds one message or a list of resources",
        ),
        (
            "yaml",
            "textproto",
            two.as_bytes(),
            "proto text holds one message or a list of resources",
        ),
        (
            "yaml",
            "binary",
            b"resources: []",
            "a response without any field is an empty binary file",
        ),
    ] {
        let (code, stderr) = refused(&["--from", from, "--to", to], input);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.starts_with("xds: <stdin>: ") && stderr.contains(part), "{stderr}");
    }
    // The formats that can express them.
    assert_eq!(
        converted(&["--from", "binary", "--to", "binary"], b"\x0a\x017\xfa\x3f\x01x"),
        b"\x0a\x017\xfa\x3f\x01x"
    );
    let unknown = b"\x12\x09\x0a\x05t/a.B\x12\x00";
    let there = converted(&["--from", "binary", "--to", "textproto"], unknown);
    let back = text(&["--from", "textproto", "--to", "textproto"], &there);
    assert!(back.contains("type_url: \"t/a.B\""), "{back}");
    assert_eq!(
        text(&["--from", "yaml", "--to", "yaml"], two),
        "version_info: a\nresources: []\n---\nversion_info: b\nresources: []\n"
    );
}

#[test]
fn check_option_converts_there_and_back() {
    let check = |from, to, input: &[u8]| convert(&["--check", "--from", from, "--to", to], input);
    for to in ["yaml", "json", "textproto", "binary"] {
        let ended = check("yaml", to, RESPONSE.as_bytes());
        let stdout = String::from_utf8(ended.stdout).unwrap();
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
        assert!(stdout.starts_with("<stdin>: 1 message, nothing is lost in "), "{stdout}");
        assert!(!stdout.contains("another order"), "{stdout}");
    }
    // Cluster { connect_timeout (4), name (1) }: not in the order of the field numbers.
    let ended = convert(
        &["--check", "--type", "cds", "--from", "binary", "--to", "json"],
        b"\x22\x02\x08\x01\x0a\x01a",
    );
    let stdout = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(
        stdout,
        "<stdin>: 1 message, nothing is lost in JSON; converted back, the bytes are in another order than in the input\n"
    );
    assert_eq!(check("binary", "json", b"\x0a\x017\xfa\x3f\x01x").code, Some(1));
}

/// A secret is written in plain text, because the input has it, and only for the owner.
#[cfg(unix)]
#[test]
fn files_with_secrets_are_for_their_owner() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let secret = "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\nname: s\ngeneric_secret:\n  secret:\n    inline_string: hunter2\n";
    let cluster = format!("\"@type\": {CLUSTER}\nname: a\n");
    let directory = TempDir::new();
    let mode =
        |name: &str| fs::metadata(directory.join(name)).unwrap().permissions().mode() & 0o777;
    let set = |name: &str, mode| {
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let write = |name: &str, input: &str| {
        let file = directory.join(name);
        converted(&["--from", "yaml", "--to", "yaml", "-o", file.to_str().unwrap()], input);
        assert_eq!(fs::read_to_string(file).unwrap(), input);
    };
    write("new.yaml", secret);
    assert_eq!(mode("new.yaml"), 0o600);
    let response = directory.join("response.pb");
    converted(&["--from", "yaml", "-o", response.to_str().unwrap()], secret);
    assert_eq!(mode("response.pb"), 0o600);
    // Over a file that others can read.
    directory.save("old.yaml", "x");
    set("old.yaml", 0o644);
    write("old.yaml", secret);
    assert_eq!(mode("old.yaml"), 0o600);
    // Without secrets, the mode stays.
    directory.save("kept.yaml", "x");
    set("kept.yaml", 0o640);
    write("kept.yaml", &cluster);
    assert_eq!(mode("kept.yaml"), 0o640);
    // A link stays a link, and its target is replaced.
    symlink("kept.yaml", directory.join("link.yaml")).unwrap();
    write("link.yaml", secret);
    assert!(fs::symlink_metadata(directory.join("link.yaml")).unwrap().is_symlink());
    assert_eq!(mode("kept.yaml"), 0o600);
    // A device is written to, not replaced.
    converted(&["--from", "yaml", "--to", "yaml", "-o", "/dev/null"], secret);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    let hidden = fs::read_dir(directory.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

#[test]
fn failed_conversion_keeps_the_old_file() {
    let directory = TempDir::new();
    directory.save("out.json", "old");
    let file = directory.join("out.json");
    let (code, _) =
        refused(&["--from", "yaml", "-o", file.to_str().unwrap()], "resources: [{a: 1}]");
    assert_eq!(code, Some(1));
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    let missing = directory.join("no/such/directory.json");
    let (code, stderr) = refused(&["--from", "yaml", "-o", missing.to_str().unwrap()], RESPONSE);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("cannot write ") && stderr.contains("No such file"), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn binary_output_to_a_terminal_is_refused() {
    // The controlling side of a new terminal is itself one.
    let terminal = fs::OpenOptions::new().read(true).write(true).open("/dev/ptmx").unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_xds"))
        .args(["convert", "--from", "yaml", "--to", "binary"])
        .stdin(Stdio::null())
        .stdout(terminal)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert!(stderr.contains("write it to a file with -o FILE"), "{stderr}");
}
