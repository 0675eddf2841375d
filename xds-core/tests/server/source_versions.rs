//! Versions with the revision of a source: `<revision>-<hash>`.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};
use xds_core::{
    Time,
    server::{Server, ServerConfig, Transaction, VersionMode},
};

use crate::support::{Rig, every_type, payload, url};

fn by_content() -> ServerConfig {
    every_type(|it| it.versions = VersionMode::Content)
}

fn rig() -> Rig {
    Rig::new(by_content())
}

/// Version that was sent last of a type on the first stream that has it.
fn sent(rig: &Rig, short: &str) -> String {
    let mut of_type = rig.server.status().filter(|it| it.type_url.as_str() == url(short));
    of_type.find_map(|it| it.sent_version.map(|it| it.to_string())).unwrap_or_default()
}

/// Source revision in the version of each resource of an incremental response.
fn resource_versions(rig: &mut Rig) -> Vec<String> {
    let received = rig.receive(1).expect("a response");
    let crate::support::Response::Incremental(response) = received.response else {
        panic!("an incremental response")
    };
    let mut versions: Vec<_> = response
        .resources
        .into_iter()
        .map(|it| format!("{} {}", it.name, it.version.split_once('-').map_or("", |it| it.0)))
        .collect();
    versions.sort();
    versions
}

// M72
#[test]
fn version_of_a_type_has_the_revision_of_its_last_change() {
    let mut rig = rig();
    rig.run("at 5\nset cds a=1\nat 7\nset eds x=1\nreached 7\n> cds\n< cds first a=1");
    assert!(sent(&rig, "cds").starts_with("5-"), "{}", sent(&rig, "cds"));
    rig.run("> cds\nat 8\nset cds b=1\n< cds changed a=1 b=1\n> cds");
    assert!(sent(&rig, "cds").starts_with("8-"));
    // A removal counts.
    rig.run("at 9\nset cds -b\n< cds changed a=1\n> cds");
    assert!(sent(&rig, "cds").starts_with("9-"));
    println!("covers: M72");
}

#[test]
fn version_of_a_resource_has_the_revision_of_its_last_change() {
    let mut rig = rig();
    rig.run("at 5\nset cds a=1 b=1\nat 7\nset cds b=2\n1d> cds +*");
    assert_eq!(resource_versions(&mut rig), ["a 5", "b 7"]);
    // Equal content that was written anew is not sent, and has the new revision.
    rig.run("d> cds ack\nat 9\nset cds a=1\nd<\nclose\n1d> cds +*");
    assert_eq!(resource_versions(&mut rig), ["a 9", "b 7"]);
    println!("covers: M72");
}

#[test]
fn without_a_revision_the_version_is_the_hash() {
    let mut rig = rig();
    rig.run("set cds a=1\n> cds\n< cds first a=1");
    assert_eq!(sent(&rig, "cds").len(), 16);
    assert!(!sent(&rig, "cds").contains('-'));
}

/// Layers show the revisions of the resources below.
#[test]
fn layered_view_has_the_revisions_of_its_layers() {
    let mut rig = rig();
    rig.run("at 5\nset @low cds a=1 b=1\nlayers top high low\nat 6\nset @high cds b=2");
    let mut config = by_content();
    config.admission = xds_core::server::Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run(
        "at 5\nset @low cds a=1 b=1\nlayers top high low\nat 6\nset @high cds b=2\n1d> cds +*\n\
         assign 1 top",
    );
    assert_eq!(resource_versions(&mut rig), ["a 5", "b 6"]);
}

/// Only the hash decides whether a client that moves is current.
#[test]
fn equal_content_is_not_sent_again_whatever_the_revision() {
    let mut first = rig();
    first.run(
        "at 5\nset cds a=1\nat 7\nset cds b=1 c=1\nat 8\nset cds -c\n> cds\n< cds first a=1 b=1",
    );
    let version = sent(&first, "cds");
    // The second server has read all at once.
    let mut second = rig();
    second.run(&format!("at 8\nset cds a=1 b=1\nreached 8\n> cds version:{version}\n<"));
    second.run("> cds\n<\nat 9\nset cds a=2\n< cds changed a=2 b=1");
    // A version of a server without a source has the same hash.
    let hash = version.split_once('-').expect("a revision").1;
    second.run("at 10\nset cds a=1");
    second.run(&format!("2> cds version:{hash}\n2<"));
    println!("covers: M72 M41");
}

