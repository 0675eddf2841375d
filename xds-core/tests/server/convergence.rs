//! Clients that have accepted or rejected a change.

use crate::support::{Rig, run_all, run_all_with, transaction_in};
use xds_core::{
    ViewName,
    server::{Admission, NackRecovery, ServerConfig, ServerLimits, TooManyWaits},
    types,
};

#[test]
fn lag_lists_exactly_the_pending_streams() {
    run_all(&[
        (
            "IS29",
            "
            set cds a=1
            lag cds 1                   # no clients
            > cds
            2> cds
            lag cds 1 pending 1 2
            < cds first a=1
            > cds
            lag cds 1 pending 2
            2< cds first a=1
            lag cds 1 pending 2         # sent is not accepted
            2> cds
            lag cds 1
            set cds a=2
            lag cds 1
            lag cds 2 pending 1 2
            < cds changed a=2
            set cds a=3
            > cds
            lag cds 2 pending 2
            lag cds 3 pending 1 2
            2< cds changed a=3          # skipped the second, has a newer one
            2> cds
            lag cds 2
            lag cds 3 pending 1
            lag cds 99 pending 1        # the newest change
        ",
        ),
        // Changes that do not concern a client do not delay it; changes that do are not skipped.
        (
            "IS29",
            "
            set eds a=1 b=1
            > eds a
            2> eds b
            < eds first a=1
            > eds a
            2< eds first b=1
            2> eds b
            set eds a=2                 # 2
            lag eds 2 pending 1
            set eds b=2                 # 3
            lag eds 2 pending 1
            lag eds 3 pending 1 2
            2< eds changed b=2
            2> eds b
            lag eds 3 pending 1
            set eds b=3                 # 4
            lag eds 2 pending 1
            lag eds 3 pending 1
            lag eds 4 pending 1 2
            set cds x=1                 # 5: another type
            < eds changed a=2
            > eds a
            lag eds 3
            lag eds 4 pending 2
            lag eds 5 pending 2
            set eds -b                  # 6: the removal is not reported
            lag eds 6
        ",
        ),
        // A change while a response is in flight waits for the next answer.
        (
            "IS29",
            "
            set eds a=1
            d> eds +a
            d< eds first a=1
            set eds a=2
            d> eds ack
            lag eds 1
            lag eds 2 pending 1
            d< eds changed a=2
            set eds -a
            d> eds ack
            lag eds 2
            lag eds 3 pending 1
            d< eds changed -a
            lag eds 3 pending 1
            d> eds ack
            lag eds 3
        ",
        ),
        // A new subscription is not accepted yet.
        (
            "IS29",
            "
            set eds a=1 b=1
            > eds a
            < eds first a=1
            > eds a
            lag eds 1
            > eds a b
            lag eds 1 pending 1
            < eds resubscribed b=1
            > eds a b
            lag eds 1
            > eds a b c                 # nothing is sent for a missing resource
            lag eds 1
        ",
        ),
        // Endpoints re-sent for warming do not count as not accepted.
        (
            "IS29",
            "
            set cds a=1; eds a=1
            > cds
            < cds first a=1
            > cds
            > eds a
            < eds first a=1
            > eds a
            set cds a=2
            < cds changed a=2
            > cds
            > eds a
            lag eds 2
            < eds warming a=1
            lag eds 2
            > eds a
            lag eds 2
        ",
        ),
    ]);
}

