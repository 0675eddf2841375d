//! View changes of clients with pending updates.
// M223

use core::time::Duration;

use crate::support::{Rig, every_type, run_all_with};
use xds_core::server::{AbsenceDelay, Admission, OnDemand, Removals, ServerConfig};

fn asked(mut config: ServerConfig) -> ServerConfig {
    config.admission = Admission::ByApplication;
    config
}

// IS7: a repeated subscription before the view change is answered after it.
#[test]
fn repeated_subscription_is_answered_after_view_change() {
    let cases = [
        ("eds x=1", "d> cds +*", "d< cds first", "d< cds resubscribed"),
        ("cds a=1", "d> cds +*", "d< cds first a=1", "d< cds changed a=1"),
        ("cds a=1", "d> cds +a", "d< cds first a=1", "d< cds changed a=1"),
        ("eds x=1", "d> cds +a", "d< cds first -a", "d< cds changed -a"),
    ];
    for (content, asks, first, again) in cases {
        let mut rig = Rig::new(asked(ServerConfig::default()));
        rig.run(&format!("set @old {content}\nset @new {content}\n{asks}\nassign 1 old"));
        rig.run(&format!("{first}\n{asks}\nd<\nassign 1 new\nd> cds ack\n{again}"));
        rig.run("d> cds ack\nd<");
    }
    println!("covers: M223 M97 IS7");
}

// IS13, M90: a wildcard subscription gets only the missing resources, in any view.
#[test]
fn view_change_does_not_resend_held_resources() {
    run_all_with(
        &asked(ServerConfig::default()),
        &[
            (
                "M223 M116 IS13",
                "
                set @old cds a=1
                set @new cds a=1 b=1
                2d> cds +*
                assign 2 new
                2d< cds first a=1 b=1
                d> eds +x
                assign 1 old
                d< eds first -x
                d> cds +* has:a=1
                assign 1 new
                d< cds first b=1
                d> cds ack
                d<",
            ),
            (
                "M223 M90",
                "
                set @old cds a=1
                set @new cds a=1 b=1
                d> cds +a
                assign 1 old
                d< cds first a=1
                d> cds +*
                d<
                assign 1 new
                d> cds ack
                d< cds changed b=1
                d> cds ack
                d<",
            ),
        ],
    );
}

// IS28, M171: errors of the new view are sent once.
#[test]
fn view_change_sends_errors_of_new_view() {
    run_all_with(
        &asked(ServerConfig::default()),
        &[
            (
                "M223 M171 IS28",
                "
                set @old eds a=1
                set @new eds a=1
                set @new eds !b=7
                d> eds +a +b
                2> eds a b
                assign 1 old
                assign 2 old
                d< eds first a=1 -b
                d> eds ack
                2< eds first a=1
                2> eds a b
                assign 1 new
                assign 2 new
                d< eds changed !b=7
                d> eds ack
                2< eds changed !b=7
                2> eds a b
                d<
                2<",
            ),
            (
                "M223 M171 IS28",
                "
                set @old eds a=1
                set @old eds !b=7
                set @new eds a=1
                set @new eds !b=7
                d> eds +a +b
                assign 1 old
                d< eds first a=1 !b=7
                d> eds ack
                assign 1 new
                d<
                set @new eds !b=14
                d< eds changed !b=14",
            ),
            // The client has the resource that has an error in the new view.
            (
                "M223 M171 IS10",
                "
                set @old eds a=1
                set @new eds b=1
                set @new eds !a=7
                d> eds +a
                assign 1 old
                d< eds first a=1
                d> eds ack
                set @old eds !a=7
                d< eds changed !a=7
                d> eds ack
                assign 1 new
                d< eds changed !a=7
                d> eds ack
                d<",
            ),
        ],
    );
    // With errors for missing names.
    run_all_with(
        &asked(ServerConfig::grpc()),
        &[(
            "M223 M39",
            "
            set @old eds a=1
            set @new eds b=1
            > eds a
            assign 1 old
            < eds first a=1
            > eds a
            assign 1 new
            < eds changed !a=5
            > eds a
            <",
        )],
    );
}

// IS12, M127: a name that waits for its grace period or the application waits in the new view.
#[test]
fn pending_missing_name_keeps_waiting_after_view_change() {
    run_all_with(
        &asked(every_type(|it| it.absence_delay = AbsenceDelay::After(Duration::from_secs(3)))),
        &[(
            "M223 M127 IS12",
            "
            set @old cds a=1
            set @new cds b=1
            d> cds +a
            assign 1 old
            d< cds first a=1
            d> cds ack +x
            wait 1s
            d<
            assign 1 new
            d< cds changed -a
            d> cds ack
            d<
            wait 3s
            d< cds resubscribed -x",
        )],
    );
    let mut config = asked(ServerConfig::default());
    config.on_demand = OnDemand::Notify;
    run_all_with(
        &config,
        &[(
            "M223 IS7",
            "
            set @new eds !a=5
            set @old cds b=1
            d> eds +a
            assign 1 old
            wanted eds a
            d<
            assign 1 new
            unwanted eds a
            d< eds first -a
            d> eds ack
            d<",
        )],
    );
}

// IS12, M127: a pending resource that is missing in the new view is reported without waiting.
#[test]
fn pending_resource_missing_in_new_view_is_removed_at_once() {
    run_all_with(
        &asked(every_type(|it| it.absence_delay = AbsenceDelay::Never)),
        &[(
            "M223 M127",
            "
            set @old cds a=1 x=1
            set @new cds b=1
            d> cds +a
            assign 1 old
            d< cds first a=1
            d> cds +x
            assign 1 new
            d> cds ack
            d< cds changed -a -x",
        )],
    );
}

// M133, M77: suppressed removals stay suppressed on a view change; subscriptions are answered.
#[test]
fn view_change_suppresses_removals_by_policy() {
    run_all_with(
        &asked(every_type(|it| it.removals = Removals::Suppress)),
        &[
            (
                "M223 M133",
                "
            set @old eds a=1
            set @new eds b=1
            d> eds +a
            assign 1 old
            d< eds first a=1
            d> eds ack
            assign 1 new
            d<
            assign 1 old
            d< eds changed a=1
            d> eds +a
            assign 1 new
            d> eds ack
            d< eds changed -a",
            ),
            (
                "M223 M133 M96 IS7",
                "
                set @old eds a=1
                set @new eds a=2
                d> eds +a
                assign 1 old
                d< eds first a=1
                d> eds +a
                assign 1 new
                set @new eds -a
                d> eds ack
                d< eds changed -a",
            ),
        ],
    );
}

// IS11: a resource of the new view that the client was not sent needs no removal when it is removed, when
// the client leaves the wildcard, or when it is moved back.
#[test]
fn unsent_resource_of_new_view_needs_no_removal() {
    for then in [
        "set @new cds -b  | d<",
        "d> cds -*        | d< cds resubscribed -a",
        "d> cds +* -*     | d< cds resubscribed -a",
        "assign 1 old     | d<",
    ] {
        let mut rig = Rig::new(asked(ServerConfig::default()));
        rig.run(
            "
            set @old cds a=1
            set @new cds a=1 b=1
            d> cds +*
            assign 1 old | d< cds first a=1
            d> cds ack
            assign 1 new",
        );
        rig.run(then);
        rig.run("set @new cds c=1\nset @old cds c=1");
        while let Some(received) = rig.receive(1) {
            assert!(!received.resources().contains(&"-b".into()), "{then}");
            rig.run("d> cds ack");
        }
    }
    println!("covers: M223 IS11");
}
