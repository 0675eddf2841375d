//! TTLs and heartbeats, and the clients that get them.

use core::time::Duration;

use crate::support::{Rig, run_all, run_all_with};
use xds_core::server::{Admission, HeartbeatFraction, Observation, ServerConfig};

#[test]
fn ttl_is_sent_only_to_clients_with_ttl_feature() {
    run_all(&[
        (
            "M159 M160 M85",
            "
            set eds a~10s=1 b=1
            t> eds a b
            t< eds first a~10s=1 b=1
            2> eds a b
            2< eds first a=1 b=1
            3u> eds a b              # no field for the TTL
            3u< eds first a=1 b=1
            4td> eds +a +b
            4td< eds first a~10s=1 b=1
            5ud> eds +a +b
            5ud< eds first a~10s=1 b=1
            6d> eds +a +b
            6d< eds first a=1 b=1",
        ),
        (
            "M159 M160",
            "
            set cds a~10s=1 b=1
            t> cds
            t< cds first a~10s=1 b=1
            2> cds
            2< cds first a=1 b=1
            3t> cds a
            3t< cds first a~10s=1
            4td> cds
            4td< cds first a~10s=1 b=1
            5d> cds
            5d< cds first a=1 b=1
            6t> eds *
            6t<
            set eds x~1500ms=1
            6t< eds first x~1500ms=1",
        ),
        (
            "M160 IS27",
            "
            set cds a~10s=1; eds x~10s=1
            > cds
            < cds first a=1
            > cds
            > eds x
            < eds first x=1
            > eds x
            2d> cds
            2d< cds first a=1
            2d> cds ack
            2d> eds +x
            2d< eds first x=1
            2d> eds ack
            wait 60s
            <
            2d<",
        ),
    ]);
}

/// Support for wrappers is announced by the name in the protocol's text, too.
#[test]
fn wrapper_feature_has_two_names() {
    for feature in ["xds.config.resource-in-sotw", "xds.config.supports-resource-in-sotw"] {
        let mut rig = Rig::default();
        rig.announce(1, feature);
        rig.announce(2, feature);
        rig.announce(2, "xds.config.supports-resource-ttl");
        rig.run("set eds a~10s=1\n> eds a\n< eds first a=1\n2> eds a\n2< eds first a~10s=1");
    }
    println!("covers: M159 M160");
}

#[test]
fn heartbeat_is_sent_at_half_ttl_with_accepted_version() {
    run_all(&[
        (
            "M161 M162 IS27",
            "
            set eds a~10s=1 b=1
            t> eds a b
            t< eds first a~10s=1 b=1
            t> eds a b
            wait 4999ms
            t<
            wait 1ms
            t< eds heartbeat a~10s
            t<
            t> eds a b
            set eds b=2              # another version of the type, and of the response
            t< eds changed b=2
            t> eds a b
            wait 5s
            t< eds heartbeat a~10s
            t> eds a b
            set eds c=1              # this client does not subscribe to it
            wait 5s
            t< eds heartbeat a~10s",
        ),
        (
            "M161 M162 M170 IS27",
            "
            set eds a~10s=1 b=1
            td> eds +a +b
            td< eds first a~10s=1 b=1
            td> eds ack
            wait 4999ms
            td<
            wait 1ms
            td< eds heartbeat a~10s
            td<
            td> eds ack
            wait 5s
            td< eds heartbeat a~10s",
        ),
        (
            "M161 M169 M170",
            "
            set eds a~10s=1 b~20s=1 c~10s=1 d=1
            td> eds +*
            td< eds first a~10s=1 b~20s=1 c~10s=1 d=1
            td> eds ack
            2t> eds *
            2t< eds first a~10s=1 b~20s=1 c~10s=1 d=1
            2t> eds *
            wait 5s
            td< eds heartbeat a~10s c~10s
            td> eds ack
            2t< eds heartbeat a~10s c~10s
            2t> eds *
            wait 5s
            td< eds heartbeat a~10s b~20s c~10s
            td> eds ack
            2t< eds heartbeat a~10s b~20s c~10s",
        ),
    ]);
}