/// A rejection counts until a changed version of the rejected resource is accepted.
#[test]
fn rejected_change_lags_until_accepted() {
    run_all(&[
        (
            "IS29",
            "
            set cds a=1
            > cds
            < cds first a=1
            > cds nack
            lag cds 1 rejected 1
            set eds x=1
            lag cds 2 rejected 1
            set cds a=2
            lag cds 1 rejected 1
            < cds changed a=2
            lag cds 1 rejected 1
            > cds
            lag cds 3
        ",
        ),
        // Rejected endpoints are re-sent along with a change and with nothing else.
        (
            "IS29",
            "
            set eds a=1 b=1
            > eds a b
            < eds first a=1 b=1
            > eds nack a b
            set eds c=1
            > eds a b c
            < eds resubscribed c=1
            > eds a b c
            lag eds 1 rejected 1
            set eds a=2
            < eds changed a=2 b=1
            lag eds 1 rejected 1
            > eds a b c
            lag eds 3
        ",
        ),
        // They are re-sent once. A rejected resource is not accepted by an ACK of other resources.
        (
            "IS29 M234",
            "
            set eds a=1 b=1
            > eds a b
            < eds first a=1 b=1
            > eds nack a b
            set eds b=2
            < eds changed a=1 b=2
            > eds nack a b
            set eds b=3
            < eds changed b=3
            sync eds a:error b:stale
            > eds a b
            sync eds a:error b:synced
            lag eds 1 rejected 1
            set eds b=4
            < eds changed b=4
            > eds nack a b
            sync eds a:error b:error
            set eds a=2
            < eds changed a=2 b=4
            > eds a b
            lag eds 5
        ",
        ),
        (
            "IS29",
            "
            set eds a=1 b=1
            > eds a
            < eds first a=1
            > eds nack a
            lag eds 1 rejected 1
            > eds b                     # unsubscribed
            lag eds 1 pending 1
            < eds resubscribed b=1
            > eds b
            lag eds 1
        ",
        ),
    ]);
    let mut config = ServerConfig::default();
    config = config.with_every_type(|it| it.nack_recovery = NackRecovery::Minimal);
    run_all_with(
        &config,
        &[
            (
                "IS29",
                "
            set eds a=1 b=1
            > eds a b
            < eds first a=1 b=1
            > eds nack a b
            set eds a=2
            < eds changed a=2
            > eds a b
            lag eds 1 rejected 1        # b was never sent again
            set eds b=2
            < eds changed b=2
            > eds a b
            lag eds 3
        ",
            ),
            (
                "IS29",
                "
            set eds a=1 b=1
            d> eds +*
            d< eds first a=1 b=1
            d> eds nack
            set eds a=2
            d< eds changed a=2
            d> eds ack
            lag eds 1 rejected 1
            set eds -b
            d< eds changed -b
            d> eds ack
            lag eds 3
        ",
            ),
        ],
    );
}

#[test]
fn convergence_event_follows_reconnected_streams() {
    run_all(&[
        (
            "IS29 M18",
            "
            set cds a=1
            > cds
            2> cds
            < cds first a=1
            2< cds first a=1
            > cds
            tell cds 1
            untold
            3> cds                      # client 2 reconnects before its old stream ends
            lag cds 1 pending 2 3
            2close
            untold
            lag cds 1 pending 3
            3< cds first a=1
            3> cds
            told cds 1
            lag cds 1
            tell cds 1                  # reported at once
            told cds 1
            set cds a=2
            untold
            tell cds 2
            close
            untold
            3close                      # no client is left
            told cds 2
        ",
        ),
        // A client that states the current versions on reconnect has accepted them (incremental).
        (
            "IS29",
            "
            set cds a=1
            d> cds
            d< cds first a=1
            d> cds ack
            close
            d> cds has:a=1
            d< cds first
            d> cds ack
            lag cds 1
        ",
        ),
        (
            "IS29",
            "
            set cds a=1
            > cds
            < cds first a=1
            > cds nack
            tell cds 1
            lag cds 1 rejected 1
            untold
            close
            told cds 1
            > cds                       # retries
            tell cds 1
            < cds first a=1
            > cds nack
            untold
            lag cds 1 rejected 1
            set cds a=2
            < cds changed a=2
            > cds
            told cds 1
        ",
        ),
        // A split response is accepted with its last part.
        (
            "IS29",
            "
            set eds a=1
            tell eds 1
            told eds 1
            > eds a
            tell eds 1
            > eds
            told eds 1
        ",
        ),
    ]);
    let mut limits = ServerLimits::default();
    limits.response_bytes = 100;
    let long = |letter: &str| letter.repeat(60);
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run(&format!("set eds a={} b={}\n> eds *\ntell eds 1", long("x"), long("y")));
    rig.run(&format!("< eds first a={}\n> eds *\nuntold\nlag eds 1 pending 1", long("x")));
    rig.run(&format!("< eds first b={}\nuntold\n> eds *\ntold eds 1", long("y")));
    println!("covers: IS29");
}