#[test]
fn incremental_client_is_sent_only_what_differs_at_another_server() {
    let mut first = rig();
    first.run("at 5\nset cds a=1 b=1\n1d> cds +*");
    let received = first.receive(1).expect("a response");
    let crate::support::Response::Incremental(response) = received.response else { panic!() };
    let has: String =
        response.resources.iter().map(|it| format!(" has:{}@{}", it.name, it.version)).collect();
    let mut second = rig();
    second.run("at 6\nset cds a=1 b=2\nreached 6");
    second.run(&format!("d> cds +*{has}\nd< cds first b=2"));
    println!("covers: M72 M125");
}

#[test]
fn foreign_version_is_not_mistaken_for_the_hash_in_it() {
    let mut rig = rig();
    rig.run("at 5\nset cds a=1\n> cds\n< cds first a=1");
    let hash = sent(&rig, "cds").split_once('-').expect("a revision").1.to_owned();
    for foreign in [format!("x-{hash}"), format!("-{hash}"), format!("5-5-{hash}")] {
        rig.run(&format!("2> cds version:{foreign}\n2< cds first a=1\n2close"));
    }
}

/// Change of a source: the value of a name, or its removal.
type Step = Vec<(u8, Option<u8>)>;

fn apply_list(server: &mut Server, revision: u64, state: &BTreeMap<u8, (u8, u64)>) {
    let mut list = Transaction::snapshot("");
    list.source_revision(revision);
    for (name, (value, changed_at)) in state {
        let name = format!("r{name}");
        let bytes = payload(&name, &value.to_string());
        list.set(&*url("cds"), &*name, bytes).changed_at(*changed_at);
    }
    server.apply(list, Time::ZERO).expect("a valid list");
    server.source_reached(revision, Time::ZERO);
}

fn resource_texts(server: &mut Server) -> Vec<(String, String)> {
    use prost::Message as _;
    use xds_core::{
        Frame,
        proto::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node},
        server::{StreamEvent, StreamKind, Variant},
    };
    let kind = StreamKind::Aggregated(Variant::Incremental);
    let stream = server.accept(kind, Time::ZERO).expect("a stream");
    let request = DeltaDiscoveryRequest {
        node: Some(Node { id: "n".into(), ..Node::default() }),
        type_url: url("cds"),
        resource_names_subscribe: vec!["*".into()],
        ..DeltaDiscoveryRequest::default()
    };
    server.handle_event(StreamEvent::Message(stream, request.encode_to_vec().into()), Time::ZERO);
    while server.poll_output().is_some() {}
    let mut frame = Frame::default();
    if server.poll_transmit(stream, Time::ZERO, &mut frame).is_none() {
        return Vec::new();
    }
    let response = DeltaDiscoveryResponse::decode(frame.to_bytes()).expect("a response");
    let mut texts: Vec<_> =
        response.resources.into_iter().map(|it| (it.name, it.version)).collect();
    texts.sort();
    texts
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// A server that has watched each change and one that has read the source late state the same
    /// versions of resources, and the same hash of the type.
    #[test]
    fn versions_do_not_depend_on_how_the_source_was_read(
        steps in vec(vec((0..4u8, proptest::option::of(0..3u8)), 1..3), 1..20),
        relist in proptest::option::of(0..20usize),
    ) {
        let steps: Vec<Step> = steps;
        let config = by_content();
        let mut watching = Server::new(config.clone(), 1, Time::ZERO);
        let mut state: BTreeMap<u8, (u8, u64)> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            let revision = at as u64 + 1;
            let mut change = Transaction::new();
            change.source_revision(revision);
            for (name, value) in step {
                let text = format!("r{name}");
                match value {
                    Some(value) => {
                        state.insert(*name, (*value, revision));
                        change.set(&*url("cds"), &*text, payload(&text, &value.to_string()));
                    }
                    None => {
                        state.remove(name);
                        change.remove(&*url("cds"), &*text);
                    }
                }
            }
            watching.apply(change, Time::ZERO).expect("a valid change");
            if relist == Some(at) {
                apply_list(&mut watching, revision, &state);
            }
        }
        let mut late = Server::new(config, 2, Time::ZERO);
        apply_list(&mut late, steps.len() as u64, &state);

        let hash = |server: &Server| {
            let version = server.version(&url("cds")).map(|it| it.to_string());
            version.map(|it| it.rsplit_once('-').expect("a revision").1.to_owned())
        };
        prop_assert_eq!(hash(&watching), hash(&late));
        prop_assert_eq!(resource_texts(&mut watching), resource_texts(&mut late));
    }
}
