//! Contents of a view, and previews of its contents after a change.

use crate::support::{Rig, payload, transaction, url};
use xds_core::{
    Time,
    references::Consistency,
    server::{Server, ServerConfig, Transaction, TransactionError, ViewContents},
    types,
};

/// Encodes `Cluster { name, type: EDS }`.
fn cluster(name: &str) -> Vec<u8> {
    let mut bytes = vec![0x0a, u8::try_from(name.len()).unwrap()];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&[0x10, 3]);
    bytes
}

fn endpoints(name: &str) -> Vec<u8> {
    cluster(name)[..name.len() + 2].to_vec()
}

fn server() -> Server {
    Server::new(ServerConfig::default(), 1, Time::ZERO)
}

/// Formats the contents of each view as `view: cds a=1 cds b=2`.
fn shown(contents: &[ViewContents]) -> Vec<String> {
    let of = |view: &ViewContents| {
        let resources = view.iter().map(|(ty, name, payload)| {
            let short = types::short_name(ty.as_str()).unwrap();
            let last = payload.last().map(|&byte| char::from(byte)).unwrap_or_default();
            format!(" {short} {name}={last}")
        });
        format!("{}:{}", view.view(), resources.collect::<String>())
    };
    contents.iter().map(of).collect()
}

fn findings(contents: &[ViewContents]) -> Vec<String> {
    let check = |view: &ViewContents| view.check(&Consistency::default());
    contents.iter().flat_map(check).map(|it| it.to_string()).collect()
}

#[test]
fn preview_reports_dangling_references() {
    let mut rig = Rig::new(ServerConfig::default());
    let mut change = Transaction::new();
    change.set(types::CLUSTER, "a", cluster("a"));
    change.set(types::CLUSTER_LOAD_ASSIGNMENT, "a", endpoints("a"));
    assert_eq!(findings(&rig.server.preview(&change).unwrap()), Vec::<String>::new());
    rig.server.apply(change, rig.now).unwrap();
    rig.run("> eds a");
    assert!(rig.receive(1).is_some());
    rig.run("> eds a");

    let mut change = Transaction::new();
    change.set(types::CLUSTER, "b", cluster("b"));
    change.remove(types::CLUSTER_LOAD_ASSIGNMENT, "a");
    let preview = rig.server.preview(&change).unwrap();
    assert_eq!(
        findings(&preview),
        [
            "cds `a` refers to eds `a`, which is missing",
            "cds `b` refers to eds `b`, which is missing"
        ]
    );
    rig.run("<");
    assert_eq!(rig.server.stats().resources, 2, "nothing was applied");
    assert_eq!(findings(&[rig.server.contents(&"".into())]), Vec::<String>::new());

    rig.server.apply(change, rig.now).unwrap();
    assert_eq!(rig.server.contents(&"".into()), preview[0]);
    println!("covers: M206 B56");
}

#[test]
fn preview_refuses_invalid_transaction() {
    let server = server();
    let refused = server.preview(&transaction("cds *=1"));
    assert_eq!(refused, Err(TransactionError::WildcardName { change: 0 }));
    assert_eq!(server.preview(&Transaction::in_view("v")).unwrap().len(), 1);
    assert_eq!(server.views(), [""], "no view was made");
    println!("covers: M218");
}

#[test]
fn preview_uses_last_change_of_name_and_hides_errors() {
    let mut server = server();
    server.apply(transaction("cds a=1 b=2; eds x=1"), Time::ZERO).unwrap();
    let preview = |changes: &str| shown(&server.preview(&transaction(changes)).unwrap()).remove(0);
    assert_eq!(preview("cds a=3 a=4 -b c=5"), ": cds a=4 cds c=5 eds x=1");
    assert_eq!(preview("cds !a=5"), ": cds b=2 eds x=1");
    assert_eq!(preview("cds -none"), ": cds a=1 cds b=2 eds x=1");
    println!("covers: M219");
}

// M222, M224: a change of a layer is previewed in the views that show it.
#[test]
fn layer_change_is_previewed_in_views_that_show_it() {
    let mut rig = Rig::new(ServerConfig::default());
    rig.run(
        "
        set @base cds a=1 b=1
        set @top cds a=2
        layers over top base
        layers alone base
        set @else cds z=9",
    );
    let server = &rig.server;
    let preview = |changes: &str| shown(&server.preview(&transaction(changes)).unwrap());
    assert_eq!(preview("@base cds a=5 b=5"), ["alone: cds a=5 cds b=5", "over: cds a=2 cds b=5"]);
    assert_eq!(preview("@top cds -a"), ["over: cds a=1 cds b=1"], "what lay below comes up");
    assert_eq!(preview("@top cds !b=5"), ["over: cds a=2"]);
    assert_eq!(preview("@else cds y=1"), ["else: cds y=1 cds z=9"]);
    assert_eq!(shown(&[server.contents(&"over".into())]), ["over: cds a=2 cds b=1"]);
    assert!(server.contents(&"nowhere".into()).is_empty());
    assert_eq!(server.views(), ["", "alone", "base", "else", "over", "top"]);
    println!("covers: M222 M224");
}

#[test]
fn snapshot_can_be_previewed() {
    let mut server = server();
    server.apply(transaction("cds a=1 b=1"), Time::ZERO).unwrap();
    let mut snapshot = Transaction::snapshot("");
    snapshot.set(url("cds"), "b", &b"1"[..]).set(url("eds"), "x", &b"1"[..]);
    let preview = server.preview(&snapshot).unwrap();
    assert_eq!(shown(&preview), [": cds b=1 eds x=1"]);
    server.apply(snapshot, Time::ZERO).unwrap();
    assert_eq!(server.contents(&"".into()), preview[0]);
    println!("covers: M216");
}

// M216: the difference between a snapshot and a copy, and its preview, can be computed apart from
// the server with the same result.
#[test]
fn prepared_preview_equals_direct_preview() {
    let mut rig = Rig::new(ServerConfig::default());
    rig.run("set cds a=1 b=1 c=1; eds !d=5\nset @over cds a=9\nlayers both over base");
    let view = "".into();
    let copy = rig.server.copy_view(&view);
    let snapshot = || {
        let mut snapshot = Transaction::snapshot("");
        snapshot.set(types::CLUSTER, "a", payload("a", "1"));
        snapshot.set(types::CLUSTER, "b", payload("b", "2"));
        snapshot.set(types::CLUSTER_LOAD_ASSIGNMENT, "d", payload("d", "1"));
        snapshot
    };
    let apart = copy.difference(snapshot()).unwrap();
    assert_eq!(apart.len(), 3, "b and d are set, and c is removed: {apart:?}");
    let preview = rig.server.prepare_preview(&apart).unwrap();
    assert!(rig.server.is_unchanged_since(&copy));
    let expected = rig.server.preview(&snapshot()).unwrap();
    assert_eq!(shown(&expected), [": cds a=1 cds b=2 eds d=1"]);
    rig.run("set cds a=7");
    assert!(!rig.server.is_unchanged_since(&copy));
    assert_eq!(preview.contents(), expected, "it is of the moment when it was prepared");
    let applied = rig.server.apply(snapshot(), rig.now).unwrap();
    assert_eq!((applied.changed, applied.removed), (3, 1));
    println!("covers: M216");
}
