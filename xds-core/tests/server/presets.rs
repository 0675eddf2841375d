//! Differences between the presets and the default.

use crate::support::{Rig, run_all_with, url};
use xds_core::server::{CloseReason, ServerConfig, ServerOutput, StreamEvent};

/// Runs the same steps with the default and each preset, and checks each one's answer.
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
fn presets_differ_on_empty_first_list() {
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
fn presets_differ_on_missing_names() {
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
fn presets_differ_on_removals() {
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
fn presets_differ_on_changes() {
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
fn presets_differ_on_leaving_wildcard() {
    let told = "d< cds resubscribed -b";
    each(
        "M93",
        "set cds a=1 b=1\nd> cds +* +a\nd< cds first a=1 b=1\nd> cds ack -*",
        [("default", told), ("envoy", told), ("grpc", told), ("strict", "d<"), ("go", told)],
    );
}

#[test]
fn presets_differ_on_rejected_resources() {
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
fn presets_differ_on_warming() {
    let warmed = "< eds warming x=1";
    each(
        "M151",
        "set cds x=1; eds x=1\n> cds *\n< cds first x=1\n> cds *\n> eds x\n< eds first x=1\n\
         > eds x\nset cds x=2\n< cds changed x=2\n> eds x",
        [("default", warmed), ("envoy", warmed), ("grpc", "<"), ("strict", warmed), ("go", "<")],
    );
}

#[test]
fn presets_differ_on_reconnect() {
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
fn presets_differ_on_nodes() {
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

/// Known behavior of go-control-plane that the preset does not copy.
#[test]
fn go_preset_does_not_copy_known_faults() {
    run_all_with(
        &ServerConfig::go_control_plane_like(),
        &[
            (
                "M52 IS4",
                "
                set cds a=bad; eds x=bad
                > cds
                < cds first a=bad
                > cds nack               # go-control-plane would re-send it forever
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
                > cds * a                # go-control-plane would send a twice
                < cds first a=1 b=1",
            ),
            (
                "M156 M71",
                "
                set eds a=1 b=1
                > eds a                  # go-control-plane would never answer
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
                d> eds +a                # go-control-plane would not answer
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
                > eds nonce: x y         # go-control-plane would drop y
                <
                > eds x y
                < eds resubscribed x=1 y=1
                > eds x y
                > eds nonce:99 x y z     # go-control-plane would answer
                <",
            ),
        ],
    );
}

// M69: go-control-plane's snapshots have versions.
#[test]
fn go_preset_uses_snapshot_versions() {
    let mut rig = Rig::new(ServerConfig::go_control_plane_like());
    rig.run(
        "
        set cds a=1                 # without a version: a content digest
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
