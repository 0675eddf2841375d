//! Contents of files, and errors of unusable files.

use crate::support::{Folder, Reader, clusters, noticing, response};
use prost::Message as _;
use xds_core::{proto::DiscoveryResponse, types};

fn clusters_in(folder: &Folder, name: &str, content: impl AsRef<[u8]>) -> DiscoveryResponse {
    folder.write(name, content);
    let mut reader = Reader::of_clusters(&folder.path(name));
    let content = reader.next();
    response(&content).unwrap_or_else(|| panic!("{name}: {content:?}"))
}

fn read_error(folder: &Folder, name: &str, content: impl AsRef<[u8]>) -> String {
    folder.write(name, content);
    let why = Reader::of_clusters(&folder.path(name)).wait_for_trouble();
    let path = folder.path(name);
    let without_path = why.strip_prefix(path.to_str().unwrap());
    without_path.unwrap_or_else(|| panic!("{why} does not begin with the path")).to_owned()
}

#[test]
fn all_formats_decode_to_the_same_response() {
    let folder = Folder::new("formats");
    let url = types::CLUSTER;
    let yaml = clusters_in(&folder, "cds.yaml", clusters(&["a"]));
    assert_eq!((yaml.version_info.as_str(), yaml.type_url.as_str()), ("v", url));
    let json =
        format!(r#"{{"version_info": "v", "resources": [{{"@type": "{url}", "name": "a"}}]}}"#);
    let text = format!(r#"version_info: "v" resources {{ [{url}] {{ name: "a" }} }}"#);
    assert_eq!(clusters_in(&folder, "cds.yml", clusters(&["a"])), yaml);
    assert_eq!(clusters_in(&folder, "cds.json", json), yaml);
    assert_eq!(clusters_in(&folder, "cds.pb_text", text), yaml);
    assert_eq!(clusters_in(&folder, "cds.pb", yaml.encode_to_vec()), yaml);
    let why = read_error(&folder, "cds.conf", clusters(&["a"]));
    assert!(why.contains("suffix"), "{why}");
    println!("covers: S0.012 S0.013 S0.014 S0.015 S0.016 FS-12");
}

#[test]
fn one_list_may_hold_resources_of_all_types() {
    let folder = Folder::new("list");
    let list = format!(
        "- {{'@type': {}, name: a}}\n- {{'@type': {}, cluster_name: b}}\n",
        types::CLUSTER,
        types::CLUSTER_LOAD_ASSIGNMENT
    );
    folder.write("all.yaml", &list);
    for (type_url, name) in [(types::CLUSTER, "a"), (types::CLUSTER_LOAD_ASSIGNMENT, "b")] {
        Reader::of(&folder.path("all.yaml"), type_url, noticing()).wait_for_names(&[name]);
    }
    Reader::of(&folder.path("all.yaml"), types::LISTENER, noticing()).wait_for_names(&[]);
}

#[test]
fn response_with_another_type_url_is_rejected() {
    let folder = Folder::new("type");
    let stated = format!("type_url: {}\nresources: []\n", types::LISTENER);
    let why = read_error(&folder, "cds.yaml", stated);
    assert!(why.contains("Listener") && why.contains("Cluster"), "{why}");
    // A resource of another type in a response is not ignored: the client rejects it.
    let mixed = format!("resources:\n- {{'@type': {}, name: a}}\n", types::LISTENER);
    let response = clusters_in(&folder, "mixed.yaml", mixed);
    assert_eq!((response.resources.len(), response.type_url.as_str()), (1, ""));
}

#[test]
fn version_without_version_info_is_derived_from_the_content() {
    let folder = Folder::new("version");
    let without = |name: &str| clusters(&[name]).replace("version_info: v\n", "");
    let [a, b] =
        ["a", "b"].map(|name| clusters_in(&folder, "cds.yaml", without(name)).version_info);
    assert!(a.len() == 16 && b.len() == 16 && a != b, "{a} {b}");
    assert_eq!(clusters_in(&folder, "cds.yaml", without("a")).version_info, a);
}

#[test]
fn ttl_in_a_file_is_ignored() {
    let folder = Folder::new("ttl");
    let wrapped = |ttl: &str| {
        format!(
            "version_info: v\nresources:\n- '@type': type.googleapis.com/envoy.service.discovery.v3.Resource\n  \
             name: a\n  {ttl}\n  resource: {{'@type': {}, name: a}}\n",
            types::CLUSTER
        )
    };
    let with = clusters_in(&folder, "with.yaml", wrapped("ttl: 1s"));
    assert_eq!(with, clusters_in(&folder, "without.yaml", wrapped("version: ''")));
}

#[test]
fn errors_name_the_file_line_and_field() {
    let folder = Folder::new("errors");
    let unknown = clusters(&["a, lb_polcy: MAGLEV"]);
    let why = read_error(&folder, "cds.yaml", unknown);
    assert!(
        why.starts_with(":3:") && why.contains("resources[0]") && why.contains("lb_polcy"),
        "{why}"
    );
    let why = read_error(&folder, "broken.yaml", "resources: [");
    assert!(why.starts_with(":1:"), "{why}");
    assert!(read_error(&folder, "empty.yaml", "").contains("empty"));
    println!("covers: S0.017 FS-06 FS-07");
}

/// If a collection were ignored, the file would appear to have no clusters, and all would be
/// deleted.
#[test]
fn collection_is_rejected() {
    let folder = Folder::new("collection");
    let wrapper = "envoy.service.discovery.v3.Resource";
    let collection = "type.googleapis.com/envoy.config.cluster.v3.ClusterCollection";
    let file = format!(
        "'@type': type.googleapis.com/{wrapper}\nname: all\nresource:\n  '@type': {collection}\n  \
         entries: {{inline_entry: {{name: a, resource: {{'@type': {}, name: a}}}}}}\n",
        types::CLUSTER
    );
    let why = read_error(&folder, "cds.yaml", file);
    assert_eq!(why, format!(": all is a {collection}, and collections are not supported"));
    // The form that Envoy uses: the collection without `@type`.
    let bare = format!("name: all\nresource: {{'@type': {collection}}}\n");
    let why = read_error(&folder, "bare.yaml", bare);
    assert!(why.contains("expected an object with `@type`"), "{why}");
    println!("covers: FS-14");
}

#[test]
fn directory_in_place_of_a_file_is_rejected() {
    let folder = Folder::new("no-file");
    std::fs::create_dir(folder.path("cds.yaml")).unwrap();
    let why = Reader::of_clusters(&folder.path("cds.yaml")).wait_for_trouble();
    assert!(why.contains("expected a regular file"), "{why}");
}
