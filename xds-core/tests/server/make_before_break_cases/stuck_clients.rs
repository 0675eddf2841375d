//! Clients that NACK, do not answer, or do not send an expected request.
// M148 IS17

use super::*;

#[test]
fn nacked_or_unanswered_step_is_reported_and_held() {
    let (changes, deletions) = (BlockedChange::Changes, BlockedChange::Deletions);
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&started("settled\nset cds b=1; rds r=2\n< cds changed a=1 b=1\nwait 4s"));
    assert_eq!(held(&mut rig), []);
    rig.run("wait 1s\n<");
    let unanswered = ("rds".into(), changes, "cds".into(), BlockedBy::Unanswered);
    assert_eq!(held(&mut rig), [unanswered]);
    rig.run("wait 60s\n<");
    assert_eq!(held(&mut rig), [], "said once");
    rig.run(
        "
        > cds nack  | <
        set rds r=3
        wait 60s    | <
        set cds b=2 | < cds changed a=1 b=2
        > cds       | < rds changed r=3
        ",
    );
    assert_eq!(held(&mut rig), []);
    rig.run("> rds r\nset cds b=3; lds l=2\n< cds changed a=1 b=3\n> cds nack\nwait 5s\n<");
    assert_eq!(held(&mut rig), [("lds".into(), changes, "cds".into(), BlockedBy::Rejected)]);

    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&started("settled\nset cds -a; rds r=2\n< rds changed r=2\n> rds nack r\nwait 5s\n<"));
    assert_eq!(held(&mut rig), [("cds".into(), deletions, "rds".into(), BlockedBy::Rejected)]);
    rig.run("set rds r=3\n< rds changed r=3\n> rds r\n< cds changed");
    println!("covers: M148");
}

#[test]
fn nacked_step_continues_after_timeout_by_policy() {
    let mut rig = Rig::new(gated(|policy| policy.on_stage_timeout = StageTimeoutAction::Continue));
    rig.run(&started(
        "
        settled
        set cds -a b=1; rds r=2 | < cds changed a=1 b=1
        > cds nack              | <
        # the removal is not deferred either
        wait 5s                 | < rds changed r=2 | < cds changed b=1
        > rds r
        > cds
        set cds c=1; rds r=3    | < cds changed b=1 c=1
        wait 4s                 | <  # the next change waits again
        wait 1s                 | < rds changed r=3
        ",
    ));
    let held = held(&mut rig);
    assert_eq!(held.len(), 2, "{held:?}");
    println!("covers: M148");
}

// IS17: a missing EDS request is awaited only until the timeout, even under `StageTimeoutAction::Hold`.
#[test]
fn missing_eds_request_is_awaited_once() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(
        "
        set cds a=eds; eds a=1 z=1; rds r=1
        > cds   | < cds first a=eds
        > cds
        > eds z | < eds first z=1  # other endpoints
        > eds z
        > rds r | <
        wait 5s | < rds first r=1
        > rds r
        ",
    );
    let not_asked = |name: &str| {
        (
            String::from("rds"),
            BlockedChange::Changes,
            String::from("eds"),
            BlockedBy::NotRequested(name.into()),
        )
    };
    assert_eq!(held(&mut rig), [not_asked("a")]);
    rig.run(
        "
        set cds c=eds; eds c=1; rds r=2 | < cds changed a=eds c=eds
        > cds
        > eds z                         | < eds warming z=1
        > eds z                         | <  # it may request the new ones
        wait 5s                         | < rds changed r=2
        > rds r                         | <
        ",
    );
    assert_eq!(held(&mut rig), [not_asked("c")]);
    println!("covers: IS17 M150 M148");
}

