//! One step behind the other's ACK: what waits for what (M146, M149, M150).

use super::*;

#[test]
fn each_step_waits_for_the_ack_of_the_one_before() {
    run(&[
        (
            "M146 IS17",
            String::from(
                "
            set cds a=1; eds a=1; lds l=1; rds r=1; srds q=1; vhds v=1; ecds x=1
            > vhds v
            > srds q
            > rds r
            > lds
            > eds a
            > ecds x
            > cds
            < cds first a=1
            < eds first a=1
            <                        # neither is accepted
            > cds
            <
            > eds a
            < lds first l=1
            < ecds first x=1
            <
            > lds
            < rds first r=1
            > rds r
            < srds first q=1
            > srds q
            < vhds first v=1
            <
        ",
            ),
        ),
        (
            "M146",
            settled(
                "
            set cds b=1; rds r=2
            < cds changed a=1 b=1
            <
            > rds r                  # listing the route again opens nothing
            <
            > cds
            < rds changed r=2
            <
        ",
            ),
        ),
        (
            "M146",
            settled_incrementally(
                "
            set cds b=1; rds r=2
            d< cds changed b=1
            d<
            d> cds ack
            d< rds changed r=2
            d<
        ",
            ),
        ),
    ]);
}

#[test]
fn what_is_not_subscribed_is_not_waited_for() {
    run(&[
        (
            "M150 M158 IS17",
            String::from(
                "
            set lds l=1; rds r=1; cds x=eds; eds x=1
            > lds l
            < lds first l=1
            > lds l
            > rds r
            < rds first r=1
            > rds r
            > cds x                  # a client that learns of clusters from routes
            < cds first x=eds
            > cds x
            > eds x
            < eds first x=1
            > eds x
            set cds y=eds -x; eds y=1 -x; rds r=2
            < rds changed r=2        # it cannot ask for y before
            <                        # but it still routes to x
            > rds r
            > cds x y
            < cds changed y=eds
            > cds y
            > eds y
            < eds resubscribed y=1
            > eds y
            <
        ",
            ),
        ),
        (
            "M150 M158 IS17",
            String::from(
                "
            set lds l=1; rds r=1; cds x=eds; eds x=1
            d> lds +l
            d< lds first l=1
            d> lds ack
            d> rds +r
            d< rds first r=1
            d> rds ack
            d> cds +x                # a client that learns of clusters from routes
            d< cds first x=eds
            d> cds ack
            d> eds +x
            d< eds first x=1
            d> eds ack
            set cds y=eds -x; eds y=1 -x; rds r=2
            d< rds changed r=2       # it cannot ask for y before
            d<                       # but it still routes to x
            d> rds ack
            d< cds changed -x
            d> cds ack +y
            d< cds resubscribed y=eds
            d> cds ack -x
            d<                       # clusters are to be warmed, perhaps in the place of others
            d> eds +y
            d< eds resubscribed y=1
            d> eds ack
            d< eds changed -x
            d> eds ack -x
            d<
        ",
            ),
        ),
        (
            "M150 M147",
            String::from(
                "
            set cds a=1 b=1
            > cds
            < cds first a=1 b=1
            > cds
            set cds -a               # nobody routes here
            < cds changed b=1
            > cds
            <
        ",
            ),
        ),
        (
            "M150 M147",
            String::from(
                "
            set cds a=1 b=1
            d> cds +*
            d< cds first a=1 b=1
            d> cds ack
            set cds -a
            d< cds changed -a
            d> cds ack
            d<
        ",
            ),
        ),
    ]);
}

#[test]
fn the_newest_target_counts() {
    run(&[
        // A name that comes back no longer lingers.
        (
            "M149",
            settled(
                "
            set cds -a b=1; rds r=2
            < cds changed a=1 b=1
            set cds a=2 -b; rds r=3
            > cds
            < cds changed a=2 b=1
            > cds
            < rds changed r=3
            > rds r
            < cds changed a=2
            > cds
            <
        ",
            ),
        ),
        (
            "M149",
            settled_incrementally(
                "
            set cds -a b=1; rds r=2
            d< cds changed b=1
            set cds a=2 -b; rds r=3
            d> cds ack
            d< cds changed a=2
            d> cds ack
            d< rds changed r=3
            d> rds ack
            d< cds changed -b
            d> cds ack
            d<
        ",
            ),
        ),
        // It came back and went again before it was told.
        (
            "M149",
            settled_incrementally(
                "
            set cds -a b=1; rds r=2
            d< cds changed b=1
            set cds a=2
            set cds -a
            d> cds ack
            d< rds changed r=2
            d> rds ack
            d< cds changed -a
            d> cds ack
            d<
        ",
            ),
        ),
        // And it came back as it was: there is nothing to say.
        (
            "M149 M104",
            settled(
                "
            set cds -a
            set cds a=1
            <
        ",
            ),
        ),
    ]);
}

