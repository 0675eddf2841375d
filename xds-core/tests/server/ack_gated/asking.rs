//! State-of-the-world clients that ask for endpoints again, as a proxy does: once for each cluster that is
//! new or other than what they had, and not otherwise.

use super::*;

/// The same client with a cluster `b` that names endpoints of its own name, and a listener.
fn warmed(rest: &str) -> String {
    settled(&format!(
        "
        set cds b=eds; eds b=1; rds r=2
        < cds changed a=1 b=eds
        > eds a b
        < eds resubscribed a=1 b=1
        > cds
        > eds a b
        < rds changed r=2
        > rds r
        <
        {rest}"
    ))
}

#[test]
fn a_cluster_that_changed_back_is_not_asked_about() {
    run(&[
        (
            "M146 M151",
            warmed(
                "
            set cds c=1
            < cds changed a=1 b=eds c=1
            set cds b=eds:b
            set cds b=eds c=2; rds r=3
            > cds
            < cds changed a=1 b=eds c=2
            > cds                    # it has b like that, and asks nothing
            < rds changed r=3
        ",
            ),
        ),
        (
            "M146 M151",
            warmed(
                "
            set cds b=eds:b
            set cds b=eds
            set cds c=1; rds r=3
            < cds changed a=1 b=eds c=1
            > cds
            < rds changed r=3
        ",
            ),
        ),
        // It is what the client has that counts, not what it was before the last change.
        (
            "M146 M151",
            warmed(
                "
            set cds b=eds:b
            < cds changed a=1 b=eds:b
            > eds a b
            < eds warming a=1 b=1
            > cds
            > eds a b
            set cds b=eds
            set cds b=eds:b
            set cds b=eds; rds r=3
            < cds changed a=1 b=eds
            > cds
            <                        # it has yet to ask
            > eds a b
            < eds warming a=1 b=1
            <
            > eds a b
            < rds changed r=3
        ",
            ),
        ),
    ]);
}

#[test]
fn a_cluster_that_went_and_came_back_several_times_is_not_asked_about() {
    run(&[
        (
            "M146 M151",
            warmed(
                "
            set cds c=1
            < cds changed a=1 b=eds c=1
            set cds -b
            set cds b=eds
            set cds -b
            set cds b=eds:b
            set cds -b
            set cds b=eds c=2; rds r=3
            > cds
            < cds changed a=1 b=eds c=2
            > cds
            < rds changed r=3
        ",
            ),
        ),
        // It was gone, but for this client, whose routes were not new yet.
        (
            "M146 M147 M151",
            warmed(
                "
            set cds -b c=1; rds r=3
            < cds changed a=1 b=eds c=1
            > cds
            < rds changed r=3
            set cds b=eds:b
            set cds -b
            set cds b=eds; lds l=2
            < cds changed a=1 b=eds c=1
            > cds
            < lds changed l=2
        ",
            ),
        ),
    ]);
}

/// A proxy takes what is good of a response that it rejects, unless it cannot be read.
#[test]
fn clusters_that_were_taken_from_a_rejected_response_are_not_asked_about_again() {
    run(&[
        (
            "M146 M148 M151",
            warmed(
                "
            set cds b=eds:b c=bad; rds r=3
            < cds changed a=1 b=eds:b c=bad
            > eds a b                # b is taken, and warms
            < eds warming a=1 b=1
            > cds nack
            > eds a b
            <
            set cds c=2
            < cds changed a=1 b=eds:b c=2
            > cds
            < rds changed r=3
        ",
            ),
        ),
        // The request crossed other endpoints.
        (
            "M146 M148 M151",
            warmed(
                "
            set cds b=eds:b c=bad; rds r=3
            < cds changed a=1 b=eds:b c=bad
            set eds b=2
            < eds changed a=1 b=2
            > eds nonce:8 a b
            > cds nack
            > eds a b
            <
            set cds c=2
            < cds changed a=1 b=eds:b c=2
            > cds
            < rds changed r=3
        ",
            ),
        ),
        // Rejected twice; only the first time there was anything to warm.
        (
            "M146 M148 M151",
            warmed(
                "
            set cds b=eds:b c=bad; rds r=3
            < cds changed a=1 b=eds:b c=bad
            > eds a b
            < eds warming a=1 b=1
            > cds nack
            > eds a b
            set cds c=worse
            < cds changed a=1 b=eds:b c=worse
            > cds nack
            set cds c=2
            < cds changed a=1 b=eds:b c=2
            > cds
            < rds changed r=3
        ",
            ),
        ),
        // Nothing of it was taken, so that it asks once it is.
        (
            "M146 M148 M151",
            warmed(
                "
            set cds b=eds:b c=bad; rds r=3
            < cds changed a=1 b=eds:b c=bad
            > cds nack
            set eds b=2              # which says nothing of clusters
            < eds changed a=1 b=2
            > eds a b
            set cds c=2
            < cds changed a=1 b=eds:b c=2
            > cds
            <
            > eds a b
            < eds warming a=1 b=2
            <
            > eds a b
            < rds changed r=3
        ",
            ),
        ),
        // What is repaired is new.
        (
            "M146 M148 M151",
            warmed(
                "
            set cds b=bad c=eds:b; rds r=3
            < cds changed a=1 b=bad c=eds:b
            > eds a b
            < eds warming a=1 b=1
            > cds nack
            > eds a b
            set cds b=eds:b
            < cds changed a=1 b=eds:b c=eds:b
            > cds
            <
            > eds a b
            < eds warming a=1 b=1
            > eds a b
            < rds changed r=3
        ",
            ),
        ),
    ]);
}

