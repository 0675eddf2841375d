//! `xds check`, and the dangling references that `xds serve` reports.

use std::fs;

use crate::support::{Ended, TempDir, Xds, clusters, endpoints, run};
use serde_json::Value as Json;
use xds_format::prost_reflect::prost::Message as _;
use xds_format::prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

fn eds_cluster(name: &str) -> String {
    format!(
        "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\ntype: EDS\n\
         eds_cluster_config: {{ eds_config: {{ ads: {{}}, resource_api_version: V3 }} }}\n"
    )
}

const ROUTES: &str = "'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration\n\
    name: r\nvirtual_hosts: [{ name: v, domains: ['*'], routes: [{ match: { prefix: / }, route: { cluster: shop } }] }]\n";

fn check(directory: &TempDir, options: &[&str]) -> Ended {
    let mut args = vec!["check", directory.path().to_str().unwrap()];
    args.extend(options);
    run(&args)
}

/// Standard output without the path of the directory.
fn shown(directory: &TempDir, ended: &Ended) -> String {
    ended.stdout.replace(&format!("{}/", directory.path().display()), "")
}

#[test]
fn check_findings_name_file_resource_and_missing_reference() {
    let directory = TempDir::new();
    directory.save("a-cds.yaml", &eds_cluster("cart"));
    directory.save("b-eds.yaml", &endpoints("kart", &[1]));
    directory.save("c-rds.yaml", ROUTES);
    directory.save("d-cds.yaml", &clusters("slow=0s"));
    directory.save("e-broken.yaml", "{");
    let ended = check(&directory, &["--validate"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let shown = shown(&directory, &ended);
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].starts_with("error: e-broken.yaml:1:1: "), "{shown}");
    assert_eq!(
        lines[1..],
        [
            "error: a-cds.yaml:2:7: cds `cart` refers to eds `cart`, which is missing, did you mean `kart`?",
            "warning: b-eds.yaml:2:1: nothing refers to eds `kart`",
            "warning: c-rds.yaml:1:1: nothing refers to rds `r`",
            "error: c-rds.yaml:3:95: rds `r` refers to cds `shop`, which is missing",
            "error: d-cds.yaml:4:20: clients reject cds `slow`: connect_timeout: must be greater than 0s, is 0s",
            "4 resources in 5 files: 4 errors, 2 warnings",
        ]
    );
    assert_eq!(ended.stderr, "xds: 4 errors");
    println!("covers: M206 M207");
}

#[test]
fn check_of_a_consistent_directory_succeeds() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &eds_cluster("cart"));
    directory.save("eds.yaml", &endpoints("cart", &[1]));
    let ended = check(&directory, &[]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(ended.stdout, "2 resources in 2 files: 0 errors, 0 warnings");
    assert_eq!(check(&directory, &["-o", "ndjson"]).stdout, "");
    println!("covers: M205");
}

#[test]
fn check_does_not_report_external_resources() {
    let directory = TempDir::new();
    directory.save("rds.yaml", ROUTES);
    for (options, code) in [
        (&[][..], 1),
        (&["--external", "cds:shop"], 0),
        (&["--elsewhere", "cds"], 0),
        (&["--external", "eds", "--external", "cds:store"], 1),
    ] {
        let ended = check(&directory, options);
        assert_eq!(ended.code, Some(code), "{options:?}: {}", ended.stdout);
        assert!(ended.stdout.ends_with("1 warning"), "{}", ended.stdout);
    }
    assert_eq!(check(&directory, &["--external", "zds"]).code, Some(2));
    assert_eq!(run(&["check", "/no/such/directory"]).code, Some(1));
}

#[test]
fn check_prints_findings_as_json_objects() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &eds_cluster("cart"));
    directory.save("broken.yaml", "{");
    let ended = check(&directory, &["-o", "ndjson"]);
    let objects: Vec<Json> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 2, "{objects:?}");
    assert_eq!(objects[0]["event"], "file_error");
    let finding = &objects[1];
    assert!(finding["file"].as_str().unwrap().ends_with("cds.yaml"), "{finding}");
    for (field, value) in [
        ("event", "finding"),
        ("severity", "error"),
        ("type", "cds"),
        ("name", "cart"),
        ("finding", "cds `cart` refers to eds `cart`, which is missing"),
    ] {
        assert_eq!(finding[field], value, "{finding}");
    }
}

