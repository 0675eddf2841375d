//! The report of rejected resources for operators.

use crate::support::Rig;
use xds_core::{
    server::{Completeness, RejectionStatus, ServerConfig, ServerLimits},
    types,
};

/// Formats a rejection as `node stream type names count code message`.
fn line(rejection: &RejectionStatus<'_>) -> String {
    let names: Vec<_> = rejection.names.iter().map(|name| name.as_str()).collect();
    let more = if rejection.completeness == Completeness::Truncated { "..." } else { "" };
    let (node, count, message) = (rejection.node_id, rejection.count, rejection.message);
    let stream = rejection.stream.map_or_else(|| "gone".into(), |stream| stream.to_string());
    let short = types::short_name(rejection.type_url.as_str()).unwrap_or("other");
    format!(
        "{node} {stream} {short} {}{more} {count} {} {message}",
        names.join(","),
        rejection.code
    )
}

fn report(rig: &Rig) -> Vec<String> {
    rig.server.rejections().map(|rejection| line(&rejection)).collect()
}

// IS4, B04: the report of an invalid update.
#[test]
fn rejections_are_reported_by_node() {
    let mut rig = Rig::default();
    rig.run(
        "
        set cds a=1 b=1; eds x=1 y=1 z=1
        > cds
        < cds first a=1 b=1
        > cds
        2> eds x y
        2< eds first x=1 y=1
        3d> eds +*
        ",
    );
    rig.run(
        "
        set cds b=2 c=1
        < cds changed a=1 b=2 c=1
        > cds nack
        2> eds nack x y
        ",
    );
    assert_eq!(report(&rig), ["node-1 s0 cds b,c 1 3 bad", "node-2 s1 eds y,x 1 3 bad"]);
    let since = rig.server.rejections().next().expect("a rejection").since;
    rig.run("wait 5s\nset cds b=3\n< cds changed a=1 b=3 c=1\n> cds nack");
    let Some(first) = rig.server.rejections().next() else { panic!("a rejection") };
    assert_eq!((first.since, first.last, first.count), (since, rig.now, 2));
    assert_eq!(first.version, &rig.server.version(types::CLUSTER).expect("a version"));
    assert_eq!(line(&first), "node-1 s0 cds c,b 2 3 bad");

    // In complete responses, too, the new resources are named.
    rig.run("4> cds a b\n4< cds first a=1 b=3\n4> cds a b\nset cds a=5\n4< cds changed a=5 b=3");
    rig.run("4> cds nack a b");
    assert_eq!(report(&rig).pop().expect("a rejection"), "node-4 s3 cds a 1 3 bad");
    rig.run("4close\nset cds a=1\n4> cds a\n4< cds first a=1\n4> cds a");

    // A rejection ends when a replacement is accepted or the subscription ends.
    rig.run("set cds b=4\n< cds changed a=1 b=4 c=1\n> cds\n2> eds z");
    assert_eq!(report(&rig), Vec::<String>::new());
    println!("covers: B04 IS4 M53");
}

#[test]
fn rejection_is_kept_after_stream_end_for_limited_time() {
    let mut rig = Rig::default();
    rig.run("set cds a=1\n> cds\n< cds first a=1\n> cds nack\nwait 5s\nclose");
    assert_eq!(report(&rig), ["node-1 gone cds a 1 3 bad"]);
    // The client reconnects, rejects the resource again, then accepts another version.
    rig.run("> cds\n< cds first a=1");
    assert_eq!(report(&rig), ["node-1 gone cds a 1 3 bad"]);
    rig.run("> cds nack");
    assert_eq!(report(&rig), ["node-1 s0.1 cds a 2 3 bad"]);
    rig.run("close\nset cds a=2\n> cds\n< cds first a=2\n> cds");
    assert_eq!(report(&rig), Vec::<String>::new());

    rig.run("set cds a=3\n< cds changed a=3\n> cds nack\nclose\nwait 599s");
    assert_eq!(report(&rig), ["node-1 gone cds a 1 3 bad"]);
    rig.run("wait 1s");
    assert_eq!(report(&rig), Vec::<String>::new());
    assert_eq!(rig.server.poll_timeout(), None);
    println!("covers: B04 M243");
}

// M242: the report is limited.
#[test]
fn rejection_report_is_limited() {
    let mut limits = ServerLimits::default();
    limits.rejected_names = 2;
    limits.retained_rejections = 3;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run("set eds a=1 b=1 c=1; cds a=1 b=1 c=1");
    for stream in 1..=5 {
        rig.run(&format!("{stream}> eds a b c\n{stream}< eds first a=1 b=1 c=1"));
        rig.run(&format!("{stream}> eds nack a b c"));
    }
    rig.run("6> cds\n6< cds first a=1 b=1 c=1\n6> cds nack");
    let reported = report(&rig);
    assert_eq!(reported.len(), 6);
    assert_eq!(reported[4..], ["node-5 s4 eds c,b... 1 3 bad", "node-6 s5 cds a,b... 1 3 bad"]);
    for stream in 1..=6 {
        rig.run(&format!("{stream}close"));
    }
    let nodes: Vec<_> = rig.server.rejections().map(|it| it.node_id.to_owned()).collect();
    assert_eq!(nodes, ["node-4", "node-5", "node-6"]);
    println!("covers: M241 M242");
}

// M242, M243: a client that reconnects and fails repeatedly takes one place in the report.
#[test]
fn repeated_rejections_of_node_take_one_place() {
    let mut limits = ServerLimits::default();
    limits.retained_rejections = 3;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run("set cds a=1");
    for stream in [1, 2].into_iter().chain([3; 10]) {
        rig.run(&format!(
            "
            {stream}> cds
            {stream}< cds first a=1
            {stream}> cds nack
            {stream}close
            wait 10s
            "
        ));
    }
    let gone = |node: u32, count| format!("node-{node} gone cds a {count} 3 bad");
    assert_eq!(report(&rig), [gone(1, 1), gone(2, 1), gone(3, 10)]);
    // Each rejection is dropped when its own time is over.
    rig.run("wait 480s");
    assert_eq!(report(&rig), [gone(2, 1), gone(3, 10)]);
    rig.run("wait 10s");
    assert_eq!(report(&rig), [gone(3, 10)]);
    rig.run("wait 99s");
    assert_eq!(report(&rig), [gone(3, 10)]);
    rig.run("wait 1s");
    assert_eq!(report(&rig), Vec::<String>::new());
    assert_eq!(rig.server.poll_timeout(), None, "nothing is left to be forgotten");

    // Two streams of one node take one place, and none after an ACK.
    let say = |rig: &mut Rig, stream: u32, ack: &str| {
        let id = rig.stream(stream);
        rig.message(id, &crate::support::request_of("twice", "cds"));
        rig.run(&format!("{stream}< cds first a=1\n{stream}> cds {ack}"));
    };
    say(&mut rig, 1, "nack");
    say(&mut rig, 2, "nack");
    rig.run("close\nwait 1s\n2close");
    assert_eq!(report(&rig), ["twice gone cds a 1 3 bad"]);
    say(&mut rig, 1, "");
    assert_eq!(report(&rig), Vec::<String>::new());
    assert_eq!(rig.server.poll_timeout(), None);
    println!("covers: M242 M243 B04");
}
