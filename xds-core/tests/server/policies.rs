//! Policies for behavior that differs between implementations: one test per policy, and the default
//! where no other test covers it.

use crate::support::{Rig, every_type, run_all_with, url};
use xds_core::server::{
    CloseReason, LegacyWildcard, NackDetection, NodeChanged, Observation, ReconnectTrust,
    ServerConfig, ServerOutput, SotwResponse, StatusCode, StreamEvent, TypeConfig, UnknownType,
    WarmedTypes, Warming, WildcardExit,
};

fn closed(rig: &mut Rig) -> Vec<CloseReason> {
    let effects = rig.effects().into_iter();
    let closed = effects.filter_map(|effect| match effect {
        ServerOutput::Close(_, reason) => Some(reason),
        _ => None,
    });
    closed.collect()
}

// M8: types without resources.
#[test]
fn unknown_type_is_error_or_close_by_policy() {
    let mut config = ServerConfig::default();
    config.unknown_type = UnknownType::NotFound;
    config = config.with_type(url("mine"), TypeConfig::of(&url("mine")));
    run_all_with(
        &config,
        &[
            (
                "M8",
                "
                > own x y
                < own first !x=5 !y=5
                > own x y
                > mine x                 # a configured type
                <
                > eds x
                <
                set own x=1              # resources exist now
                < own changed x=1
                > own x y z
                <",
            ),
            ("M8 M127", "d> own +x\nd< own first -x"),
        ],
    );

    config.unknown_type = UnknownType::Close;
    for (variant, x) in [("", "x"), ("d", "+x")] {
        let mut rig = Rig::new(config.clone());
        rig.run(&format!("{variant}> eds {x}\n{variant}> own {x}"));
        let reason = CloseReason::UnknownType { type_url: url("own").as_str().into() };
        assert_eq!(reason.code(), StatusCode::InvalidArgument);
        assert_eq!(closed(&mut rig), [reason]);
        assert_eq!((rig.server.stats().streams, rig.server.stats().subscriptions), (0, 0));
        rig.run(&format!("set own x=1\n2{variant}> own {x}\n2{variant}< own first x=1"));
    }
    println!("covers: M8 IS21 IS23");
}

// M3: a changed node.
#[test]
fn changed_node_closes_stream_by_policy() {
    use prost::Message as _;
    use xds_core::proto::{DiscoveryRequest, Node};

    let mut config = ServerConfig::default();
    config.node_changed = NodeChanged::Close;
    let mut rig = Rig::new(config);
    rig.run("> cds a\n> eds x");
    let node = |id: &str| Some(Node { id: id.into(), ..Node::default() });
    let mut request =
        DiscoveryRequest { node: node("node-1"), type_url: url("rds"), ..Default::default() };
    let stream = rig.stream(1);
    rig.event(StreamEvent::Message(stream, request.encode_to_vec().into()));
    assert_eq!(closed(&mut rig), [], "the same again (M2)");
    request.node = node("another");
    rig.event(StreamEvent::Message(stream, request.encode_to_vec().into()));
    assert_eq!(closed(&mut rig), [CloseReason::NodeChanged]);
    assert_eq!(CloseReason::NodeChanged.code(), StatusCode::InvalidArgument);
    println!("covers: M2 M3 IS19");
}

// M41, M42: versions stated with names on reconnect.
#[test]
fn stated_version_is_trusted_for_same_names() {
    let config = every_type(|it| it.reconnect_trust = ReconnectTrust::SameNames);
    let mut rig = Rig::new(config);
    rig.run("set eds x=1 y=1; lds a=1 b=1\n> eds x y\n< eds first x=1 y=1\n> lds a");
    let lds = rig.receive(1).expect("a response").transmit.version;
    let eds = rig.server.version(&url("eds")).expect("endpoints");
    rig.run(&format!(
        "
        2> eds version:{eds} x y
        2<
        2> lds version:{lds} a
        2<
        set lds b=2              # the version of the held resources
        3> lds version:{lds} a
        3<
        3> lds a b
        3< lds resubscribed a=1 b=2
        4> lds version:{lds} a b # other names
        4< lds first a=1 b=2
        5> lds version:{lds}
        5< lds first a=1 b=2
        set eds x=2
        2< eds changed x=2
        6> eds version:{eds} x y
        6< eds first x=2 y=1
        set lds a=2
        2< lds changed a=2
        3> lds a b
        3< lds changed a=2 b=2
        "
    ));
    let status = rig.server.status().find(|status| status.node_id == "node-2");
    assert!(status.is_some_and(|status| status.acked_version.is_some()), "on the client's word");
    println!("covers: M41 M42 S0.100");
}