/// An incremental client is sent endpoints unasked.
#[test]
fn who_is_sent_endpoints_unasked_is_not_waited_for() {
    let warmed = |rest: &str| {
        settled_incrementally(&format!(
            "
            set cds b=eds; eds b=1; rds r=2
            d< cds changed b=eds
            d> cds ack
            d> eds +b
            d< eds resubscribed b=1
            d> eds ack
            d< rds changed r=2
            d> rds ack
            d<
            {rest}"
        ))
    };
    run(&[
        (
            "M146 M151",
            warmed(
                "
            set cds c=1
            d< cds changed c=1
            set cds b=eds:b
            set cds b=eds; rds r=3
            d> cds ack
            d< cds changed b=eds
            d< eds warming b=1
            d> cds ack
            d> eds ack
            d< rds changed r=3
        ",
            ),
        ),
        // A cluster that it did not get to ask about leaves nothing to wait for.
        (
            "M146 M151",
            warmed(
                "
            set cds b=eds:b
            d< cds changed b=eds:b
            d< eds warming b=1
            d> cds ack
            set cds c=eds:x; lds l=2
            d< cds changed c=eds:x
            set cds c=1
            d> cds ack
            d< cds changed c=1
            d> eds ack
            d> cds ack
            d< lds changed l=2
        ",
            ),
        ),
        (
            "M146 M148 M151",
            warmed(
                "
            set cds b=eds:b c=bad; rds r=3
            d< cds changed b=eds:b c=bad
            d< eds warming b=1
            d> eds ack
            d> cds nack
            d<
            set cds c=2
            d< cds changed b=eds:b c=2
            d< eds warming b=1
            d> cds ack
            d> eds ack
            d< rds changed r=3
        ",
            ),
        ),
    ]);
}

/// Who did not ask again when it should have is waited for once more when it has asked since.
#[test]
fn who_asks_again_is_waited_for_again() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&warmed(
        "
        set cds b=eds:b; rds r=3
        < cds changed a=1 b=eds:b
        > cds
        wait 5s
        < rds changed r=3
        > rds r
        set cds b=eds; rds r=4
        < cds changed a=1 b=eds
        > cds                        # it did not the last time
        < rds changed r=4
        > rds r
        set cds b=eds:b; rds r=5
        < cds changed a=1 b=eds:b
        > eds a b
        < eds warming a=1 b=1
        > cds
        > eds a b
        < rds changed r=5
        > rds r
        set cds b=eds; rds r=6
        < cds changed a=1 b=eds
        > cds
        <
        > eds a b
        < eds warming a=1 b=1
        > eds a b
        < rds changed r=6
        ",
    ));
    let again =
        (String::from("rds"), HeldBack::Changes, String::from("eds"), HeldBy::NotAskedAgain);
    assert_eq!(held(&mut rig), [again]);
    println!("covers: IS17 M148");
}

/// What a client has it may not have warmed: the endpoints were gone when it asked for them.
#[test]
fn a_cluster_that_never_was_warm_is_waited_for_though_it_is_as_it_was() {
    run(&[(
        "M146 M151 IS17",
        settled(
            "
            set cds b=eds
            < cds changed a=1 b=eds
            > eds a b
            < eds warming a=1
            > cds
            > eds a b
            set cds c=1
            < cds changed a=1 b=eds c=1
            set cds b=eds:b; lds l=2
            set eds a=2
            < eds changed a=2
            > eds a b
            set cds b=eds c=2; eds b=1
            > cds
            < cds changed a=1 b=eds c=2
            > cds
            < eds changed a=2 b=1
            <
            > eds a b
            < lds changed l=2
        ",
        ),
    )]);
}

/// A client that comes back with the version of all clusters has them, and asks only about others.
#[test]
fn what_a_client_has_when_it_comes_back_is_not_asked_about() {
    for rest in [
        "
        2> eds b
        2< lds first l=1
        2> lds
        set cds c=1; lds l=2
        2< cds changed a=1 b=eds c=1
        2> cds
        2< lds changed l=2
        2> lds
        2<
        ",
        // It may warm them yet, with the endpoints that are on their way.
        "
        set cds c=1; lds l=2
        2< cds changed a=1 b=eds c=1
        2> cds
        2<
        2> eds b
        2< eds warming b=1
        2<
        2> eds b
        2< lds first l=2
        2> lds
        2<
        ",
        // What changed since it does not have.
        "
        2> eds b
        2< lds first l=1
        2> lds
        set cds c=eds:b; lds l=2
        2< cds changed a=1 b=eds c=eds:b
        2> cds
        2<
        2> eds b
        2< eds warming b=1
        2<
        2> eds b
        2< lds changed l=2
        ",
        // Nor what is only in another view.
        "
        2> eds b
        2< lds first l=1
        2> lds
        set @v cds b=eds:e; eds e=1; lds l=2
        assign 2 v
        2< cds changed a=1 b=eds:e
        2> cds
        2<
        2> eds e
        2< eds resubscribed e=1
        2<
        2> eds e
        2< lds changed l=2
        ",
    ] {
        let mut rig = Rig::new(gated(|_| ()));
        rig.run(
            "
            set cds a=1 b=eds; eds b=1; lds l=1
            > cds
            < cds first a=1 b=eds
            ",
        );
        let version = rig.server.status().find_map(|it| it.sent_version).expect("a version");
        rig.run(&format!(
            "
            close
            2> cds version:{version}
            2> eds b
            2> lds
            2< eds first b=1
            {rest}"
        ));
    }
    println!("covers: M41 M146 M151 M223 IS17");
}
