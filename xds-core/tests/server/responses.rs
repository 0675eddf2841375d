//! First responses, and the content of responses.

use crate::support::{Response, Rig, run_all, run_all_with, url};
use xds_core::server::{ReconnectTrust, ServerConfig, SotwResponse, TypeConfig};

#[test]
fn first_response_is_sent_when_due() {
    run_all(&[
        (
            "M37",
            "
            set lds l=1
            > lds l
            < lds first l=1
        ",
        ),
        (
            "M38 M71",
            "
            > lds l
            > rds r
            <
            set rds r=1
            < rds first r=1
            set lds l=1
            < lds first l=1
        ",
        ),
        (
            "M39",
            "
            set eds x=1
            > eds y
            <
            set eds z=1
            <
            set eds y=1
            < eds first y=1
        ",
        ),
        (
            "M40 M63",
            "
            > cds
            < cds first
            > cds
            <
            set cds a=1
            < cds changed a=1
        ",
        ),
        (
            "M40",
            "
            > eds *               # an empty response means something for complete types only
            <
            set eds x=1
            < eds first x=1
        ",
        ),
        (
            "M43",
            "
            set eds x=1
            > eds nonce:1 version:whatever x
            < eds first x=1
            > eds x
            <
        ",
        ),
        (
            "M42",
            "
            set eds x=1
            > eds x
            < eds first x=1
            > eds x
            2> eds version:d34db33fd34db33f x
            2< eds first x=1
        ",
        ),
    ]);
}

// M84: creation order in complete responses, change order in others, whatever the seed.
#[test]
fn resource_order_is_independent_of_seed() {
    let received = |rig: &mut Rig| rig.receive(1).expect("a response").resources();
    for seed in 0..8 {
        let mut rig = Rig::seeded(ServerConfig::default(), seed);
        rig.run("set cds c=1 a=1 b=1\nset cds a=2\n> cds");
        assert_eq!(received(&mut rig), ["c=1", "a=2", "b=1"]);
        let mut rig = Rig::seeded(ServerConfig::default(), seed);
        rig.run("set eds c=1 a=1 b=1\nset eds a=2\n> eds *");
        assert_eq!(received(&mut rig), ["c=1", "b=1", "a=2"]);
        let mut rig = Rig::seeded(ServerConfig::default(), seed);
        rig.run("set eds c=1 a=1 b=1\nset eds a=2\nd> eds +*");
        assert_eq!(received(&mut rig), ["c=1", "b=1", "a=2"]);
        let mut rig = Rig::seeded(ServerConfig::default(), seed);
        rig.run("set eds c=1 a=1 b=1\nd> eds +b +z +c +y +a");
        assert_eq!(received(&mut rig), ["b=1", "c=1", "a=1", "-z", "-y"]);
    }
    println!("covers: M84 IS34");
}

// M82: a response has one type, which every resource states.
#[test]
fn response_has_resources_of_one_type() {
    for requests in ["> cds\n> eds x", "d> cds +*\nd> eds +x"] {
        let mut rig = Rig::script(&format!("set cds x=1 y=1; eds x=1\n{requests}"));
        let mut seen = Vec::new();
        while let Some(received) = rig.receive(1) {
            let type_urls: Vec<_> = match &received.response {
                Response::StateOfTheWorld(response) => {
                    response.resources.iter().map(|any| any.type_url.clone()).collect()
                }
                Response::Incremental(response) => {
                    let bodies = response.resources.iter().flat_map(|it| &it.resource);
                    bodies.map(|any| any.type_url.clone()).collect()
                }
            };
            let stated = received.transmit.type_url.to_string();
            assert!(!type_urls.is_empty() && type_urls.iter().all(|it| *it == stated));
            seen.push(stated);
        }
        assert_eq!(seen, [url("cds"), url("eds")]);
    }
    println!("covers: M82");
}