/// What never stops changing holds up nothing: what waits needs only what was there when it changed.
#[test]
fn endpoints_that_change_all_the_time_hold_up_nothing() {
    run(&[
        (
            "M146 IS17",
            settled(
                "
            set eds a=2
            < eds changed a=2
            set cds b=1; rds r=2; eds a=3
            < cds changed a=1 b=1
            > cds
            > eds a
            < eds changed a=3
            set eds a=4
            > eds a
            < rds changed r=2
            < eds changed a=4
        ",
            ),
        ),
        (
            "M147 IS17",
            settled(
                "
            set cds -a; rds r=2
            < rds changed r=2
            set rds r=3
            > rds r                  # it was sent after the cluster was deleted, and accepted
            < rds changed r=3
            < cds changed
        ",
            ),
        ),
    ]);
}

/// One step is one response, however many a type may have on their way elsewhere.
#[test]
fn a_wide_window_is_closed_to_one_response() {
    let config = gated(|_| ()).with_every_type(|it| it.window = Window::new(3));
    run_all_with(
        &config,
        &[(
            "M146 M113",
            "
            set cds a=1
            > cds
            < cds first a=1
            set cds b=1
            <
            > cds
            < cds changed a=1 b=1
            ",
        )],
    );
}

/// IS7: what is asked about and was never there waits for nothing, also after a move.
#[test]
fn a_question_is_answered_though_clusters_are_not_accepted() {
    run(&[(
        "M223 M92",
        "
            set cds a=1; eds a=1
            set @v cds a=1; eds a=1
            d> cds +*
            d< cds first a=1
            d> eds +*
            d< eds first a=1
            d> eds ack
            d> eds +b -b
            assign 1 v
            d< eds changed -b
            "
        .to_owned(),
    )]);
}

/// Requests are served as they come.
#[test]
fn without_an_order_types_go_out_as_they_become_due() {
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
            > cds
            < rds first r=1
            < lds first l=1
            < cds first c=1
            <
            > lds
            > rds r
            > cds
            set rds r=2
            set cds c=2
            set lds l=2
            < rds changed r=2
            > rds r
            set rds r=3
            < cds changed c=2
            < lds changed l=2
            < rds changed r=3
            <
            ",
        )],
    );
}

/// With references the server knows which endpoints a cluster needs before the client asks.
#[test]
fn endpoints_that_clusters_name_are_waited_for() {
    run(&[
        (
            "M146 M151",
            settled(
                "
            set cds b=eds c=eds:d; eds b=1 d=1; rds r=2
            < cds changed a=1 b=eds c=eds:d
            > cds
            <                        # the client has yet to ask
            > eds a b
            < eds resubscribed a=1 b=1
            > eds a b
            <
            > eds a b d
            < eds resubscribed d=1
            <
            > eds a b d
            < rds changed r=2
        ",
            ),
        ),
        (
            "M146 M151",
            settled_incrementally(
                "
            set cds b=eds; eds b=1; rds r=2
            d< cds changed b=eds
            d> cds ack
            d<
            d> eds +b
            d< eds resubscribed b=1
            d<
            d> eds ack
            d< rds changed r=2
        ",
            ),
        ),
        (
            "M146",
            String::from(
                "
            set cds a=eds; eds a=1; rds r=1
            > cds
            < cds first a=eds
            > cds
            > eds *                  # who asks for all asks for these
            < eds first a=1
            > rds r
            <
            > eds *
            < rds first r=1
        ",
            ),
        ),
    ]);
}

/// Without them it waits for those that are asked for.
#[test]
fn without_references_the_clusters_acks_count() {
    let config = gated(|policy| policy.references = None);
    let script = settled(
        "
        set cds b=eds; eds b=1; rds r=2
        < cds changed a=1 b=eds
        > cds
        < rds changed r=2
        ",
    );
    run_all_with(&config, &[("M146", &script)]);
}
