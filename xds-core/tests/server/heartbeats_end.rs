//! Events that end or suppress heartbeats: changes, rejections, reconnects; and invalid TTLs.

use core::time::Duration;

use crate::support::{Rig, payload, run_all, run_all_with, url};
use xds_core::{
    Timer,
    server::{
        DropView, NackRecovery, ResourceOptions, ServerConfig, Transaction, TransactionError,
    },
};

#[test]
fn changed_ttl_is_a_change() {
    run_all(&[(
        "M166",
        "
        set eds a~10s=1
        t> eds a
        t< eds first a~10s=1
        t> eds a
        2td> eds +*
        2td< eds first a~10s=1
        2td> eds ack
        set eds a~20s=1
        t< eds changed a~20s=1
        t> eds a
        2td< eds changed a~20s=1
        2td> eds ack
        set eds a~20s=1
        t<
        wait 9s
        t<
        wait 1s
        t< eds heartbeat a~20s
        t> eds a
        2td< eds heartbeat a~20s
        2td> eds ack
        set eds a=1
        t< eds changed a=1
        t> eds a
        2td< eds changed a=1
        2td> eds ack
        wait 60s
        t<
        2td<
        set eds a~20s=1
        t< eds changed a~20s=1
        2td< eds changed a~20s=1",
    )]);
    let mut rig = Rig::script("set cds a~10s=1\nt> cds\nt< cds first a~10s=1\nt> cds");
    let before = rig.server.version(&url("cds"));
    rig.run("set cds a=1\nt< cds changed a=1");
    assert_ne!(rig.server.version(&url("cds")), before, "who comes back is to be told");
    println!("covers: M166");
}

#[test]
fn rejected_resource_is_not_renewed() {
    for recovery in [NackRecovery::Minimal, NackRecovery::ResendBatch] {
        let mut config = ServerConfig::default();
        config = config.with_every_type(|it| it.nack_recovery = recovery);
        run_all_with(
            &config,
            &[
                (
                    "M167",
                    "
                    set eds a~10s=1 b~10s=1
                    t> eds a b
                    t< eds first a~10s=1 b~10s=1
                    t> eds a b
                    set eds a~10s=2
                    t< eds changed a~10s=2
                    t> eds nack a b
                    wait 5s
                    t< eds heartbeat b~10s   # with the accepted version
                    t> eds a b
                    set eds a~10s=3
                    t< eds changed a~10s=3
                    t> eds a b
                    wait 5s
                    t< eds heartbeat a~10s b~10s
                    t> eds a b",
                ),
                (
                    "M167 M170",
                    "
                    set eds a~10s=1 b~10s=1
                    td> eds +*
                    td< eds first a~10s=1 b~10s=1
                    td> eds ack
                    set eds a~10s=2
                    td< eds changed a~10s=2
                    td> eds nack
                    wait 5s
                    td< eds heartbeat b~10s
                    td> eds ack
                    set eds a~10s=3
                    td< eds changed a~10s=3
                    td> eds ack
                    wait 5s
                    td< eds heartbeat a~10s b~10s",
                ),
            ],
        );
    }
    let rig = Rig::script(
        "
        set eds a~10s=1 b~10s=1
        t> eds a b
        t< eds first a~10s=1 b~10s=1
        t> eds a b
        set eds a~10s=2
        t< eds changed a~10s=2
        t> eds nack a b
        wait 5s
        t< eds heartbeat b~10s
        t> eds a b",
    );
    let status: Vec<_> = rig.server.status().map(|it| (it.state, it.last_error.cloned())).collect();
    let bad = Some("bad".into());
    assert_eq!(status, [(xds_core::server::SyncState::Nacked, bad)], "a heartbeat heals nothing");
    println!("covers: M167");
}

/// A resource that is rejected again when it is sent with a change is still not renewed.
#[test]
fn resource_rejected_twice_is_not_renewed() {
    run_all(&[
        (
            "M107 M167",
            "
            set eds a~10s=1 b~10s=1
            td> eds +a +b
            td< eds first a~10s=1 b~10s=1
            td> eds ack
            set eds b~10s=bad
            td< eds changed b~10s=bad
            td> eds nack
            set eds a~10s=2
            td< eds changed a~10s=2 b~10s=bad
            td> eds nack
            wait 5s
            td<",
        ),
        (
            "M107 M167",
            "
            set eds a~10s=1 b~10s=1
            td> eds +*
            td< eds first a~10s=1 b~10s=1
            td> eds ack
            set eds b~10s=bad
            td< eds changed b~10s=bad
            td> eds nack
            set eds a~10s=2
            td< eds changed a~10s=2 b~10s=bad
            td> eds nack
            wait 5s
            td<",
        ),
    ]);
}