// M75: complete responses, still without removals.
#[test]
fn always_full_policy_sends_complete_responses() {
    run_all_with(
        &every_type(|it| {
            if it.sotw_response == SotwResponse::Changes {
                it.sotw_response = SotwResponse::AlwaysFull;
            }
        }),
        &[
            (
                "M75 M77",
                "
                set eds x=1 y=1 z=1
                > eds x y
                < eds first x=1 y=1
                > eds x y
                set eds x=2
                < eds changed x=2 y=1
                > eds x y
                set eds -x z=2
                <
                > eds x y z
                < eds resubscribed y=1 z=2
                > eds x y z
                set eds x=2
                < eds changed x=2 y=1 z=2",
            ),
            (
                "M75 M77",
                "
                > eds *
                <                        # absence means nothing here
                set eds x=1 y=1
                < eds first x=1 y=1
                > eds *
                set eds -x
                <
                set eds z=1
                < eds changed y=1 z=1
                > eds nack *
                <
                set eds z=2
                < eds changed y=1 z=2",
            ),
        ],
    );
}

// M57, S0.078: clients without `error_detail`.
#[test]
fn version_mismatch_is_nack_by_policy() {
    let mut rig =
        Rig::new(every_type(|it| it.nack_detection = NackDetection::ErrorDetailOrVersion));
    rig.run(
        "
        set eds x=1
        > eds x
        < eds first x=1
        > eds x
        set eds x=bad
        < eds changed x=bad
        ",
    );
    let good = rig.server.status().next().and_then(|status| status.acked_version);
    let good = good.expect("a version");
    rig.observations();
    rig.run(&format!("> eds version:{good} x\n<\n> eds version:{good} x\n<"));
    let nacks: Vec<_> = rig
        .observations()
        .into_iter()
        .filter_map(|observation| match observation {
            Observation::Nacked { code, message, .. } => Some((code, message.to_string())),
            _ => None,
        })
        .collect();
    assert_eq!(nacks, [(2, format!("client still uses version \"{good}\""))]);
    assert_eq!(rig.server.stats().nacks, 1);
    rig.run("set eds x=2\n< eds changed x=2\n> eds x\n<");
    assert_eq!(rig.server.stats().acks, 2);

    // A first response is rejected with an empty version; `error_detail` still counts.
    rig.run("2> eds x\n2< eds first x=2\n2> eds version: x\n2<\nset eds x=3\n2< eds changed x=3");
    assert_eq!(rig.server.stats().nacks, 2);
    rig.run("2> eds nack x\n2<");
    assert_eq!(rig.server.stats().nacks, 3);
    println!("covers: M57 S0.078");
}

// X01: the original protocol.
#[test]
fn wildcard_cannot_be_left_by_policy() {
    run_all_with(
        &every_type(|it| it.wildcard_exit = WildcardExit::Never),
        &[
            (
                "S0.106 S0.139 X01",
                "
                set cds a=1 b=1
                > cds
                < cds first a=1 b=1
                > cds a
                <
                set cds b=2
                < cds changed a=1 b=2
                > cds a
                <",
            ),
            (
                "S0.106 S0.139",
                "
                set cds a=1 b=1
                d> cds
                d< cds first a=1 b=1
                d> cds ack +a -b -*
                d<
                set cds b=2
                d< cds changed b=2",
            ),
            (
                "M24",
                "
                set cds a=1 b=1          # names first, so no wildcard
                > cds a
                < cds first a=1
                > cds b
                < cds resubscribed b=1",
            ),
        ],
    );
}

// M93: no removals are sent.
#[test]
fn leaving_wildcard_sends_no_removals_by_policy() {
    run_all_with(
        &every_type(|it| it.wildcard_exit = WildcardExit::Silent),
        &[(
            "M93 M88",
            "
            set cds a=1 b=1
            d> cds +* +a
            d< cds first a=1 b=1
            d> cds ack -*
            d<
            set cds a=2 b=2
            d< cds changed a=2",
        )],
    );
}