#[test]
fn serve_warns_once_of_each_new_dangling_reference() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &eds_cluster("cart"));
    directory.save("rds.yaml", ROUTES);
    let path = directory.path().to_str().unwrap();
    let options = ["--listen", "127.0.0.1:0", "-o", "ndjson", "--elsewhere", "cds:shop"];
    let serve = Xds::spawn(&[&["serve", path], &options[..]].concat());
    let found = serve.wait_count("finding", 1);
    assert_eq!(found[0]["finding"], "cds `cart` refers to eds `cart`, which is missing");
    assert_eq!(serve.events()[0]["event"], "serving", "always the first line");

    // The resource is served nevertheless. The warning is not repeated.
    directory.save("more.yaml", &clusters("more"));
    serve.wait_count("reloaded", 1);
    directory.save("eds.yaml", &endpoints("cart", &[1]));
    serve.wait_count("reloaded", 2);
    serve.wait_count("finding", 1);
    // Once it is dangling again, there is a new warning.
    directory.remove("eds.yaml");
    let found = serve.wait_count("finding", 2);
    assert!(found[1]["file"].as_str().unwrap().ends_with("cds.yaml"), "{found:?}");

    let table = Xds::spawn(&["serve", path, "--listen", "127.0.0.1:0"]);
    table.wait_stderr("cds.yaml:2:7: cds `cart` refers to eds `cart`, which is missing");
    table.wait_stderr("rds.yaml:3:95: rds `r` refers to cds `shop`, which is missing");
}

#[test]
fn strict_serve_rejects_changes_with_dangling_references() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &eds_cluster("cart"));
    directory.save("eds.yaml", &endpoints("cart", &[1]));
    let path = directory.path().to_str().unwrap();
    let (serve, address) =
        Xds::serve_with(directory.path(), &["--listen", "127.0.0.1:0", "--strict"]);
    let watch = Xds::watch(&address, &["cds"]);
    let names = |watch: &Xds, count| {
        let changed = watch.wait_count("changed", count);
        changed.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&watch, 1), ["cart"]);

    // A valid resource is not served if the same change leaves a dangling reference.
    directory.save("more.yaml", &(clusters("more") + "\n---\n" + ROUTES));
    let refused = serve.wait_count("refused", 1);
    assert_eq!((&refused[0]["dangling"], &refused[0]["resources"]), (&1.into(), &2.into()));
    let found = serve.wait_count("finding", 1);
    assert_eq!(found[0]["finding"], "rds `r` refers to cds `shop`, which is missing");
    directory.save("more.yaml", &(clusters("more shop") + "\n---\n" + ROUTES));
    let reloaded = serve.wait_count("reloaded", 1);
    assert_eq!(reloaded[0]["resources"], 5, "{reloaded:?}");
    let mut all = names(&watch, 3);
    all.sort_unstable();
    assert_eq!(all, ["cart", "more", "shop"]);

    let table = Xds::spawn(&["serve", path, "--listen", "127.0.0.1:0", "--strict"]);
    table.wait_stdout("5 resources");
    directory.remove("eds.yaml");
    table.wait_stderr("cds.yaml:2:7: cds `cart` refers to eds `cart`, which is missing");
    table.wait_stderr("error: refused: 1 reference would be dangling: cds `cart` refers to ");
    table.wait_stderr("       the served state is unchanged: 5 resources");
    println!("covers: M206 B56");
}

#[test]
fn check_validates_constraints_only_on_request() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("good=1s slow=0s"));
    directory.save(
        "eds.yaml",
        "'@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n\
         cluster_name: shop\nendpoints: [{ lb_endpoints: [{ load_balancing_weight: 0 }], priority: 200 }]\n",
    );
    let elsewhere = ["--elsewhere", "cds"];
    assert_eq!(check(&directory, &elsewhere).code, Some(0), "control planes leave them alone");
    let ended = check(&directory, &[&["--validate"], &elsewhere[..]].concat());
    let shown = shown(&directory, &ended);
    let lines: Vec<_> = shown.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(
        lines,
        [
            "error: cds.yaml:7:20: clients reject cds `slow`: connect_timeout: must be greater than 0s, is 0s",
            "error: eds.yaml:3:55: clients reject eds `shop`: endpoints[0].lb_endpoints[0].load_balancing_weight: \
             must be at least 1, is 0",
            "error: eds.yaml:3:71: clients reject eds `shop`: endpoints[0].priority: must be at most 128, is 200",
        ]
    );
    assert_eq!(ended.code, Some(1));
    println!("covers: S4.028 S4.030 B15 X39");
}