/// Views converge independently, and a client that changes its view has to accept the new contents.
#[test]
fn views_converge_independently() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    let view = |name: &str| ViewName::from(name);
    for (name, changes) in [("one", "cds a=1"), ("two", "cds a=2")] {
        rig.server.apply(transaction_in(name, changes), rig.now).expect("a good transaction");
    }
    rig.run("> cds\n2> cds");
    let streams = [rig.stream(1), rig.stream(2)];
    rig.server.assign(streams[0], &view("one"), rig.now);
    rig.server.assign(streams[1], &view("two"), rig.now);
    rig.run("2< cds first a=2\n2> cds");
    let lagging = |rig: &Rig, name: &str| {
        rig.server.convergence(&view(name), types::CLUSTER, 2).lagging.len()
    };
    assert_eq!((lagging(&rig, "one"), lagging(&rig, "two")), (1, 0));
    rig.run("< cds first a=1\n> cds");
    assert_eq!((lagging(&rig, "one"), lagging(&rig, "two")), (0, 0));
    rig.server.assign(streams[0], &view("two"), rig.now);
    assert_eq!((lagging(&rig, "one"), lagging(&rig, "two")), (0, 1));
    rig.run("< cds changed a=2\n> cds");
    assert_eq!(lagging(&rig, "two"), 0);
    println!("covers: IS29 M223");
}

#[test]
fn convergence_waits_are_limited() {
    let mut limits = ServerLimits::default();
    limits.convergence_waits = 1;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run("set cds a=1\n> cds\nset cds a=2\ntell cds 1");
    let ask = |rig: &mut Rig, sequence| {
        rig.server.notify_when_converged(&ViewName::default(), types::CLUSTER, sequence, rig.now)
    };
    assert!(matches!(ask(&mut rig, 2), Err(TooManyWaits { limit: 1, .. })));
    assert_eq!(ask(&mut rig, 1), Ok(1), "the same again takes no room");
    rig.run("< cds first a=2\n> cds\ntold cds 1\nuntold\ntell cds 1\ntold cds 1");
    println!("covers: IS24");
}

// IS24: a cancelled wait frees its place, and no event is sent.
#[test]
fn cancelled_convergence_wait_frees_its_place() {
    let mut limits = ServerLimits::default();
    limits.convergence_waits = 1;
    let mut rig = Rig::new(ServerConfig::default().with_limits(limits));
    rig.run("set cds a=1\n> cds\nset cds a=2");
    for _ in 0..3 {
        rig.run("tell cds 1");
        rig.server.cancel_convergence_wait(&ViewName::default(), types::CLUSTER, 1);
        rig.run("tell cds 2");
        rig.server.cancel_convergence_wait(&ViewName::default(), types::CLUSTER, u64::MAX);
    }
    rig.run("< cds first a=2\n> cds\nuntold");
    println!("covers: IS24");
}

// IS29, M224: clients of a layered view must accept changes of a layer unless they are hidden.
#[test]
fn clients_of_layered_view_count_for_layer_changes() {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    let mut rig = Rig::new(config);
    rig.run("set cds a=1\nset @own cds b=1\n> cds\n2> cds\n3> cds");
    let layers = [ViewName::from("own"), ViewName::default()];
    for view in ["v", "w"] {
        rig.server.set_layers(&view.into(), &layers, rig.now).expect("good layers");
    }
    rig.run("assign 1 v\nassign 2 w");
    let id = rig.stream(3);
    rig.server.assign(id, &ViewName::default(), rig.now);
    rig.run("< cds first a=1 b=1\n> cds\n2< cds first a=1 b=1\n2> cds\n3< cds first a=1\n3> cds");
    let now = rig.set("cds a=2").sequence;
    rig.run(&format!("lag cds {now} pending 1 2 3\ntell cds {now}\nuntold"));
    rig.run(&format!(
        "< cds changed a=2 b=1\n3< cds changed a=2\n3> cds\nlag cds {now} pending 1 2"
    ));
    rig.run(&format!(
        "> cds\nlag cds {now} pending 2\nuntold\n2< cds changed a=2 b=1\n2> cds nack"
    ));
    rig.run(&format!("lag cds {now} rejected 2\nuntold"));
    // The view no longer shows the change.
    rig.server.set_layers(&"w".into(), &layers[..1], rig.now).expect("good layers");
    rig.drain();
    rig.run(&format!("told cds {now}\nlag cds {now}"));
    // A hidden resource.
    rig.run("set @own cds a=7\n< cds changed a=7 b=1\n> cds");
    let now = rig.set("cds a=3").sequence;
    rig.run(&format!("lag cds {now} pending 3\ntell cds {now}\n3close\ntold cds {now}"));
    // A client that changes its view.
    let now = rig.set("cds c=1").sequence;
    rig.run(&format!(
        "lag cds {now} pending 1\ntell cds {now}\nuntold\nassign 1 elsewhere\ntold cds {now}"
    ));
    println!("covers: IS29 M224");
}
