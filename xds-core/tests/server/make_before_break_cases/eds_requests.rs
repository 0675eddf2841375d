//! Repeated EDS requests of state-of-the-world clients: as a proxy does, once for each new or
//! changed cluster and not otherwise.

use super::*;

/// A settled client with a cluster `b` that references endpoints of its own name.
const WARMED: &str = "
    settled
    set cds b=eds; eds b=1; rds r=2 | < cds changed a=1 b=eds
    > eds a b                       | < eds resubscribed a=1 b=1
    > cds
    > eds a b                       | < rds changed r=2
    > rds r                         | <
";

/// The incremental equivalent of [`WARMED`].
const WARMED_DELTA: &str = "
    settled-delta
    set cds b=eds; eds b=1; rds r=2 | d< cds changed b=eds
    d> cds ack
    d> eds +b                       | d< eds resubscribed b=1
    d> eds ack                      | d< rds changed r=2
    d> rds ack                      | d<
";

const STARTS: [(&str, &str); 4] = [
    ("warmed", WARMED),
    ("warmed-delta", WARMED_DELTA),
    ("settled", SETTLED),
    ("settled-delta", SETTLED_DELTA),
];

#[test]
fn eds_request_is_awaited_only_for_new_or_changed_clusters() {
    run_table(
        &gated(|_| ()),
        &STARTS,
        "
        == cluster restored before it was sent needs no EDS request [M146 M151]
        warmed
        set cds c=1 | < cds changed a=1 b=eds c=1
        set cds b=eds:b
        set cds b=eds c=2; rds r=3
        > cds       | < cds changed a=1 b=eds c=2
        > cds       | < rds changed r=3  # b is unchanged, so no EDS request
        == cluster restored at once needs no EDS request [M146 M151]
        warmed
        set cds b=eds:b
        set cds b=eds
        set cds c=1; rds r=3 | < cds changed a=1 b=eds c=1
        > cds                | < rds changed r=3
        == cluster restored after an ACKed change needs an EDS request [M146 M151]
        warmed
        set cds b=eds:b        | < cds changed a=1 b=eds:b
        > eds a b              | < eds warming a=1 b=1
        > cds
        > eds a b
        set cds b=eds
        set cds b=eds:b
        set cds b=eds; rds r=3 | < cds changed a=1 b=eds
        > cds                  | <  # the EDS request is missing
        > eds a b              | < eds warming a=1 b=1 | <
        > eds a b              | < rds changed r=3
        == cluster removed and restored several times needs no EDS request [M146 M151]
        warmed
        set cds c=1 | < cds changed a=1 b=eds c=1
        set cds -b
        set cds b=eds
        set cds -b
        set cds b=eds:b
        set cds -b
        set cds b=eds c=2; rds r=3
        > cds       | < cds changed a=1 b=eds c=2
        > cds       | < rds changed r=3
        == cluster kept for its routes and restored needs no EDS request [M146 M147 M151]
        warmed
        set cds -b c=1; rds r=3 | < cds changed a=1 b=eds c=1
        > cds                   | < rds changed r=3
        set cds b=eds:b
        set cds -b
        set cds b=eds; lds l=2  | < cds changed a=1 b=eds c=1
        > cds                   | < lds changed l=2
        == cluster used from a NACKed response needs no second request [M146 M148 M151]
        warmed
        set cds b=eds:b c=bad; rds r=3 | < cds changed a=1 b=eds:b c=bad
        > eds a b                      | < eds warming a=1 b=1  # b is used, and warms
        > cds nack
        > eds a b                      | <
        set cds c=2                    | < cds changed a=1 b=eds:b c=2
        > cds                          | < rds changed r=3
        == EDS request crosses other endpoints [M146 M148 M151]
        warmed
        set cds b=eds:b c=bad; rds r=3 | < cds changed a=1 b=eds:b c=bad
        set eds b=2                    | < eds changed a=1 b=2
        > eds nonce:8 a b
        > cds nack
        > eds a b                      | <
        set cds c=2                    | < cds changed a=1 b=eds:b c=2
        > cds                          | < rds changed r=3
        == second NACK has nothing to warm [M146 M148 M151]
        warmed
        set cds b=eds:b c=bad; rds r=3 | < cds changed a=1 b=eds:b c=bad
        > eds a b                      | < eds warming a=1 b=1
        > cds nack
        > eds a b
        set cds c=worse                | < cds changed a=1 b=eds:b c=worse
        > cds nack
        set cds c=2                    | < cds changed a=1 b=eds:b c=2
        > cds                          | < rds changed r=3
        == unused cluster needs a request once ACKed [M146 M148 M151]
        warmed
        set cds b=eds:b c=bad; rds r=3 | < cds changed a=1 b=eds:b c=bad
        > cds nack
        set eds b=2                    | < eds changed a=1 b=2  # unrelated to clusters
        > eds a b
        set cds c=2                    | < cds changed a=1 b=eds:b c=2
        > cds                          | <
        > eds a b                      | < eds warming a=1 b=2 | <
        > eds a b                      | < rds changed r=3
        == repaired cluster needs a request [M146 M148 M151]
        warmed
        set cds b=bad c=eds:b; rds r=3 | < cds changed a=1 b=bad c=eds:b
        > eds a b                      | < eds warming a=1 b=1
        > cds nack
        > eds a b
        set cds b=eds:b                | < cds changed a=1 b=eds:b c=eds:b
        > cds                          | <
        > eds a b                      | < eds warming a=1 b=1
        > eds a b                      | < rds changed r=3
        == unchanged cluster without endpoints was never warm [M146 M151 IS17]
        settled
        set cds b=eds | < cds changed a=1 b=eds
        > eds a b     | < eds warming a=1
        > cds
        > eds a b
        set cds c=1   | < cds changed a=1 b=eds c=1
        set cds b=eds:b; lds l=2
        set eds a=2   | < eds changed a=2
        > eds a b
        set cds b=eds c=2; eds b=1
        > cds         | < cds changed a=1 b=eds c=2
        > cds         | < eds changed a=2 b=1 | <
        > eds a b     | < lds changed l=2
        == incremental: restored cluster gets endpoints unasked [M146 M151]
        warmed-delta
        set cds c=1 | d< cds changed c=1
        set cds b=eds:b
        set cds b=eds; rds r=3
        d> cds ack  | d< cds changed b=eds | d< eds warming b=1
        d> cds ack
        d> eds ack  | d< rds changed r=3
        == incremental: unaccepted cluster leaves nothing to wait for [M146 M151]
        warmed-delta
        set cds b=eds:b          | d< cds changed b=eds:b | d< eds warming b=1
        d> cds ack
        set cds c=eds:x; lds l=2 | d< cds changed c=eds:x
        set cds c=1
        d> cds ack               | d< cds changed c=1
        d> eds ack
        d> cds ack               | d< lds changed l=2
        == incremental: endpoints are sent unasked after a NACK [M146 M148 M151]
        warmed-delta
        set cds b=eds:b c=bad; rds r=3 | d< cds changed b=eds:b c=bad | d< eds warming b=1
        d> eds ack
        d> cds nack                    | d<
        set cds c=2                    | d< cds changed b=eds:b c=2 | d< eds warming b=1
        d> cds ack
        d> eds ack                     | d< rds changed r=3
        ",
    );
}

