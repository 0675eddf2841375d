//! Removals withheld while an ACKed resource of the client may reference them.
// M147

use super::*;

#[test]
fn removal_is_deferred_until_references_are_gone() {
    run("
        == SotW cluster stays until routes are ACKed [M147 S0.160 S0.166]
        settled
        set cds -a b=1; eds -a b=1; rds r=2 | < cds changed a=1 b=1  # old and new cluster
        > cds
        > eds a b                           | < eds resubscribed b=1
        > eds a b                           | < rds changed r=2 | <
        > rds r                             | < cds changed b=1
        > cds
        > eds b                             | < eds warming b=1
        > eds b                             | <
        == incremental cluster, then its endpoints, stay until unreferenced [M147 S0.160 S0.166]
        settled-delta
        set cds -a b=1; eds -a b=1; rds r=2 | d< cds changed b=1
        d> cds ack
        d> eds +b                           | d< eds resubscribed b=1
        d> eds ack                          | d< rds changed r=2 | d<
        # the endpoints are removed after the cluster
        d> rds ack                          | d< cds changed -a | d<
        d> cds ack                          | d< eds changed -a
        d> eds ack                          | d<
        == replacement of all types: additions in order, removals in reverse [B55 M144 M146 M147]
        settled-delta
        set cds -a b=eds; eds -a b=1; lds -l m=1; rds -r s=1 | d< cds changed b=eds | d<
        d> cds ack                                     | d<
        d> eds +b                                      | d< eds resubscribed b=1 | d<
        d> eds ack                                     | d< lds changed m=1 -l | d<
        d> rds +s                                      | d<
        d> lds ack                                     | d< rds changed s=1 -r | d<
        d> rds ack                                     | d< cds changed -a | d<
        d> cds ack                                     | d< eds changed -a
        d> eds ack                                     | d<
        == routes without a listener are removed at once [M147 S0.166]
        settled-delta
        set lds -l m=1; rds -r s=1 | d< lds changed m=1 -l
        d> rds +s                  | d<
        # routes without a listener are removed at once
        d> lds ack                 | d< rds changed s=1 -r
        d> rds ack                 | d<
        == only the last removals are deferred [M147 M81]
        settled
        set cds -a; rds r=2 | < rds changed r=2 | <
        set cds b=1         | < cds changed a=1 b=1
        set cds b=2 c=1
        > cds               | < cds changed a=1 b=2 c=1
        set cds -c
        > cds               | <
        > rds r             | < cds changed b=2
        > cds               | <
        == resource removed before it was sent [M147]
        settled
        set cds x=1  # removed before it was sent
        set cds -x           | <
        set cds y=1; rds r=2 | < cds changed a=1 y=1
        > cds                | < rds changed r=2
        > rds r              | <
        == named cluster stays until routes are ACKed [M147 M115]
        set cds a=1 b=1; rds r=1
        d> cds +a +b            | d< cds first a=1 b=1
        d> cds ack
        d> rds +r               | d< rds first r=1
        d> rds ack
        set cds -a b=2; rds r=2 | d< cds changed b=2
        d> cds ack              | d< rds changed r=2 | d<
        d> rds ack              | d< cds changed -a
        d> cds ack              | d<
        == reconnected client keeps referenced clusters [M147 M117]
        settled-delta
        close
        set cds -a b=1; rds r=2
        2d> cds +* has:a=1
        2d> rds +r has:r=1 | 2d< cds first b=1
        2d> cds ack        | 2d< rds first r=2 | 2d<
        2d> rds ack        | 2d< cds changed -a
        2d> cds ack        | 2d<
        == reconnected client that has not yet subscribed to routes keeps their clusters [M147 M117]
        settled-delta
        close
        set cds -a b=1; rds r=2
        2d> cds +* has:a=1 | 2d< cds first b=1
        2d> rds +r has:r=1
        2d> cds ack        | 2d< rds first r=2 | 2d<
        2d> rds ack        | 2d< cds changed -a
        2d> cds ack        | 2d<
        == first response is empty if everything in it is withheld [M147 IL1]
        settled-delta
        close
        set cds -a
        2d> cds +a has:a=1 | 2d< cds first | 2d<
        2d> cds ack        | 2d< cds changed -a
        2d> cds ack        | 2d<
        == removals after a first response without ACK [M147 M148]
        settled-delta
        close
        set cds -a
        2d> cds +* has:a=1 | 2d< cds first
        2d> cds nack       | 2d< cds changed -a
        2d> cds ack        | 2d<
        == clusters of both views are not re-sent but deferred [M147 M223]
        settled
        set @v cds a=1; lds l=2
        assign 1 v                 | < lds changed l=2
        > lds                      | <
        set @v cds -a b=1; lds l=3 | < cds changed a=1 b=1
        > cds                      | < lds changed l=3 | <
        > lds                      | < cds changed b=1
        > cds                      | <
        == incremental removal is deferred for hours [M147 M231]
        settled-delta
        set cds -a b=1; rds r=2 | d< cds changed b=1
        d> cds ack              | d< rds changed r=2
        set cds -b
        wait 7200s              | d<
        d> rds ack              | d< cds changed -a -b
        d> cds ack              | d<
        == SotW removal is deferred for hours [M147 M231]
        settled
        set rds r=2 | < rds changed r=2
        set cds -a
        wait 7200s
        set cds b=1 | < cds changed a=1 b=1
        > cds
        > rds r     | < cds changed b=1
        == removal after a pending ACK is deferred for hours [M147 M231]
        settled-delta
        set rds r=2 | d< rds changed r=2
        set cds -a
        wait 7200s
        set cds b=1 | d< cds changed b=1
        d> cds ack
        d> rds ack  | d< cds changed -a
        == client with a NACK across a view change keeps referenced clusters [M147 M223]
        set @v cds a=1 c=3; lds l=1
        set cds a=1 c=1; lds l=1
        d> cds +*   | d< cds first a=1 c=1
        d> cds ack
        d> lds +*   | d< lds first l=1
        d> lds ack
        set cds c=2 | d< cds changed c=2
        assign 1 v
        set @v cds b=1 -c; lds l=2
        d> cds nack | d< cds changed b=1
        d> cds ack  | d< lds changed l=2 | d<  # the client holds the first version of c
        d> lds ack  | d< cds changed -c
        d> cds ack  | d<
        == deferred removal does not repeat a heartbeat [IS5 IS27 M48 M147]
        set cds a=1 b~10s=1; lds l=1
        t> cds a b          | t< cds first a=1 b~10s=1
        t> cds a b
        t> lds              | t< lds first l=1
        t> lds
        set cds -a; lds l=2 | t< lds changed l=2  # the cluster stays until this is accepted
        wait 5s             | t< cds heartbeat a=1 b~10s=1
        wait 5s  # the next heartbeat is due
        t> cds a            | t<
        t> lds              | t< cds changed
        t> cds a            | t<
        == NACKed complete response gets no heartbeat [IS4 IS27 M147 M167]
        set cds a=1 b~10s=1; lds l=1
        t> cds a b          | t< cds first a=1 b~10s=1
        t> cds a b
        t> lds              | t< lds first l=1
        t> lds
        set cds b~10s=2     | t< cds changed a=1 b~10s=2
        t> cds nack a b
        set cds -a; lds l=2 | t<
        wait 5s             | t<
        ");
}

// A client that requests a resource again whose removal is withheld waits for the answer as long as the
// removal does, and at most for the time limit.
#[test]
fn requested_removal_waits_for_references() {
    run("
        == a resource of the wildcard is requested by name [M147 M97]
        settled-delta
        set cds -a; rds r=2 | d< rds changed r=2
        d> cds +a           | d<
        d> rds ack          | d< cds changed -a
        d> cds ack          | d<
        == a removal that was left out of a response is requested [M147 M97]
        settled-delta
        set cds -a b=1; rds r=2 | d< cds changed b=1
        d> cds ack              | d< rds changed r=2 | d<
        d> cds +a               | d<
        d> rds ack              | d< cds changed -a
        d> cds ack              | d<
        == a resource is requested that is subscribed to by name [M147 M115 M97]
        set cds a=1 b=1; rds r=1
        d> cds +a +b        | d< cds first a=1 b=1
        d> cds ack
        d> rds +r           | d< rds first r=1
        d> rds ack
        set cds -a; rds r=2 | d< rds changed r=2
        d> cds +a           | d<
        set cds b=2         | d< cds changed b=2
        d> cds ack          | d<
        d> rds ack          | d< cds changed -a
        d> cds ack          | d<
        == a resource is removed after it was requested [M147 M97]
        set cds a=1 b=1; rds r=1
        d> cds +a +b        | d< cds first a=1 b=1
        d> cds ack
        d> rds +r           | d< rds first r=1
        d> rds ack
        set cds b=2         | d< cds changed b=2
        d> cds +a
        set cds -a; rds r=2
        d> cds ack          | d< rds changed r=2 | d<
        d> rds ack          | d< cds changed -a
        d> cds ack          | d<
        == a client unsubscribes from a removed name that the wildcard covers [M147 M91]
        set cds a=1 b=1; rds r=1
        d> cds +* +a        | d< cds first a=1 b=1
        d> cds ack
        d> rds +r           | d< rds first r=1
        d> rds ack
        set cds -a; rds r=2 | d< rds changed r=2
        d> cds -a           | d<
        d> rds ack          | d< cds changed -a
        d> cds ack          | d<
        == a requested resource comes back [M147 M97]
        settled-delta
        set cds -a; rds r=2 | d< rds changed r=2
        d> cds +a           | d<
        set cds a=2         | d< cds changed a=2
        d> cds ack
        d> rds ack          | d<
        == the answer is due after the time limit, without other removals [M147 M148]
        set cds a=1 b=1; lds l=1; rds r=1
        d> cds +*              | d< cds first a=1 b=1
        d> cds ack
        d> lds +*              | d< lds first l=1
        d> lds ack
        d> rds +r              | d< rds first r=1
        d> rds ack
        set cds -a -b; rds r=2 | d< rds changed r=2
        d> cds +a
        wait 4s                | d<
        wait 1s                | d< cds changed -a | d<
        d> cds ack             | d<
        d> rds ack             | d< cds changed -b
        d> cds ack             | d<
        == the answer to a request is due even if changes wait [M148]
        set cds a=1; lds l=1; rds r=1 s=1
        d> cds +*           | d< cds first a=1
        d> cds ack
        d> lds +*           | d< lds first l=1
        d> lds ack
        d> rds +r +s        | d< rds first r=1 s=1
        d> rds ack
        set cds b=1; lds l=2; rds -r s=2 | d< cds changed b=1
        d> rds +r
        wait 4s             | d<
        wait 1s             | d< rds changed -r | d<
        d> rds ack          | d<
        d> cds ack          | d< lds changed l=2 | d<
        d> lds ack          | d< rds changed s=2
        == moved to another view before the answer [M147 M223]
        settled-delta
        set @v cds b=1; lds l=1; rds r=3
        set cds -a; rds r=2 | d< rds changed r=2
        d> cds +a           | d<
        assign 1 v          | d< cds changed b=1
        d> cds ack          | d<
        d> rds ack          | d< rds changed r=3 | d<
        d> rds ack          | d< cds changed -a
        ");
}

// M83, M231: deferred removals are limited like retained deletions.
#[test]
fn deferred_removals_are_limited() {
    let mut config = gated(|_| ());
    config.limits.deletions_per_type = 2;
    run_all_with(
        &config,
        &[(
            "M147 M231",
            "
            set cds a=1 b=1 c=1 d=1; rds r=1
            > cds       | < cds first a=1 b=1 c=1 d=1
            > cds
            > rds r     | < rds first r=1
            > rds r
            set rds r=2 | < rds changed r=2
            set cds -a
            set cds -b
            set cds -c
            set cds e=1 | < cds changed c=1 d=1 e=1
            > cds
            > rds r     | < cds changed d=1 e=1
            > cds       | <
            ",
        )],
    );
}

// A cluster whose removal waits for routes stays in the client's state if the client no longer names it, but
// still subscribes to all clusters.
#[test]
fn removal_stays_deferred_when_name_is_dropped_beside_wildcard() {
    run("
        == full state [M147]
        set cds a=1 b=1; rds r=1
        > cds * a             | < cds first a=1 b=1
        > cds * a
        > rds r               | < rds first r=1
        > rds r
        set cds -a; rds r=2   | < rds changed r=2
        > cds *               | <
        set cds b=2           | < cds changed b=2 a=1
        > cds *               | <
        > rds r               | < cds changed b=2
        ");
}
