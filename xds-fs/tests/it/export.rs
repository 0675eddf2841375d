//! Export of a view to files: when they are written, and their permissions.

use std::fs;

use crate::support::{Folder, Reader, names_in, response};
use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ResourceName, TypeUrl, ViewName,
    proto::DiscoveryResponse,
    server::{Server, ServerConfig, Transaction},
    types::{CLUSTER, CLUSTER_LOAD_ASSIGNMENT, SECRET},
};
use xds_format::{Format, Schema, encode_message};
use xds_fs::{Content, Export, ExportFormat, FileState};

fn encoded(message: &str, json: &str) -> Bytes {
    let message = format!("envoy.{message}");
    encode_message(Schema::envoy(), "", &message, Format::Json, json.as_bytes()).unwrap().into()
}

fn cluster(name: &str) -> Bytes {
    encoded("config.cluster.v3.Cluster", &format!(r#"{{"name": "{name}"}}"#))
}

fn endpoints(name: &str) -> Bytes {
    let json = format!(r#"{{"cluster_name": "{name}"}}"#);
    encoded("config.endpoint.v3.ClusterLoadAssignment", &json)
}

/// A server and the export of its view.
struct World {
    server: Server,
    export: Export,
}

impl World {
    fn new(folder: &Folder, format: ExportFormat) -> Self {
        let export = Export::new(folder.path("out"), format, Schema::envoy()).unwrap();
        Self { server: Server::new(ServerConfig::default(), 7, xds_core::Time::ZERO), export }
    }

    fn apply(&mut self, change: impl FnOnce(&mut Transaction)) {
        let mut transaction = Transaction::new();
        change(&mut transaction);
        self.server.apply(transaction, xds_core::Time::ZERO).unwrap();
    }

    /// Writes the export, and returns the names of the changed files.
    fn write(&mut self) -> Vec<String> {
        let contents = self.server.contents(&ViewName::default());
        let changed = self.export.write(contents.iter()).unwrap();
        let name =
            |path: std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        changed.changed.into_iter().map(name).collect()
    }
}

#[test]
fn each_type_is_exported_to_a_file_that_a_client_can_read() {
    for (format, suffix) in [(ExportFormat::Json, "json"), (ExportFormat::Binary, "pb")] {
        let folder = Folder::new(&format!("export-{suffix}"));
        let mut world = World::new(&folder, format);
        world.apply(|it| {
            it.set(CLUSTER, "b", cluster("b"));
            it.set(CLUSTER, "a", cluster("a"));
            it.set(CLUSTER_LOAD_ASSIGNMENT, "a", endpoints("a"));
        });
        assert_eq!(world.write(), [format!("cds.{suffix}"), format!("eds.{suffix}")]);
        let path = world.export.path_of(&CLUSTER.into());
        let mut reader = Reader::of_clusters(&path);
        let first = reader.next();
        assert_eq!(names_in(&first).unwrap(), ["a", "b"]);
        assert_eq!(response(&first).unwrap().resources[0].value, cluster("a"));

        // The next file lacks the removed resource. A watcher notices the rename.
        world.apply(|it| {
            it.remove(CLUSTER, "a");
        });
        assert_eq!(world.write(), [format!("cds.{suffix}")]);
        reader.wait_for_names(&["b"]);
        // Removal of the last resource of a type.
        world.apply(|it| {
            it.remove(CLUSTER, "b");
        });
        assert_eq!(world.write(), [format!("cds.{suffix}")]);
        reader.wait_for_names(&[]);
    }
    println!("covers: M199 M201");
}

/// A hard link to the old file shows that it was replaced and not overwritten.
#[test]
fn changed_file_is_replaced_and_unchanged_file_is_kept() {
    let folder = Folder::new("export-replace");
    let mut world = World::new(&folder, ExportFormat::Json);
    world.apply(|it| {
        it.set(CLUSTER, "a", cluster("a"));
    });
    world.write();
    let path = world.export.path_of(&CLUSTER.into());
    fs::hard_link(&path, folder.path("old")).unwrap();
    let old = fs::read(&path).unwrap();

    // Nothing changed, in this process or after a restart.
    assert!(world.write().is_empty());
    let mut restarted = World::new(&folder, ExportFormat::Json);
    restarted.apply(|it| {
        it.set(CLUSTER, "a", cluster("a"));
    });
    assert!(restarted.write().is_empty());

    world.apply(|it| {
        it.set(CLUSTER, "b", cluster("b"));
    });
    assert_eq!(world.write(), ["cds.json"]);
    assert_eq!(fs::read(folder.path("old")).unwrap(), old);
    assert_ne!(fs::read(&path).unwrap(), old);
    let left: Vec<_> = fs::read_dir(folder.path("out")).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing is left beside it: {left:?}");
    println!("covers: M200 M202");
}

/// A process that dies before the rename leaves the old file, and a partial new one that is not
/// read.
#[test]
fn crash_during_a_write_keeps_the_old_file_and_its_version() {
    let folder = Folder::new("export-crash");
    let mut world = World::new(&folder, ExportFormat::Binary);
    let state = |it: &mut Transaction| {
        it.set(CLUSTER, "a", cluster("a"));
        it.set(CLUSTER_LOAD_ASSIGNMENT, "a", endpoints("a"));
    };
    world.apply(state);
    world.write();
    let path = world.export.path_of(&CLUSTER.into());
    let version = |path| {
        let bytes = fs::read(path).unwrap();
        DiscoveryResponse::decode(bytes.as_slice()).unwrap().version_info
    };
    let before = version(&path);
    fs::write(folder.path("out/.cds.pb.new"), b"\x0a\xffhalf").unwrap();
    drop(world);
    assert!(matches!(Reader::of_clusters(&path).next(), Content::Response(_)));

    // After the restart there are other endpoints and at first no clusters. The old files are
    // updated.
    let mut world = World::new(&folder, ExportFormat::Binary);
    world.apply(|it| {
        it.set(CLUSTER_LOAD_ASSIGNMENT, "b", endpoints("b"));
    });
    assert_eq!(world.write(), ["cds.pb", "eds.pb"]);
    assert_eq!(names_in(&Reader::of_clusters(&path).next()).unwrap(), [""; 0]);
    world.apply(|it| {
        it.set(CLUSTER, "a", cluster("a"));
    });
    world.write();
    assert_eq!(version(&path), before, "a version is made of what is there");
    println!("covers: M201 M203");
}

#[test]
fn unrelated_files_in_the_directory_are_left_alone() {
    let folder = Folder::new("export-beside");
    fs::create_dir(folder.path("out")).unwrap();
    folder.write("out/mine.json", format!(r#"{{"type_url": "{CLUSTER}", "resources": []}}"#));
    folder.write("out/lds.json", "{");
    let mut world = World::new(&folder, ExportFormat::Json);
    assert!(world.write().is_empty());
    assert_eq!(fs::read(folder.path("out/lds.json")).unwrap(), b"{");
}

/// Returns a cluster with an extension of an unknown type.
fn cluster_with_unknown(name: &str) -> Bytes {
    let text = format!(
        "name: '{name}' transport_socket {{ name: 't' typed_config {{ type_url: 't/acme.Socket' value: '\\n\\001a' }} }}"
    );
    let message = "envoy.config.cluster.v3.Cluster";
    encode_message(Schema::envoy(), "", message, Format::Text, text.as_bytes()).unwrap().into()
}

#[test]
fn unprintable_resource_keeps_last_complete_file_of_its_type() {
    let folder = Folder::new("export-unprintable");
    let mut world = World::new(&folder, ExportFormat::Json);
    world.apply(|it| {
        it.set(CLUSTER, "a", cluster("a"));
        it.set(CLUSTER, "b", cluster("b"));
    });
    world.write();
    let path = world.export.path_of(&CLUSTER.into());
    let complete = fs::read(&path).unwrap();

    world.apply(|it| {
        it.set(CLUSTER, "b", cluster_with_unknown("b"));
        it.set(CLUSTER, "c", cluster("c"));
        it.set(CLUSTER_LOAD_ASSIGNMENT, "a", endpoints("a"));
    });
    let contents = world.server.contents(&ViewName::default());
    let exported = world.export.write(contents.iter()).unwrap();
    assert_eq!(exported.changed, [folder.path("out/eds.json")], "other types are exported");
    let [why] = &exported.unprintable[..] else { panic!("{exported:?}") };
    assert_eq!(
        why.to_string(),
        format!(
            "the resource `b` of type `{CLUSTER}` cannot be exported, the file of this type is \
             unchanged: transport_socket.typed_config: an `Any` cannot be written as JSON or YAML: \
             the type `t/acme.Socket` is not in the schema"
        )
    );
    assert_eq!(fs::read(&path).unwrap(), complete);

    // After a restart the file is kept too.
    let mut restarted = World::new(&folder, ExportFormat::Json);
    restarted.apply(|it| {
        it.set(CLUSTER, "b", cluster_with_unknown("b"));
    });
    assert_eq!(restarted.write(), ["eds.json"], "of which nothing is left");
    assert_eq!(fs::read(&path).unwrap(), complete);

    // After the resource is repaired, the file has all resources.
    world.apply(|it| {
        it.set(CLUSTER, "b", cluster("b"));
    });
    world.write();
    assert_eq!(names_in(&Reader::of_clusters(&path).next()).unwrap(), ["a", "b", "c"]);
}

#[test]
fn first_file_of_a_type_is_written_without_its_unprintable_resources() {
    let folder = Folder::new("export-unprintable-first");
    let mut world = World::new(&folder, ExportFormat::Json);
    world.apply(|it| {
        it.set(CLUSTER, "a", cluster("a"));
        it.set(CLUSTER, "b", cluster_with_unknown("b"));
        // Bytes that do not decode are treated in the same way.
        it.set(CLUSTER, "c", b"\x0a\xff".as_slice());
        // connect_timeout { seconds: 2^40 }, which JSON cannot represent.
        it.set(CLUSTER, "e", b"\x0a\x01e\x22\x07\x08\x80\x80\x80\x80\x80\x20".as_slice());
    });
    let contents = world.server.contents(&ViewName::default());
    let exported = world.export.write(contents.iter()).unwrap();
    assert_eq!(exported.changed, [folder.path("out/cds.json")]);
    let left_out: Vec<_> =
        exported.unprintable.iter().map(|it| (it.name.as_str(), it.file)).collect();
    assert_eq!(left_out, ["b", "c", "e"].map(|name| (name, FileState::WithoutResource)));
    let path = world.export.path_of(&CLUSTER.into());
    let mut reader = Reader::of_clusters(&path);
    assert_eq!(names_in(&reader.next()).unwrap(), ["a"]);

    // A resource that was never in the file is not lost by a new file without it.
    world.apply(|it| {
        it.set(CLUSTER, "d", cluster("d"));
    });
    assert_eq!(world.write(), ["cds.json"]);
    reader.wait_for_names(&["a", "d"]);
    // The behaviour is the same after a restart.
    let server = world.server;
    world = World { server, ..World::new(&folder, ExportFormat::Json) };
    world.apply(|it| {
        it.remove(CLUSTER, "d");
        it.set(CLUSTER, "f", cluster("f"));
    });
    assert_eq!(world.write(), ["cds.json"]);
    reader.wait_for_names(&["a", "f"]);
    // A resource that was in the file keeps it unchanged.
    world.apply(|it| {
        it.set(CLUSTER, "a", cluster_with_unknown("a"));
    });
    assert!(world.write().is_empty());
}

#[cfg(unix)]
#[test]
fn kept_file_with_a_secret_loses_permissions_of_others() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = Folder::new("export-kept-mode");
    let mut world = World::new(&folder, ExportFormat::Json);
    let secret = r#"{"name": "s", "generic_secret": {"secret": {"inline_string": "hush"}}}"#;
    let secret = encoded("extensions.transport_sockets.tls.v3.Secret", secret);
    world.apply(|it| {
        it.set(SECRET, "s", secret);
        it.set(CLUSTER, "a", cluster("a"));
    });
    world.write();
    let paths = [folder.path("out/sds.json"), folder.path("out/cds.json")];
    let before = paths.each_ref().map(|path| fs::read(path).unwrap());
    for path in &paths {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    // Neither file can be written, before and after a restart.
    let server = world.server;
    world = World { server, ..World::new(&folder, ExportFormat::Json) };
    world.apply(|it| {
        it.set(SECRET, "s", b"\xff".as_slice());
        it.set(CLUSTER, "a", cluster_with_unknown("a"));
    });
    assert!(world.write().is_empty());
    assert_eq!(paths.each_ref().map(|path| fs::read(path).unwrap()), before);
    let modes = paths.map(|path| fs::metadata(path).unwrap().permissions().mode() & 0o777);
    assert_eq!(modes, [0o600, 0o644], "what is in the file counts");
}

#[test]
fn binary_export_includes_types_that_the_schema_lacks() {
    let folder = Folder::new("export-unknown-binary");
    let mut world = World::new(&folder, ExportFormat::Binary);
    world.apply(|it| {
        it.set(CLUSTER, "b", cluster_with_unknown("b"));
    });
    assert_eq!(world.write(), ["cds.pb"]);
    let response = fs::read(folder.path("out/cds.pb")).unwrap();
    let response = DiscoveryResponse::decode(response.as_slice()).unwrap();
    assert_eq!(response.resources[0].value, cluster_with_unknown("b"));
}

/// Types that the schema lacks, and names that are not in the bytes.
#[test]
fn opaque_resources_keep_their_names() {
    let folder = Folder::new("export-opaque");
    let mut export =
        Export::new(folder.path("out"), ExportFormat::Binary, Schema::envoy()).unwrap();
    let unknown = TypeUrl::from("other.example/a.B");
    let (name, bytes) = (ResourceName::from("x"), Bytes::from_static(b"\xff"));
    let changed = export.write([(&unknown, &name, &bytes)]).unwrap().changed;
    assert_eq!(changed, [folder.path("out/other.example%2Fa.B.pb")]);
    let response = fs::read(&changed[0]).unwrap();
    let response = DiscoveryResponse::decode(response.as_slice()).unwrap();
    let wrapper = xds_core::proto::Resource::decode(response.resources[0].value.clone()).unwrap();
    assert_eq!((&*wrapper.name, wrapper.resource.unwrap().value), ("x", bytes));
}

#[test]
fn secrets_are_exported_in_plain_text() {
    let folder = Folder::new("export-secret");
    let mut world = World::new(&folder, ExportFormat::Json);
    let json = r#"{"name": "s", "generic_secret": {"secret": {"inline_string": "hush"}}}"#;
    let secret = encoded("extensions.transport_sockets.tls.v3.Secret", json);
    world.apply(|it| {
        it.set(SECRET, "s", secret);
    });
    world.write();
    let text = fs::read_to_string(world.export.path_of(&SECRET.into())).unwrap();
    assert!(text.contains("hush"), "{text}");
}

#[test]
fn unwritable_file_does_not_prevent_other_files() {
    let folder = Folder::new("export-in-the-way");
    let mut world = World::new(&folder, ExportFormat::Json);
    fs::create_dir(folder.path("out/cds.json")).unwrap();
    world.apply(|it| {
        it.set(CLUSTER, "a", cluster("a"));
        it.set(CLUSTER_LOAD_ASSIGNMENT, "a", endpoints("a"));
    });
    let contents = world.server.contents(&ViewName::default());
    let why = world.export.write(contents.iter()).unwrap_err().to_string();
    assert!(why.contains("cds.json"), "{why}");
    assert!(folder.path("out/eds.json").is_file());
}

/// The mode of a file depends on its content, not on the file that it replaces.
#[cfg(unix)]
#[test]
fn files_with_secrets_are_readable_by_their_owner_only() {
    use std::{os::unix::fs::PermissionsExt as _, path::Path};

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    for (format, suffix) in [(ExportFormat::Json, "json"), (ExportFormat::Binary, "pb")] {
        let folder = Folder::new(&format!("export-modes-{suffix}"));
        let mut world = World::new(&folder, format);
        assert_eq!(
            (mode(&folder.path("out")), world.export.open_to_others().unwrap()),
            (0o700, None)
        );
        let secret = r#"{"name": "s", "generic_secret": {"secret": {"inline_string": "hush"}}}"#;
        let secret = encoded("extensions.transport_sockets.tls.v3.Secret", secret);
        let with_key = r#"{"name": "a", "transport_socket": {"name": "tls", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {"tls_certificates": [{"private_key": {"inline_string": "hush"}}]}}}}"#;
        let with_key = encoded("config.cluster.v3.Cluster", with_key);
        world.apply(|it| {
            it.set(SECRET, "s", secret);
            it.set(CLUSTER, "a", cluster("a"));
        });
        // A file left behind by a crash, readable by all.
        folder.write(&format!("out/.sds.{suffix}.new"), "");
        open(&folder.path(&format!("out/.sds.{suffix}.new")));
        world.write();
        let path = |stem: &str| folder.path(&format!("out/{stem}.{suffix}"));
        let usual = mode(&path("cds"));
        assert_ne!(usual & 0o077, 0, "as the umask has it");
        assert_eq!(mode(&path("sds")), 0o600);

        // A private key within a cluster is a secret too.
        world.apply(|it| {
            it.set(CLUSTER, "a", with_key);
        });
        world.write();
        assert_eq!(mode(&path("cds")), 0o600);
        world.apply(|it| {
            it.set(CLUSTER, "a", cluster("a"));
        });
        world.write();
        assert_eq!(mode(&path("cds")), usual);

        // An existing file with the same content that others can read.
        open(&path("sds"));
        assert_eq!(world.write(), [format!("sds.{suffix}")]);
        assert_eq!(mode(&path("sds")), 0o600);
        assert!(world.write().is_empty());

        // An existing directory keeps its mode, which is reported.
        fs::set_permissions(folder.path("out"), fs::Permissions::from_mode(0o755)).unwrap();
        let world = World::new(&folder, format);
        assert_eq!(world.export.open_to_others().unwrap(), Some(0o755));
    }
}