/// In complete responses absence is deletion, and proxies treat a resource without content as
/// absent.
#[test]
fn complete_response_is_renewed_with_all_resources() {
    run_all(&[(
        "M161 IS27",
        "
        set cds a~10s=1 b=1; eds x=1
        t> cds
        t< cds first a~10s=1 b=1
        t> cds
        t> eds x
        t< eds first x=1
        t> eds x
        2t> cds a
        2t< cds first a~10s=1
        2t> cds a
        3t> cds b
        3t< cds first b=1
        3t> cds b
        wait 5s
        t< cds heartbeat a~10s=1 b=1
        t> cds
        t> eds x                     # unchanged clusters warm nothing
        t<
        2t< cds heartbeat a~10s=1
        2t> cds a
        3t<
        set cds b=2
        t< cds changed a~10s=1 b=2
        t> cds nack
        wait 5s
        t<                           # NACKed, so not renewed
        2t< cds heartbeat a~10s=1",
    )]);
}

/// A complete response that has only an error is not renewed.
#[test]
fn error_sends_no_empty_heartbeat() {
    run_all(&[(
        "IS5 IS27",
        "
        set cds a~10s=1
        t> cds a
        t< cds first a~10s=1
        t> cds a
        set cds !a=7
        t< cds changed !a=7
        t> cds a
        wait 5s
        t<",
    )]);
}

/// A virtual host without content does not exist.
#[test]
fn virtual_host_heartbeat_has_content() {
    run_all(&[(
        "M161 M170",
        "
        set vhds r/a~10s=1
        td> vhds +r/a
        td< vhds first r/a~10s=1
        td> vhds ack
        wait 5s
        td< vhds heartbeat r/a~10s=1",
    )]);
}

#[test]
fn heartbeat_fraction_is_configurable() {
    let mut config = ServerConfig::default();
    config.heartbeat_fraction = HeartbeatFraction::percent(20);
    run_all_with(
        &config,
        &[(
            "M161",
            "
            set eds a~10s=1
            t> eds a
            t< eds first a~10s=1
            t> eds a
            wait 1999ms
            t<
            wait 1ms
            t< eds heartbeat a~10s",
        )],
    );
    let second = Duration::from_secs(1);
    let of = |percent| HeartbeatFraction::percent(percent).of(second);
    assert_eq!([of(0), of(99), of(255)].map(|it| it.as_millis()), [10, 990, 990]);
    assert_eq!(HeartbeatFraction::default().of(second), second / 2);
}

#[test]
fn sent_resource_replaces_heartbeat() {
    run_all(&[
        (
            "M163",
            "
            set eds a~10s=1 b~10s=1
            td> eds +a +b
            td< eds first a~10s=1 b~10s=1
            wait 5s                  # heartbeats are due, but nothing can be sent
            set eds a~10s=2
            td> eds ack
            td< eds changed a~10s=2
            td> eds ack
            td< eds heartbeat b~10s
            td> eds ack
            td<",
        ),
        (
            "M163",
            "
            set eds a~10s=1 b~10s=1
            t> eds *
            t< eds first a~10s=1 b~10s=1
            wait 5s
            set eds a~10s=2
            t> eds *
            t< eds changed a~10s=2
            t> eds *
            t< eds heartbeat b~10s
            t> eds *
            t<",
        ),
        (
            "M164",
            "
            set eds a~10s=1
            t> eds a
            t< eds first a~10s=1
            t> eds a
            wait 4s
            set eds a~10s=2
            t< eds changed a~10s=2
            t> eds a
            wait 4999ms
            t<
            wait 1ms
            t< eds heartbeat a~10s",
        ),
        (
            "M163 M164",
            "
            set eds a~10s=1
            td> eds +a
            td< eds first a~10s=1
            wait 5s
            td> eds ack +a           # resubscribed while a heartbeat waits
            td< eds resubscribed a~10s=1
            td> eds ack
            td<
            2t> cds
            set cds c~10s=1
            2t< cds first c~10s=1
            wait 5s
            set cds c~10s=2
            2t> cds
            2t< cds changed c~10s=2
            2t> cds
            2t<",
        ),
        (
            "M164",
            "
            set eds a~10s=1
            td> eds +*
            td< eds first a~10s=1
            wait 5s
            td> eds ack +*
            td< eds resubscribed a~10s=1
            td> eds ack
            td<",
        ),
    ]);
}