// M32: an empty first list for all types, or for none.
#[test]
fn legacy_wildcard_depends_on_type_policy() {
    run_all_with(
        &every_type(|it| it.legacy_wildcard = LegacyWildcard::Honored),
        &[
            ("M22 M32", "set eds x=1\n> eds\n< eds first x=1"),
            ("M86", "set eds x=1\nd> eds\nd< eds first x=1"),
        ],
    );
    run_all_with(
        &every_type(|it| it.legacy_wildcard = LegacyWildcard::Ignored),
        &[
            ("M32", "set cds x=1\n> cds\n<\n> cds *\n< cds first x=1"),
            ("M86 M32", "set cds x=1\nd> cds\nd<\nd> cds +*\nd< cds first x=1"),
        ],
    );
}

// M151, M152: endpoints after accepted clusters.
#[test]
fn endpoints_wait_for_accepted_clusters_by_policy() {
    let mut config = ServerConfig::default();
    config.warming = Warming::AfterAcceptedClusters;
    run_all_with(
        &config,
        &[
            (
                "M151 IS18",
                "
                set cds a=1; eds x=1
                > cds
                < cds first a=1
                > cds
                > eds x
                < eds first x=1
                > eds x
                set cds a=2
                < cds changed a=2
                > eds x                  # before the CDS ACK
                <
                > cds
                < eds warming x=1
                > eds x
                <",
            ),
            (
                "M151 M52",
                "
                set cds a=1; eds x=1
                > cds
                < cds first a=1
                > cds
                > eds x
                < eds first x=1
                > eds x
                set cds a=bad
                < cds changed a=bad
                > cds nack               # NACKed clusters do not warm
                <
                > eds x
                <",
            ),
            (
                "M151",
                "
                set cds x=1 y=1; eds x=1 y=1
                d> cds +*
                d> eds +x +y
                d< cds first x=1 y=1
                d< eds first x=1 y=1
                d> eds ack
                d> cds ack
                d< eds warming x=1 y=1
                d> eds ack
                set cds y=2
                d< cds changed y=2
                d<
                d> cds ack
                d< eds warming y=1
                d> eds ack
                d<",
            ),
            (
                "M151 M116",
                "
                set cds x=1 y=1; eds x=1 y=1
                d> cds +*
                d< cds first x=1 y=1
                d> cds ack
                d> eds +x +y
                d< eds first x=1 y=1
                d> eds ack
                close
                set cds y=2
                2d> cds +* has:x=1 has:y=1
                2d> eds +x +y has:x=1 has:y=1
                2d< cds first y=2
                2d<
                2d> cds ack              # only one of them was sent
                2d< eds first y=1
                2d> eds ack
                2d<",
            ),
        ],
    );
}

// M155: secrets.
#[test]
fn secrets_are_resent_for_warming_by_policy() {
    let mut config = ServerConfig::default();
    run_all_with(
        &config,
        &[(
            "M154 M155",
            "
            set lds l=1; sds s=1; rds r=1
            > lds
            < lds first l=1
            > lds
            > sds s
            < sds first s=1
            > sds s
            > rds r
            < rds first r=1
            > rds r
            set lds l=2
            < lds changed l=2
            > sds s
            > rds r
            <",
        )],
    );
    config.warmed_types = WarmedTypes::EndpointsAndSecrets;
    run_all_with(
        &config,
        &[
            (
                "M155",
                "
                set lds l=1; sds s=1; rds r=1
                > lds
                < lds first l=1
                > lds
                > sds s
                < sds first s=1
                > sds s
                > rds r
                < rds first r=1
                > rds r
                set lds l=2
                < lds changed l=2
                > sds s
                < sds warming s=1
                > sds s
                > rds r                  # routes never are (M154)
                <",
            ),
            (
                "M155",
                "
                set cds a=1; sds s=1 t=1
                d> cds +*
                d> sds +s
                d< cds first a=1
                d< sds first s=1
                d> cds ack
                d> sds ack
                set cds a=2
                d< cds changed a=2
                d< sds warming s=1
                d> sds ack
                d<",
            ),
        ],
    );
}