#[test]
fn serve_with_validate_rejects_files_that_violate_constraints() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("shop=1s"));
    let path = directory.path().to_str().unwrap();
    let serve =
        Xds::spawn(&["serve", path, "--listen", "127.0.0.1:0", "-o", "ndjson", "--validate"]);
    serve.wait_count("serving", 1);
    directory.save("cds.yaml", &clusters("shop=0s more=1s"));
    let error = serve.wait_count("file_error", 1);
    let text = error[0]["error"].as_str().unwrap();
    assert!(
        text.ends_with(
            "cds.yaml:4:20: cds `shop`: connect_timeout: must be greater than 0s, is 0s"
        ),
        "{text}"
    );
    directory.save("cds.yaml", &clusters("shop=2s more=1s"));
    let reloaded = serve.wait_count("reloaded", 1);
    assert_eq!(reloaded[0]["resources"], 2, "{reloaded:?}");
    println!("covers: X39");
}

#[test]
fn check_warns_of_deprecated_fields() {
    let directory = TempDir::new();
    let cluster = "'@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: c\n\
                   http2_protocol_options: {}\n";
    directory.save("cds.yaml", cluster);
    let ended = check(&directory, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let shown = shown(&directory, &ended);
    let expected = "warning: cds.yaml:3:25: cds `c` uses a deprecated element: http2_protocol_options: \
                    `envoy.config.cluster.v3.Cluster.http2_protocol_options` is deprecated";
    assert!(shown.lines().any(|line| line == expected), "{shown}");
    println!("covers: S4.011");
}

/// A resource of version 2 is for clients of version 2. In a resource of version 3, no client knows
/// such a type.
#[test]
fn check_reports_types_of_version_2() {
    let directory = TempDir::new();
    directory.save(
        "cds.yaml",
        "'@type': type.googleapis.com/envoy.api.v2.Cluster\nname: c\nconnect_timeout: 1s\n\
         transport_socket:\n  name: t\n  typed_config:\n    \
         '@type': type.googleapis.com/envoy.api.v2.auth.UpstreamTlsContext\n",
    );
    let manager = "envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager";
    directory.save(
        "lds.yaml",
        &format!(
            "'@type': type.googleapis.com/envoy.config.listener.v3.Listener\nname: l\napi_listener:\n  \
             api_listener:\n    '@type': type.googleapis.com/{manager}\n    stat_prefix: x\n"
        ),
    );
    let ended = check(&directory, &[]);
    let shown = shown(&directory, &ended);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(
        lines,
        [
            "warning: cds.yaml:1:1: cds `c` is of the type `envoy.api.v2.Cluster`, which only clients of an earlier version of the API receive: use `envoy.config.cluster.v3.Cluster` for others",
            &format!(
                "error: lds.yaml:5:5: lds `l`: api_listener.api_listener: `{manager}` is a type of an earlier version of the API: use `envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`"
            ),
            "2 resources in 2 files: 1 error, 1 warning",
        ]
    );
    assert_eq!(ended.code, Some(1));
}

/// Descriptor set with `acme.v1.Thing { string name = 1; string note = 2; }`, in a
/// file with imports.
fn thing(imports: &[&str]) -> Vec<u8> {
    let field = |name: &str, number| FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(Type::String.into()),
        ..FieldDescriptorProto::default()
    };
    let message = DescriptorProto {
        name: Some("Thing".to_owned()),
        field: vec![field("name", 1), field("note", 2)],
        ..DescriptorProto::default()
    };
    let file = FileDescriptorProto {
        name: Some("acme/v1/thing.proto".to_owned()),
        package: Some("acme.v1".to_owned()),
        dependency: imports.iter().map(|&name| name.to_owned()).collect(),
        message_type: vec![message],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    FileDescriptorSet { file: vec![file] }.encode_to_vec()
}

const THING: &str = "\"@type\": type.googleapis.com/acme.v1.Thing\nname: t\nnote: hi\n";

#[test]
fn every_command_reads_and_prints_types_of_a_descriptor_set() {
    let (directory, sets) = (TempDir::new(), TempDir::new());
    directory.save("thing.yaml", THING);
    let unknown = check(&directory, &[]);
    assert_eq!(unknown.code, Some(1));
    let said = "unknown type `type.googleapis.com/acme.v1.Thing`: it is not in the schema; add it with a \
                descriptor set (`--descriptors FILE`)";
    assert!(unknown.stdout.contains(said), "{}", unknown.stdout);

    let path = sets.join("thing.binpb").to_str().unwrap().to_owned();
    fs::write(&path, thing(&["envoy/config/core/v3/base.proto"])).unwrap();
    let known = check(&directory, &["--validate", "--descriptors", &path]);
    assert_eq!(known.code, Some(0), "{}{}", known.stdout, known.stderr);

    let flags = ["--listen", "127.0.0.1:0", "--descriptors", &path];
    let (_serve, address) = Xds::serve_with(directory.path(), &flags);
    let type_url = "type.googleapis.com/acme.v1.Thing";
    let seen = Xds::watch(&address, &[type_url, "--descriptors", &path]);
    let changed = &seen.wait_count("changed", 1)[0];
    assert_eq!(changed["resource"]["note"], "hi", "{changed}");
    let file = directory.join("thing.yaml").to_str().unwrap().to_owned();
    let args = ["watch", "-o", "yaml", "--file", &file, type_url, "--descriptors", &path];
    Xds::spawn(&args).wait_stdout("note: hi");
}

#[test]
fn descriptor_set_errors_name_the_file_and_the_remedy() {
    let (directory, sets) = (TempDir::new(), TempDir::new());
    let said = |name: &str, content: &[u8]| {
        let path = sets.join(name);
        fs::write(&path, content).unwrap();
        let ended = check(&directory, &["--descriptors", path.to_str().unwrap()]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        ended.stderr.replace(&format!("{}/", sets.path().display()), "")
    };
    const MAKE: &str =
        "`protoc --include_imports --descriptor_set_out=FILE NAME.proto` or `buf build -o FILE`";
    assert_eq!(
        said("thing.proto", b"syntax = \"proto3\";\n"),
        format!(
            "xds: thing.proto: invalid descriptor set: the file is the source of a schema (.proto); compile the schema \
             with {MAKE}"
        )
    );
    assert_eq!(
        said("a.binpb", &thing(&["acme/missing.proto"])),
        format!(
            "xds: a.binpb: invalid descriptor set: `acme/v1/thing.proto` imports \
             `acme/missing.proto`, which is neither in the set nor in the schema; create the \
             set with {MAKE}"
        )
    );
    assert_eq!(said("b.binpb", b""), "xds: b.binpb: the descriptor set is empty");
    let missing = check(&directory, &["--descriptors", "no/such.binpb"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.starts_with("xds: cannot read no/such.binpb: "), "{}", missing.stderr);
    // A newer version of a known file is not used, which causes a warning.
    let newer = FileDescriptorProto {
        name: Some("envoy/config/cluster/v3/cluster.proto".to_owned()),
        package: Some("envoy.config.cluster.v3".to_owned()),
        message_type: vec![DescriptorProto {
            name: Some("OfTomorrow".to_owned()),
            ..DescriptorProto::default()
        }],
        ..FileDescriptorProto::default()
    };
    let path = sets.join("newer.binpb");
    fs::write(&path, FileDescriptorSet { file: vec![newer] }.encode_to_vec()).unwrap();
    let warned = check(&directory, &["--descriptors", path.to_str().unwrap()]);
    assert_eq!(warned.code, Some(0), "{}", warned.stderr);
    let words = "1 definition not used, because the schema has the files in another version: \
                 envoy.config.cluster.v3.OfTomorrow";
    assert!(warned.stderr.contains(words), "{}", warned.stderr);
}