#[test]
fn heartbeat_waits_for_pending_ack() {
    run_all(&[
        (
            "M165",
            "
        set eds a~10s=1 b~60s=1
        td> eds +a +b
        td< eds first a~10s=1 b~60s=1
        wait 6s
        td<
        td> eds ack
        td< eds heartbeat a~10s
        wait 15s                     # the client has dropped it by now
        td> eds ack
        td< eds heartbeat a~10s=1
        td> eds ack
        wait 4s
        td< eds heartbeat a~10s
        td> eds ack
        wait 5s
        td< eds heartbeat a~10s b~60s",
        ),
        (
            "M165",
            "
        set eds a~10s=1 b~60s=1
        t> eds a b
        t< eds first a~10s=1 b~60s=1
        wait 6s
        t<
        t> eds a b
        t< eds heartbeat a~10s
        wait 15s                     # the client has dropped it by now
        t> eds a b
        t< eds heartbeat a~10s=1
        t> eds a b
        wait 4s
        t< eds heartbeat a~10s
        t> eds a b
        wait 5s
        t< eds heartbeat a~10s b~60s",
        ),
    ]);
    for (t, subscribe, ack) in [("t", "a", "a"), ("td", "+a", "ack")] {
        is_late_after_half_the_time(t, subscribe, ack);
    }
    println!("covers: M165");
}

fn is_late_after_half_the_time(t: &str, subscribe: &str, ack: &str) {
    let mut rig = Rig::default();
    rig.run(&format!("set eds a~10s=1\n{t}> eds {subscribe}\n{t}< eds first a~10s=1\nwait 4s"));
    rig.run(&format!("set eds a~10s=2\n{t}> eds {ack}\n{t}< eds changed a~10s=2\nwait 4s"));
    let late = |rig: &mut Rig| {
        let observations = rig.observations().into_iter();
        let late = observations.filter_map(|observation| match observation {
            Observation::AnswerOverdue { nonce, after, .. } => Some((nonce.to_string(), after)),
            _ => None,
        });
        late.collect::<Vec<_>>()
    };
    assert_eq!(late(&mut rig), []);
    rig.run("wait 1s");
    assert_eq!(late(&mut rig), [(rig.nonce(1, "eds"), Duration::from_secs(5))]);
    rig.run("wait 10s");
    assert_eq!(late(&mut rig), [], "it is said once");
}

// IS27: resources that layers had before a client subscribed are renewed like later ones, also for
// clients after the last one left and for clients whose view changes.
#[test]
fn existing_layer_resources_are_renewed() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    for (t, subscribe, ack) in [("t", "a", "a"), ("t", "*", "*"), ("td", "+a", "ack")] {
        let client = |first: u32, cause: &str| {
            format!(
                "
                {first}{t}< eds {cause} a~10s=1
                {first}{t}> eds {ack}
                wait 5s
                {first}{t}< eds heartbeat a~10s
                {first}{t}> eds {ack}
                wait 5s
                {first}{t}< eds heartbeat a~10s
                {first}close"
            )
        };
        let comes = |number: u32| {
            format!("\n{number}{t}> eds {subscribe}\nassign {number} v{}", client(number, "first"))
        };
        let mut rig = Rig::new(config.clone());
        rig.run("set @base eds a~10s=1 b=1\nset @base eds -b\nlayers v own base");
        rig.run(&comes(1));
        rig.run(&comes(2));
        // The client comes from an empty view.
        rig.run(&format!("3{t}> eds {subscribe}\nassign 3 empty\nwait 100s"));
        if t == "td" {
            rig.run("3td< eds first -a\n3td> eds ack");
        }
        rig.run("assign 3 v");
        rig.run(&client(3, if t == "td" { "changed" } else { "first" }));
    }
    println!("covers: M159 M161 M170 IS27");
}