/// A resource that is accepted when it is sent alone is renewed, and the rejected one is not.
#[test]
fn resource_accepted_alone_is_renewed() {
    let config = ServerConfig::default();
    run_all_with(
        &config.with_every_type(|it| it.nack_recovery = NackRecovery::Isolate),
        &[
            (
                "M108 M167",
                "
                td> eds +a +b
                td< eds first -a -b
                td> eds ack
                set eds a~10s=1 b~10s=bad
                td< eds changed a~10s=1 b~10s=bad
                td> eds nack
                td< eds recovery a~10s=1
                td> eds ack
                td< eds recovery b~10s=bad
                td> eds nack
                wait 5s
                td< eds heartbeat a~10s",
            ),
            (
                "M108 M167",
                "
                set eds a~10s=1 b~10s=bad
                td> eds +*
                td< eds first a~10s=1 b~10s=bad
                td> eds nack
                td< eds recovery a~10s=1
                td> eds ack
                td< eds recovery b~10s=bad
                td> eds nack
                wait 5s
                td< eds heartbeat a~10s",
            ),
        ],
    );
}

/// A rejected heartbeat is not repeated: the resource is sent when the next heartbeat is due.
#[test]
fn rejected_heartbeat_is_replaced_by_resource() {
    run_all(&[(
        "M167 IS4",
        "
        set eds a~10s=1
        td> eds +a
        td< eds first a~10s=1
        td> eds ack
        wait 5s
        td< eds heartbeat a~10s
        td> eds nack
        td<
        wait 5s
        td< eds heartbeat a~10s=1
        td> eds ack
        wait 5s
        td< eds heartbeat a~10s=1
        td> eds nack
        wait 60s
        td<
        set eds a~10s=2
        td< eds changed a~10s=2",
    )]);
}

#[test]
fn removed_resource_has_no_heartbeat_timer() {
    let lines = "
        set eds a~10s=1; cds c~10s=1
        t> eds a
        t< eds first a~10s=1
        t> eds a
        t> cds
        t< cds first c~10s=1
        t> cds
        2td> eds +*
        2td< eds first a~10s=1
        2td> eds ack";
    for policy in [DropView::RemoveAll, DropView::CloseStreams, DropView::Freeze] {
        for wait in ["wait 0s", "wait 5s"] {
            let mut rig = Rig::script(lines);
            rig.run(wait);
            rig.server.drop_view(&"".into(), policy, rig.now);
            rig.server.apply(Transaction::snapshot(""), rig.now).expect("no resources");
            rig.drain();
            rig.run("close\n2close\nwait 60s");
            let next = rig.server.poll_timeout();
            assert!(next.is_none_or(|it| it.why != Timer::Heartbeat), "{next:?}");
        }
    }
    for end in ["close\n2close", "t> eds\n2td> eds -*\nset cds -c; eds -a"] {
        let mut rig = Rig::script(lines);
        rig.run(end);
        while rig.receive(1).is_some() {}
        rig.run("wait 100s");
        let next = rig.server.poll_timeout();
        assert!(
            next.is_none_or(|it| it.why != Timer::Heartbeat),
            "{end}: nobody to tell, or nothing"
        );
    }
    println!("covers: M168");
}

// M169: without subscribers no timer runs, and a later client gets no extra heartbeat.
#[test]
fn client_without_wildcard_gets_no_wildcard_heartbeat() {
    run_all(&[(
        "IS27",
        "
        set cds a~10s=1
        td> cds +*
        td< cds first a~10s=1
        td> cds ack
        2td> cds +*
        2td< cds first a~10s=1
        wait 6s
        td< cds heartbeat a~10s
        2td<                         # waits for the ACK
        2td> cds -*
        2td> cds ack
        2td< cds resubscribed -a
        2td> cds ack
        2td<",
    )]);
    println!("covers: IS27");
}

#[test]
fn heartbeat_timer_needs_a_subscriber() {
    let mut rig = Rig::default();
    rig.run("set eds a~10s=1\n> eds a\n< eds first a=1\n> eds a");
    assert_eq!(rig.server.poll_timeout(), None);
    rig.run(
        "
        wait 33s
        2t> eds a
        2t< eds first a~10s=1
        2t> eds a
        wait 4999ms
        2t<
        wait 1ms
        2t< eds heartbeat a~10s
        2t> eds a
        2t> eds                      # unsubscribed
        wait 60s
        2t<",
    );
    println!("covers: M169");
}

