//! Where the presets differ from the default, and from each other: what each answers to the same.

use crate::support::{Rig, run_all_with, url};
use xds_core::server::{CloseReason, ServerConfig, ServerOutput, StreamEvent};

/// Runs the same with each preset and the default: what must come out is the second of each pair.
fn each(covers: &str, steps: &str, cases: [(&str, &str); 5]) {
    let configs = [
        ("default", ServerConfig::default()),
        ("envoy", ServerConfig::envoy()),
        ("grpc", ServerConfig::grpc()),
        ("strict", ServerConfig::strict_spec()),
        ("go", ServerConfig::go_control_plane_like()),
    ];
    for ((name, config), (preset, answer)) in configs.into_iter().zip(cases) {
        assert_eq!(name, preset);
        println!("preset {name}");
        let mut rig = Rig::new(config);
        rig.run(steps);
        rig.run(answer);
    }
    println!("covers: {covers}");
}

#[test]
fn empty_first_lists() {
    each(
        "M22 M32",
        "set cds a=1; eds x=1\n> cds\n> eds",
        [
            ("default", "< cds first a=1\n<"),
            ("envoy", "< cds first a=1\n<"),
            ("grpc", "<"),
            ("strict", "< cds first a=1\n<"),
            ("go", "< cds first a=1\n< eds first x=1"),
        ],
    );
}

#[test]
fn names_that_do_not_exist() {
    each(
        "M39 M173",
        "set eds x=1\n> eds x y",
        [
            ("default", "< eds first x=1"),
            ("envoy", "< eds first x=1"),
            ("grpc", "< eds first x=1 !y=5"),
            ("strict", "< eds first x=1"),
            ("go", "< eds first x=1"),
        ],
    );
    each(
        "M127",
        "d> eds +y",
        [
            ("default", "d< eds first -y"),
            ("envoy", "d< eds first -y"),
            ("grpc", "d< eds first -y"),
            ("strict", "d< eds first -y"),
            ("go", "d<\nwait 60s\nd<\nset eds y=1\nd< eds first y=1"),
        ],
    );
}

#[test]
fn deletions() {
    each(
        "M129 M133",
        "set ecds x=1; eds x=1\nd> ecds +x\nd< ecds first x=1\nd> ecds ack\nd> eds +x\n\
         d< eds first x=1\nd> eds ack\nset ecds -x; eds -x\nd< eds changed -x",
        [
            ("default", "d< ecds changed -x"),
            ("envoy", "d<"),
            ("grpc", "d< ecds changed -x"),
            ("strict", "d< ecds changed -x"),
            ("go", "d< ecds changed -x"),
        ],
    );
    each(
        "M77",
        "set eds x=1 y=1\n> eds x y\n< eds first x=1 y=1\n> eds x y\nset eds -x",
        [
            ("default", "<"),
            ("envoy", "<"),
            ("grpc", "< eds changed !x=5"),
            ("strict", "<"),
            ("go", "< eds changed y=1"),
        ],
    );
}

#[test]
fn changes() {
    each(
        "M75",
        "set eds x=1 y=1\n> eds x y\n< eds first x=1 y=1\n> eds x y\nset eds x=2",
        [
            ("default", "< eds changed x=2"),
            ("envoy", "< eds changed x=2"),
            ("grpc", "< eds changed x=2"),
            ("strict", "< eds changed x=2"),
            ("go", "< eds changed x=2 y=1"),
        ],
    );
}

#[test]
fn leaving_the_wildcard() {
    let told = "d< cds resubscribed -b";
    each(
        "M93",
        "set cds a=1 b=1\nd> cds +* +a\nd< cds first a=1 b=1\nd> cds ack -*",
        [("default", told), ("envoy", told), ("grpc", told), ("strict", "d<"), ("go", told)],
    );
}

#[test]
fn rejected_resources() {
    let all = "d< eds changed x=1 y=bad z=1";
    let one = "d< eds changed z=1\nd> eds ack\nd<";
    each(
        "M52 M54 M106 M107 IS4",
        "set eds x=1 y=bad z=0\nd> eds +x +y +z\nd< eds first x=1 y=bad z=0\nd> eds nack\nd<\n\
         set eds z=1",
        [("default", all), ("envoy", all), ("grpc", all), ("strict", one), ("go", one)],
    );
}

