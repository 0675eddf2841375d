//! Order of updates: each type waits for the ACKs of the types it references.
// M146 M149 M150

use super::*;

#[test]
fn update_waits_for_acks_of_referenced_types() {
    run("
        == each type waits for the ACK of the previous one [M146 IS17]
        set cds a=1; eds a=1; lds l=1; rds r=1; srds q=1; vhds v=1; ecds x=1
        > vhds v
        > srds q
        > rds r
        > lds
        > eds a
        > ecds x
        > cds    | < cds first a=1 | < eds first a=1 | <  # neither is ACKed
        > cds    | <
        > eds a  | < lds first l=1 | < ecds first x=1 | <
        > lds    | < rds first r=1
        > rds r  | < srds first q=1
        > srds q | < vhds first v=1 | <
        == SotW change waits for the CDS ACK [M146]
        settled
        set cds b=1; rds r=2 | < cds changed a=1 b=1 | <
        > rds r              | <  # a repeated request changes nothing
        > cds                | < rds changed r=2 | <
        == incremental change waits for the CDS ACK [M146]
        settled-delta
        set cds b=1; rds r=2 | d< cds changed b=1 | d<
        d> cds ack           | d< rds changed r=2 | d<
        == SotW client that learns of clusters from routes [M150 M158 IS17]
        set lds l=1; rds r=1; cds x=eds; eds x=1
        > lds l                               | < lds first l=1
        > lds l
        > rds r                               | < rds first r=1
        > rds r
        # clusters by name, from routes
        > cds x                               | < cds first x=eds
        > cds x
        > eds x                               | < eds first x=1
        > eds x
        set cds y=eds -x; eds y=1 -x; rds r=2 | < rds changed r=2  # routes first, which name y
        <  # x is still referenced
        > rds r
        > cds x y                             | < cds changed y=eds
        > cds y
        > eds y                               | < eds resubscribed y=1
        > eds y                               | <
        == incremental client that learns of clusters from routes [M150 M158 IS17]
        set lds l=1; rds r=1; cds x=eds; eds x=1
        d> lds +l                             | d< lds first l=1
        d> lds ack
        d> rds +r                             | d< rds first r=1
        d> rds ack
        # clusters by name, from routes
        d> cds +x                             | d< cds first x=eds
        d> cds ack
        d> eds +x                             | d< eds first x=1
        d> eds ack
        set cds y=eds -x; eds y=1 -x; rds r=2 | d< rds changed r=2  # routes first, which name y
        d<  # x is still referenced
        d> rds ack                            | d< cds changed -x
        d> cds ack +y                         | d< cds resubscribed y=eds
        # new clusters may have to be warmed
        d> cds ack -x                         | d<
        d> eds +y                             | d< eds resubscribed y=1
        d> eds ack                            | d< eds changed -x
        d> eds ack -x                         | d<
        == SotW cluster without routes is removed at once [M150 M147]
        set cds a=1 b=1
        > cds      | < cds first a=1 b=1
        > cds
        set cds -a | < cds changed b=1  # no routes
        > cds      | <
        == incremental cluster without routes is removed at once [M150 M147]
        set cds a=1 b=1
        d> cds +*  | d< cds first a=1 b=1
        d> cds ack
        set cds -a | d< cds changed -a
        d> cds ack | d<
        == SotW resource restored before its removal [M149]
        settled
        set cds -a b=1; rds r=2 | < cds changed a=1 b=1
        set cds a=2 -b; rds r=3
        > cds                   | < cds changed a=2 b=1
        > cds                   | < rds changed r=3
        > rds r                 | < cds changed a=2
        > cds                   | <
        == incremental resource restored before its removal [M149]
        settled-delta
        set cds -a b=1; rds r=2 | d< cds changed b=1
        set cds a=2 -b; rds r=3
        d> cds ack              | d< cds changed a=2
        d> cds ack              | d< rds changed r=3
        d> rds ack              | d< cds changed -b
        d> cds ack              | d<
        == restored and removed again before it was sent [M149]
        settled-delta
        set cds -a b=1; rds r=2 | d< cds changed b=1
        set cds a=2
        set cds -a
        d> cds ack              | d< rds changed r=2
        d> rds ack              | d< cds changed -a
        d> cds ack              | d<
        == restored unchanged [M149 M104]
        settled
        set cds -a
        set cds a=1 | <
        == routes wait only for earlier endpoints [M146 IS17]
        settled
        set eds a=2                   | < eds changed a=2
        set cds b=1; rds r=2; eds a=3 | < cds changed a=1 b=1
        > cds
        > eds a                       | < eds changed a=3
        set eds a=4
        > eds a                       | < rds changed r=2 | < eds changed a=4
        == removal waits only for earlier routes [M147 IS17]
        settled
        set cds -a; rds r=2 | < rds changed r=2
        set rds r=3
        # routes sent after the deletion are ACKed
        > rds r             | < rds changed r=3 | < cds changed
        == subscription to a missing resource is answered after a view change [M223 M92]
        set cds a=1; eds a=1
        set @v cds a=1; eds a=1
        d> cds +*  | d< cds first a=1
        d> eds +*  | d< eds first a=1
        d> eds ack
        d> eds +b -b
        assign 1 v | d< eds changed -b
        == SotW endpoints referenced by clusters are awaited [M146 M151]
        settled
        set cds b=eds c=eds:d; eds b=1 d=1; rds r=2 | < cds changed a=1 b=eds c=eds:d
        > cds                                       | <  # the EDS request is missing
        > eds a b                                   | < eds resubscribed a=1 b=1
        > eds a b                                   | <
        > eds a b d                                 | < eds resubscribed d=1 | <
        > eds a b d                                 | < rds changed r=2
        == incremental endpoints referenced by clusters are awaited [M146 M151]
        settled-delta
        set cds b=eds; eds b=1; rds r=2 | d< cds changed b=eds
        d> cds ack                      | d<
        d> eds +b                       | d< eds resubscribed b=1 | d<
        d> eds ack                      | d< rds changed r=2
        == wildcard EDS subscription includes referenced endpoints [M146]
        set cds a=eds; eds a=1; rds r=1
        > cds   | < cds first a=eds
        > cds
        > eds * | < eds first a=1  # the wildcard includes them
        > rds r | <
        > eds * | < rds first r=1
        ");
}

// One step is one response, whatever the configured window.
#[test]
fn window_is_one_response_with_make_before_break() {
    let config = gated(|_| ()).with_every_type(|it| it.window = Window::new(3));
    run_all_with(
        &config,
        &[(
            "M146 M113",
            "
            set cds a=1
            > cds       | < cds first a=1
            set cds b=1 | <
            > cds       | < cds changed a=1 b=1
            ",
        )],
    );
}

// Without an order, types are sent as they become due.
#[test]
fn ordering_off_sends_types_as_they_become_due() {
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::Off;
    run_all_with(
        &config,
        &[(
            "M144 S0.167",
            "
            set lds l=1; rds r=1; cds c=1; eds e=1
            > rds r
            > lds
            > cds       | < rds first r=1 | < lds first l=1 | < cds first c=1 | <
            > lds
            > rds r
            > cds
            set rds r=2
            set cds c=2
            set lds l=2 | < rds changed r=2
            > rds r
            set rds r=3 | < cds changed c=2 | < lds changed l=2 | < rds changed r=3 | <
            ",
        )],
    );
}

// Without references the server waits only for requested endpoints.
#[test]
fn without_reference_extractor_only_cds_acks_count() {
    let config = gated(|policy| policy.references = None);
    let script = started(
        "
        settled
        set cds b=eds; eds b=1; rds r=2 | < cds changed a=1 b=eds
        > cds                           | < rds changed r=2
        ",
    );
    run_all_with(&config, &[("M146", &script)]);
}

// Responses have room for one cluster. The client is never sent the first content of c, because it changes
// while the response is split, and rejects the second one twice.
#[test]
fn listener_waits_for_a_rejected_cluster_of_a_split_response() {
    let mut config = gated(|_| ());
    config.limits.response_bytes = 60;
    let mut rig = Rig::new(config);
    rig.run(
        "
        set cds a=long-content-of-a
        set cds c=long-content-of-c
        set cds b=long-content-of-b
        d> cds +*   | d< cds first a=long-content-of-a
        set lds l=1
        set cds c=other-content-of-c
        d> lds +*   | d<
        d> cds ack  | d< cds first b=long-content-of-b
        d> cds ack  | d< cds first c=other-content-of-c
        d> cds nack | d<
        set cds b=other-content-of-b | d< cds changed c=other-content-of-c
        d> cds nack | d< cds changed b=other-content-of-b
        d> cds ack  | d<  # the listener may lead to c
        set cds c=third-content-of-c | d< cds changed c=third-content-of-c
        d> cds ack  | d< lds first l=1
        ",
    );
    println!("covers: M146 M148");
}