/// The time of the last renewal on another stream is unknown.
#[test]
fn reconnecting_client_gets_immediate_heartbeat() {
    run_all(&[
        (
            "M170 M116",
            "
            set eds a~10s=1 b=1
            td> eds +a +b
            td< eds first a~10s=1 b=1
            close
            td> eds +a +b has:a~10s=1 has:b=1
            td< eds heartbeat a~10s
            td> eds ack
            td<",
        ),
        (
            "M170 M116",
            "
            set eds a~10s=1 b=1
            td> eds +*
            td< eds first a~10s=1 b=1
            close
            td> eds +* has:a~10s=1 has:b=1
            td< eds first
            td> eds ack
            td< eds heartbeat a~10s
            td> eds ack
            td<",
        ),
        (
            "M159 M41",
            "
            set lds a~10s=1
            t> lds
            t< lds first a~10s=1
            t> lds
            2t> lds version:v
            2t< lds first a~10s=1",
        ),
    ]);
    let mut rig = Rig::script("set lds a~10s=1\nt> lds\nt< lds first a~10s=1");
    let version = rig.server.version(&url("lds")).expect("a version");
    rig.run(&format!("2t> lds nonce: version:{version}\n2t< lds first a~10s=1"));
    println!("covers: M159");
}

#[test]
fn heartbeats_are_split_by_response_limit() {
    let mut config = ServerConfig::default();
    config.limits.response_bytes = 150;
    run_all_with(
        &config,
        &[(
            "M161 M170",
            "
            set eds a~10s=1
            set eds b~10s=1
            td> eds +*
            td< eds first a~10s=1
            td> eds ack
            td< eds first b~10s=1
            td> eds ack
            2td> eds +b +a
            2td< eds first b~10s=1
            2td> eds ack
            2td< eds first a~10s=1
            2td> eds ack
            3td> eds +* +a
            3td< eds first a~10s=1
            3td> eds ack
            3td< eds first b~10s=1
            3td> eds ack
            wait 5s
            td< eds heartbeat a~10s
            td> eds ack
            td< eds heartbeat b~10s
            td> eds ack
            td<
            2td< eds heartbeat a~10s
            2td> eds ack
            2td< eds heartbeat b~10s
            2td> eds ack
            2td<
            3td< eds heartbeat a~10s
            3td> eds ack
            3td< eds heartbeat b~10s
            3td> eds ack
            3td<",
        )],
    );
}

#[test]
fn ttl_out_of_range_is_refused() {
    let mut rig = Rig::default();
    for (ttl, is_good) in [
        (Duration::ZERO, false),
        (Duration::from_micros(999), false),
        (ResourceOptions::SHORTEST_TTL, true),
        (ResourceOptions::LONGEST_TTL, true),
        (ResourceOptions::LONGEST_TTL + Duration::from_nanos(1), false),
        (Duration::MAX, false),
    ] {
        let mut transaction = Transaction::new();
        let options = ResourceOptions::default().with_ttl(ttl);
        transaction.set_with(url("eds"), "a", payload("a", "1"), options);
        let applied = rig.server.apply(transaction, rig.now);
        let refused = TransactionError::TtlOutOfRange { change: 0, ttl };
        assert_eq!(applied.err(), (!is_good).then_some(refused), "{ttl:?}");
    }
    println!("covers: M218");
}

#[test]
fn snapshot_resources_may_have_ttl() {
    let mut rig = Rig::default();
    let options = || ResourceOptions::default().with_ttl(Duration::from_secs(10));
    let mut snapshot = Transaction::snapshot("");
    snapshot.set_with(url("eds"), "a", payload("a", "1"), options());
    for _ in 0..2 {
        rig.server.apply(snapshot.clone(), rig.now).expect("a good snapshot");
        rig.drain();
        rig.run("t> eds a");
    }
    rig.run("t< eds first a~10s=1\nt> eds a\nwait 5s\nt< eds heartbeat a~10s");
    println!("covers: M159 M216");
}

// An error ends when the resource is sent (M176), so heartbeats must not send the resource.
#[test]
fn heartbeat_does_not_end_error() {
    run_all(&[
        (
            "M171 M172 M176",
            "
            set eds a~10s=1
            td> eds +a
            td< eds first a~10s=1
            td> eds ack
            set eds a~10s=1 !a=7
            td< eds changed !a=7
            td> eds ack
            wait 5s
            td< eds heartbeat a~10s      # the client may have kept it
            td> eds nack                 # it did not
            wait 5s
            td<
            set eds a~10s=1
            td< eds changed a~10s=1
            td> eds ack
            wait 5s
            td< eds heartbeat a~10s=1",
        ),
        // After the TTL, so that the client has dropped the resource.
        (
            "M171 M172 M176",
            "
            set eds a~10s=1
            td> eds +a
            td< eds first a~10s=1
            td> eds ack
            set eds !a=7
            td< eds changed !a=7
            wait 20s
            td> eds ack
            td<
            wait 5s
            td< eds heartbeat a~10s",
        ),
    ]);
}