// M41, B06: a version is trusted only for the wildcard alone, and only if current.
#[test]
fn stated_version_is_trusted_for_wildcard_only() {
    let mut rig = Rig::script("set cds a=1 b=1; eds x=1");
    let version = rig.server.version(&url("cds")).expect("clusters").to_string();
    rig.run(&format!(
        "
        > cds version:{version}
        <
        > cds
        <
        set cds a=2
        < cds changed a=2 b=1
    "
    ));
    let version = rig.server.version(&url("cds")).expect("clusters").to_string();
    rig.run(&format!(
        "
        2> cds version:{version}0
        2< cds first a=2 b=1
        3> cds version:{version} a
        3< cds first a=2
        4> cds version:{version} * a
        4< cds first a=2 b=1
        5> cds version:{version} *
        5<
        5> cds * b                   # a later request proves nothing
        5< cds resubscribed a=2 b=1
    "
    ));

    // A client that had names and returns with the wildcard gets everything (B06): the version of a
    // part is not that of the whole.
    rig.run("6> cds a\n6< cds first a=2\n6> cds a");
    let part = rig.server.status().last().and_then(|status| status.acked_version);
    let part = part.expect("a version");
    rig.run(&format!("7> cds version:{part} *\n7< cds first a=2 b=1"));

    let mut config = ServerConfig::default();
    config = config.with_every_type(|it| it.reconnect_trust = ReconnectTrust::Never);
    let mut rig = Rig::new(config);
    rig.run("set cds a=2 b=1");
    rig.run(&format!(
        "
        > cds version:{version}
        < cds first a=2 b=1
    "
    ));
}

#[test]
fn response_content_depends_on_type() {
    run_all(&[
        (
            "M74 IS9 S0.031 S0.033 S0.113 S0.126",
            "
            set cds a=1 b=1 c=1
            > cds
            < cds first a=1 b=1 c=1
            > cds
            set cds b=2
            < cds changed a=1 b=2 c=1
        ",
        ),
        (
            "M75 S0.111",
            "
            set eds x=1 y=1
            > eds x y
            < eds first x=1 y=1
            > eds x y
            set eds y=2
            < eds changed y=2
        ",
        ),
        (
            "M76 S0.112",
            "
            set cds a=1 b=1
            > cds
            < cds first a=1 b=1
            > cds
            set cds -a
            < cds changed b=1
            > cds
            set cds -b
            < cds changed
            > lds a
            <
            set lds a=1
            < lds first a=1
            > lds a
            set lds -a
            < lds changed
            > lds a
            set lds a=1
            < lds changed a=1
        ",
        ),
        (
            "M77 S0.122",
            "
            set eds x=1 y=1
            > eds x y
            < eds first x=1 y=1
            > eds x y
            set eds -x
            <
            set eds x=2
            < eds changed x=2
        ",
        ),
        (
            "M78",
            "
            set lds a=1
            > lds a
            < lds first a=1
            > lds a
            set lds -a
            set lds a=1
            < lds changed a=1
            > lds a
            <
        ",
        ),
        (
            "M79 S0.126 S0.141",
            "
            set lds a=1 b=1 c=1
            > lds a b missing
            < lds first a=1 b=1
            > lds a b missing
            set lds c=2
            <
            set lds -c
            <
            set lds a=2
            < lds changed a=2 b=1
        ",
        ),
        (
            "M67",
            "
            set eds x=1 y=1
            > eds x y
            < eds first x=1 y=1
            > eds x y
            set eds x=2
            > eds y
            <
        ",
        ),
        (
            "M76 M24",
            "
            set cds a=1 b=1
            > cds
            < cds first a=1 b=1
            > cds
            set cds -a
            > cds a                  # held by wildcard, so its removal is reported
            < cds resubscribed
            > cds a
            <
        ",
        ),
        (
            "M76 M31",
            "
            set lds a=1
            > lds a
            < lds first a=1
            > lds *
            set lds -a
            > lds a                  # the client held a all along
            < lds resubscribed
            > lds a
            <
        ",
        ),
        (
            "M76 M60",
            "
            set lds a=1
            > lds a
            < lds first a=1
            > lds nonce:             # unsubscribed before the response was read
            set lds -a
            > lds nonce: a           # subscribed to again
            <
            > lds a                  # the client holds it now
            < lds resubscribed
            > lds a
            <
        ",
        ),
        (
            "M76 M67",
            "
            set lds a=1 b=1
            > lds a b
            < lds first a=1 b=1
            > lds a b
            set lds -a
            > lds b
            <
        ",
        ),
    ]);
}

// M74, M75: a custom type may have complete responses.
#[test]
fn custom_type_may_have_complete_responses() {
    let mut full = TypeConfig::of("type.test/custom");
    full.sotw_response = SotwResponse::FullState;
    let config = ServerConfig::default().with_type("type.test/custom", full);
    run_all_with(
        &config,
        &[(
            "M74 M76",
            "
        set custom a=1 b=1
        > custom a b
        < custom first a=1 b=1
        > custom a b
        set custom b=2
        < custom changed a=1 b=2
        > custom a b
        set custom -a
        < custom changed b=2
    ",
        )],
    );
}