#[test]
fn endpoints_after_clusters() {
    let warmed = "< eds warming x=1";
    each(
        "M151",
        "set cds x=1; eds x=1\n> cds *\n< cds first x=1\n> cds *\n> eds x\n< eds first x=1\n\
         > eds x\nset cds x=2\n< cds changed x=2\n> eds x",
        [("default", warmed), ("envoy", warmed), ("grpc", "<"), ("strict", warmed), ("go", "<")],
    );
}

#[test]
fn coming_back() {
    let configs = [
        (ServerConfig::default(), "< eds first x=1"),
        (ServerConfig::envoy(), "< eds first x=1"),
        (ServerConfig::grpc(), "< eds first x=1"),
        (ServerConfig::strict_spec(), "< eds first x=1"),
        (ServerConfig::go_control_plane_like(), "<"),
    ];
    for (config, answer) in configs {
        let mut rig = Rig::new(config);
        rig.run("set eds x=1");
        let version = rig.server.version(&url("eds")).expect("endpoints");
        rig.run(&format!("> eds version:{version} x\n{answer}"));
    }
    println!("covers: M42");
}

#[test]
fn nodes() {
    use prost::Message as _;
    use xds_core::proto::{DiscoveryRequest, Node};

    let configs = [
        (ServerConfig::default(), [Some(CloseReason::MissingNode), None]),
        (ServerConfig::envoy(), [Some(CloseReason::MissingNode), None]),
        (ServerConfig::grpc(), [Some(CloseReason::MissingNode), None]),
        (
            ServerConfig::strict_spec(),
            [Some(CloseReason::MissingNode), Some(CloseReason::NodeChanged)],
        ),
        (ServerConfig::go_control_plane_like(), [None, None]),
    ];
    for (config, wanted) in configs {
        let closed =
            [&[None][..], &[Some("one"), Some("another")]].map(|nodes: &[Option<&str>]| {
                let mut rig = Rig::new(config.clone());
                let stream = rig.stream(1);
                for node in nodes {
                    let node = node.map(|id| Node { id: id.into(), ..Node::default() });
                    let request =
                        DiscoveryRequest { node, type_url: url("cds"), ..Default::default() };
                    rig.event(StreamEvent::Message(stream, request.encode_to_vec().into()));
                }
                rig.effects().into_iter().find_map(|effect| match effect {
                    ServerOutput::Close(_, reason) => Some(reason),
                    _ => None,
                })
            });
        assert_eq!(closed, wanted);
    }
    println!("covers: M3 M4");
}

/// What go-control-plane was seen to do, and where we do not follow it.
#[test]
fn without_the_loops_of_go_control_plane() {
    run_all_with(
        &ServerConfig::go_control_plane_like(),
        &[
            (
                "M52 IS4",
                "
                set cds a=bad; eds x=bad
                > cds
                < cds first a=bad
                > cds nack               # it would be sent again for ever
                <
                > eds x
                < eds first x=bad
                > eds nack x
                <",
            ),
            (
                "M81",
                "
                set cds a=1 b=1
                > cds * a                # a would come twice
                < cds first a=1 b=1",
            ),
            (
                "M156 M71",
                "
                set eds a=1 b=1
                > eds a                  # it would be silent for ever
                < eds first a=1
                > eds a
                set eds -b
                <
                set eds a=2
                < eds changed a=2",
            ),
            (
                "M96 M97",
                "
                set eds a=1
                d> eds +a
                d< eds first a=1
                d> eds ack
                d> eds +a                # it would be silent
                d< eds resubscribed a=1",
            ),
            (
                "M98 M93",
                "
                set cds a=1 b=1
                d> cds +* -*
                d<
                2d> cds +* +a
                2d< cds first a=1 b=1
                2d> cds ack -*
                2d< cds resubscribed -b",
            ),
            (
                "M60 M61",
                "
                set eds x=1 y=1
                > eds x
                < eds first x=1
                > eds nonce: x y         # it would not hear of y
                <
                > eds x y
                < eds resubscribed x=1 y=1
                > eds x y
                > eds nonce:99 x y z     # it would be answered
                <",
            ),
        ],
    );
}

/// M69: go-control-plane's snapshots come with versions.
#[test]
fn snapshots_of_go_control_plane_have_versions() {
    let mut rig = Rig::new(ServerConfig::go_control_plane_like());
    rig.run(
        "
        set cds a=1                 # and without one they are made of content, as ever
        > cds
        < cds first a=1
        > cds
        set cds v:7 a=2
        < cds changed v:7 a=2
        > cds
        set cds v:8 a=3
        < cds changed v:8 a=3",
    );
    println!("covers: M69");
}