// A client that did not repeat an EDS request is waited for again after it has sent one.
#[test]
fn client_that_requests_eds_again_is_waited_for_again() {
    let mut rig = Rig::new(gated(|_| ()));
    rig.run(&expanded(
        &STARTS,
        "
        warmed
        set cds b=eds:b; rds r=3 | < cds changed a=1 b=eds:b
        > cds
        wait 5s                  | < rds changed r=3
        > rds r
        set cds b=eds; rds r=4   | < cds changed a=1 b=eds
        > cds                    | < rds changed r=4  # it sent no request the last time
        > rds r
        set cds b=eds:b; rds r=5 | < cds changed a=1 b=eds:b
        > eds a b                | < eds warming a=1 b=1
        > cds
        > eds a b                | < rds changed r=5
        > rds r
        set cds b=eds; rds r=6   | < cds changed a=1 b=eds
        > cds                    | <
        > eds a b                | < eds warming a=1 b=1
        > eds a b                | < rds changed r=6
        ",
    ));
    let again = (
        String::from("rds"),
        BlockedChange::Changes,
        String::from("eds"),
        BlockedBy::NotRequestedAgain,
    );
    assert_eq!(held(&mut rig), [again]);
    println!("covers: IS17 M148");
}

// A client that states the version of all clusters has them, and requests EDS only for others.
#[test]
fn reconnected_client_requests_eds_only_for_changed_clusters() {
    for (name, rest) in [
        (
            "changed cluster without EDS",
            "
        2> eds b             | 2< lds first l=1
        2> lds
        set cds c=1; lds l=2 | 2< cds changed a=1 b=eds c=1
        2> cds               | 2< lds changed l=2
        2> lds               | 2<
        ",
        ),
        (
            "pending endpoints may warm the clusters",
            "
        set cds c=1; lds l=2 | 2< cds changed a=1 b=eds c=1
        2> cds               | 2<
        2> eds b             | 2< eds warming b=1 | 2<
        2> eds b             | 2< lds first l=2
        2> lds               | 2<
        ",
        ),
        (
            "changed cluster needs an EDS request",
            "
        2> eds b                 | 2< lds first l=1
        2> lds
        set cds c=eds:b; lds l=2 | 2< cds changed a=1 b=eds c=eds:b
        2> cds                   | 2<
        2> eds b                 | 2< eds warming b=1 | 2<
        2> eds b                 | 2< lds changed l=2
        ",
        ),
        (
            "cluster of another view needs an EDS request",
            "
        2> eds b   | 2< lds first l=1
        2> lds
        set @v cds b=eds:e; eds e=1; lds l=2
        assign 2 v | 2< cds changed a=1 b=eds:e
        2> cds     | 2<
        2> eds e   | 2< eds resubscribed e=1 | 2<
        2> eds e   | 2< lds changed l=2
        ",
        ),
    ] {
        println!("case {name}");
        let mut rig = Rig::new(gated(|_| ()));
        rig.run(
            "
            set cds a=1 b=eds; eds b=1; lds l=1
            > cds | < cds first a=1 b=eds
            ",
        );
        let version = rig.server.status().find_map(|it| it.sent_version).expect("a version");
        rig.run(&format!(
            "
            close
            2> cds version:{version}
            2> eds b
            2> lds | 2< eds first b=1
            {rest}"
        ));
    }
    println!("covers: M41 M146 M151 M223 IS17");
}