#[test]
fn nacked_or_late_update_delays_only_its_dependents() {
    run("
        == NACKed and deleted cluster is served in its ACKed version [M147 M148]
        settled
        set cds b=1             | < cds changed a=1 b=1
        > cds
        set cds b=bad           | < cds changed a=1 b=bad
        > cds nack
        set cds -b a=2; rds r=2 | < cds changed a=2 b=1
        > cds                   | < rds changed r=2
        > rds r                 | < cds changed a=2
        > cds                   | <
        == cluster deleted before its NACK [M147 M148]
        settled
        set cds b=1             | < cds changed a=1 b=1
        > cds
        set cds b=bad           | < cds changed a=1 b=bad
        set cds -b a=2; rds r=2 | <
        > cds nack              | < cds changed a=2 b=1
        > cds                   | < rds changed r=2
        > rds r                 | < cds changed a=2
        > cds                   | <
        == named cluster deleted before its NACK [M147 M148]
        set cds a=1 b=1; rds r=1
        > cds a b               | < cds first a=1 b=1
        > cds a b
        > rds r                 | < rds first r=1
        > rds r
        set cds b=bad           | < cds changed a=1 b=bad
        set cds -b a=2; rds r=2 | <
        > cds nack a b          | < cds changed a=2 b=1
        > cds a b               | < rds changed r=2
        > rds r                 | < cds changed a=2
        > cds a b               | <
        == stuck client delays only itself [IS25 M147]
        settled
        2> cds                  | 2< cds first a=1
        2> cds
        2> rds r                | 2< rds first r=1
        2> rds r
        set cds -a b=1; rds r=2 | < cds changed a=1 b=1 | 2< cds changed a=1 b=1
        2> cds                  | 2< rds changed r=2
        2> rds r                | 2< cds changed b=1
        2> cds                  | <  # stream 1 has not answered yet
        set rds r=3             | 2< rds changed r=3
        > cds                   | < rds changed r=3  # only the newest version
        > rds r                 | < cds changed b=1
        == resource NACKed twice blocks dependents until its replacement is ACKed [M148 M107]
        settled-delta
        set cds b=bad; rds r=2 | d< cds changed b=bad
        d> cds nack
        set cds c=1            | d< cds changed b=bad c=1
        d> cds nack
        set cds e=1            | d< cds changed c=1 e=1
        d> cds ack             | d<
        set cds b=2            | d< cds changed b=2 | d<
        d> cds ack             | d< rds changed r=2
        == NACKed resource that was never sent before blocks older dependents [M146 M148]
        settled-delta
        set cds x=1 | d< cds changed x=1
        set cds b=1; rds r=2  # while a response is in flight
        set cds b=bad
        d> cds ack  | d< cds changed b=bad
        d> cds nack
        set cds c=1 | d< cds changed b=bad c=1
        d> cds nack
        set cds e=1 | d< cds changed c=1 e=1
        d> cds ack  | d<
        set cds b=2 | d< cds changed b=2
        d> cds ack  | d< rds changed r=2
        == late CDS ACK still leaves time for the EDS request [IS17 M150]
        set cds a=eds; eds a=1 z=1; lds l=1
        > lds l         | < lds first l=1
        > lds l
        > eds z         | < eds first z=1
        > eds z
        > cds a         | < cds first a=eds
        > cds a
        set lds l=2     | <
        wait 4s
        set cds a=eds:a | < cds changed a=eds:a
        set lds l=3
        wait 1s  # now the ACK is awaited
        > cds a         | <
        wait 5s         | < lds changed l=3
        > lds l
        ");
}

#[test]
fn heartbeats_continue_while_updates_wait() {
    run_table(
        &patient(),
        &[],
        "
        == heartbeats do not restart the timeout [IS17 M148 M150]
        set lds k~10s=1
        td> lds +k +l | td< lds first k~10s=1 -l
        td> lds ack
        set cds a=eds; eds a=1 z=1
        td> eds +z    | td< eds first z=1
        td> eds ack
        td> cds +a    | td< cds first a=eds
        td> cds ack
        wait 1s
        set lds l=1   | td<
        wait 4s       | td< lds heartbeat k~10s
        td> lds ack
        wait 5s       | td< lds heartbeat k~10s
        td> lds ack
        wait 5s       | td< lds heartbeat k~10s
        td> lds ack
        wait 1s       | td< lds changed l=1
        td> lds ack
        == waiting resource is renewed meanwhile [IS27 M161 M163]
        set cds c=1; lds l~10s=1
        td> cds +*           | td< cds first c=1
        td> cds ack
        td> lds +*           | td< lds first l~10s=1
        td> lds ack
        set cds c=2; lds m=1 | td< cds changed c=2
        td> lds +*           | td<
        wait 5s              | td< lds heartbeat l~10s
        td> lds ack          | td<
        td> cds ack          | td< lds changed l~10s=1 m=1
        td> lds ack          | td<
        == NACKed resource is not renewed [IS27 M167]
        set cds c=1; lds l~10s=1
        td> cds +*           | td< cds first c=1
        td> cds ack
        td> lds +*           | td< lds first l~10s=1
        set cds c=2; lds m=1 | td< cds changed c=2
        td> lds +*
        td> lds nack
        wait 5s              | td<
        == renewed cluster does not restart the wait for an EDS request [IS17 M148 M150]
        set cds a~20s=eds b=eds; eds b=1; lds l=1
        t> lds l    | t< lds first l=1
        t> lds l
        t> cds      | t< cds first a~20s=eds b=eds
        t> cds a b  | t< cds resubscribed a~20s=eds b=eds
        t> cds a b
        t> eds a
        set lds l=2 | t<
        wait 10s    | t< cds heartbeat a~20s=eds b=eds
        t> cds a b
        wait 5s     | t< lds changed l=2
        ",
    );
}

#[test]
fn nacked_resource_blocks_dependents_until_acked() {
    let script = started(
        "
        settled-delta
        set cds b=bad; rds r=2 | d< cds changed b=bad
        d> cds nack            | d<
        # an ACK of another resource does not count
        d> cds +a              | d< cds resubscribed a=1
        d> cds ack             | d<
        set cds b=2            | d< cds changed b=2
        d> cds ack             | d< rds changed r=2
        ",
    );
    let mut config = gated(|_| ());
    config.type_defaults.full_state.nack_recovery = NackRecovery::ResendBatch;
    config.type_defaults.others.nack_recovery = NackRecovery::ResendBatch;
    run_all_with(&config, &[("M148", &script)]);
}

// A NACK of endpoints that are gone does not count as an ACK of later ones.
#[test]
fn nack_of_removed_endpoints_waits_for_new_ones() {
    let mut rig = Rig::new(gated(|policy| policy.references = None));
    rig.run(
        "
        set cds a=1; eds a=1; rds r=1
        > cds       | < cds first a=1
        > cds
        > eds a
        > rds r     | < eds first a=1
        set eds -a
        > eds nack a
        set eds a=2 | < eds changed a=2 | <
        > eds a     | < rds first r=1
        ",
    );
    println!("covers: M146 M148");
}

// A removal that is withheld brings back what the client accepted, so that nothing counts as rejected. The
// rejected content may then come back too, and the client still lacks it.
#[test]
fn rejected_content_that_comes_back_is_sent_again() {
    run("
        == full state [M107 M148]
        settled
        set cds b=1          | < cds changed a=1 b=1
        > cds
        set cds b=2          | < cds changed a=1 b=2
        > cds nack
        set cds -b; rds r=2  | < rds changed r=2  # b stays as accepted until the route is accepted
        set cds b=2; rds r=3 | < cds changed a=1 b=2
        > rds r              | <
        > cds                | < rds changed r=3
        > rds r              | <
        ");
}

// A rejected state without resources leaves nothing to be rejected. If the client then adds a name, nothing has
// changed.
#[test]
fn name_added_after_nack_of_empty_state_is_no_change() {
    let config = gated(|_| ()).with_every_type(|it| it.missing = Missing::NotFound);
    let mut rig = Rig::new(config);
    rig.run(
        "
        > cds *        | < cds first
        > cds nack *   | <
        > cds * a      | < cds resubscribed !a=5
        > cds nack * a | <
        ",
    );
    println!("covers: M107 M148");
}

// A client that rejects a version of a cluster goes on with the one before, which may never get the endpoints
// that it names.
#[test]
fn listener_waits_for_a_cluster_left_without_endpoints() {
    run("
        == removed before they were requested [M148 M150]
        set cds a=eds:e; eds e=1; lds l=1
        d> cds +*   | d< cds first a=eds:e
        d> cds ack
        set cds a=eds:f; eds f=1
                    | d< cds changed a=eds:f
        d> cds nack
        set eds -e; cds b=1
                    | d< cds changed a=eds:f b=1
        d> cds nack
        d> eds +e +f
                    | d< eds first f=1 -e
        d> eds ack
        set cds b=2 | d< cds changed b=2
        d> cds ack
        d> lds +*   | d<
        set cds a=eds:g; eds g=1
                    | d< cds changed a=eds:g
        d> cds ack  | d<
        d> eds +g   | d< eds resubscribed g=1
        d> eds ack  | d< lds first l=1
        ");
}
