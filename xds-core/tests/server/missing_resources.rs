//! Responses about missing and deleted names: one test per policy, and the default where no other
//! test covers it.

use core::time::Duration;

use crate::support::{Rig, every_type, run_all_with};
use xds_core::server::{AbsenceDelay, Admission, Missing, OnDemand, Removals, ServerConfig};

// M39: an empty response answers a first request for missing names.
#[test]
fn first_request_for_missing_name_gets_empty_response() {
    run_all_with(
        &every_type(|it| it.missing = Missing::EmptyResponse),
        &[
            (
                "M39",
                "
                > eds x
                < eds first
                > eds x
                <
                set eds x=1              # later updates are sent
                < eds changed x=1
                > eds x y                # only one first response
                <",
            ),
            (
                "M39",
                "
                > lds x
                < lds first
                > lds x
                set lds x=1
                < lds changed x=1",
            ),
            (
                "M39",
                "
                > eds *
                < eds first
                > eds *
                set eds x=1
                < eds changed x=1",
            ),
            (
                "M39 M32",
                "
                > eds                    # no names, no answer
                <
                > eds x
                < eds first
                2> eds x
                set eds x=1              # before the answer is sent
                2< eds first x=1",
            ),
        ],
    );
}

// M39, M76: a client that states a version on reconnect learns that its resources were deleted.
#[test]
fn reconnecting_client_learns_of_removals() {
    run_all_with(
        &ServerConfig::default(),
        &[(
            "M39 M76",
            "
                > cds version:before x
                < cds first
                > cds x
                <
                set cds x=1
                < cds changed x=1
                2> eds version:before x  # absence means nothing for this type
                2<
                3> cds x                 # no stated version
                3< cds first x=1
                4> lds x
                4<",
        )],
    );
}

// M39, M76: a client that used parts of rejected responses states no version when it reconnects. It
// learns of the removals when the absence wait of a client without resources would end.
#[test]
fn first_response_of_complete_type_is_sent_after_timeout() {
    let cases = [(
        "M39 M76",
        "
            set cds x=1 y=bad
            > cds x y
            < cds first x=1 y=bad
            > cds nack x y
            close
            set cds -x -y
            2> cds x y
            2<
            3> eds x                 # absence means nothing for this type
            4> cds z                 # created in time
            5> cds                   # the legacy wildcard is not held
            5< cds first
            5> cds
            wait 3s
            2<
            2> cds y                 # another name; the wait continues
            wait 900ms
            set cds z=1
            4< cds first z=1
            4> cds z
            5< cds changed z=1
            wait 200ms
            2< cds first
            2> cds y
            3<
            4<
            wait 60s
            2<
            set cds y=2
            2< cds changed y=2",
    )];
    run_all_with(&ServerConfig::default(), &cases);
    let held = every_type(|it| it.missing = Missing::Hold);
    run_all_with(&held, &[("M39", "> cds x\nwait 60s\n<\nset cds x=1\n< cds first x=1")]);
    let mut made = ServerConfig::default();
    made.on_demand = OnDemand::Notify;
    let script = "> cds x\nwanted cds x\nwait 60s\n<\nset cds x=1\n< cds first x=1";
    run_all_with(&made, &[("M39 M254", script)]);
}

// M38, M39: no response about a view that is not assigned yet.
#[test]
fn unassigned_view_reports_no_missing_names() {
    for (missing, answer) in
        [(Missing::EmptyResponse, "< eds first"), (Missing::NotFound, "< eds first !x=5")]
    {
        let mut config = every_type(|it| it.missing = missing);
        config.admission = Admission::ByApplication;
        let mut rig = Rig::new(config);
        rig.run("> eds x\n<");
        let stream = rig.stream(1);
        rig.server.assign(stream, &"mine".into(), rig.now);
        rig.run(answer);
    }
    println!("covers: M9 M38 M39");
}

// M39, M77, M173: a missing name is reported as an error.
#[test]
fn missing_names_are_reported_as_errors() {
    run_all_with(
        &every_type(|it| it.missing = Missing::NotFound),
        &[
            (
                "M39 M173 M176",
                "
                set eds a=1
                > eds a x
                < eds first a=1 !x=5
                > eds a x
                <                        # once
                set eds x=1
                < eds changed x=1
                > eds a x
                set eds -x
                < eds changed !x=5
                > eds a x
                set eds x=2
                < eds changed x=2",
            ),
            (
                "M39 M173 M177",
                "
                set lds a=1
                > lds a x
                < lds first a=1 !x=5
                > lds a x
                set lds -a
                < lds changed !a=5
                > lds a x
                set lds x=1
                < lds changed x=1",
            ),
            (
                "M171 M174",
                "
                set eds !x=14            # the application's error takes precedence
                > eds x
                < eds first !x=14
                > eds x
                set eds -x
                < eds changed !x=5",
            ),
            (
                "M179 M127",
                "
                d> eds +x                # incremental: a removal as usual
                d< eds first -x",
            ),
        ],
    );
}

// M127: a missing name is not reported before the grace period ends.
#[test]
fn missing_name_is_reported_after_grace_period() {
    run_all_with(
        &every_type(|it| it.absence_delay = AbsenceDelay::After(Duration::from_secs(3))),
        &[
            (
                "M127 M128",
                "
                set eds a=1
                d> eds +a +x +y
                d< eds first a=1
                d> eds ack
                d<
                wait 2s
                d<
                set eds x=1
                d< eds changed x=1
                d> eds ack
                wait 999ms
                d<
                wait 1ms
                d< eds resubscribed -y
                d> eds ack
                wait 60s
                d<
                set eds y=1
                d< eds changed y=1",
            ),
            (
                "M127 M96",
                "
                d> eds +x
                d<
                wait 1s
                d> eds +x                # resubscribed: the grace period does not restart
                wait 2s
                d< eds first -x
                d> eds ack +x
                d<
                wait 3s
                d< eds resubscribed -x",
            ),
            (
                "M127 M129 M131",
                "
                d> eds +x
                wait 1s
                set eds x=1
                set eds -x               # it existed meanwhile
                d< eds first -x
                d> eds ack
                set eds x=2
                d< eds changed x=2
                d> eds ack
                set eds -x               # deletions have no grace period
                d< eds changed -x
                d> eds ack
                wait 60s
                d<",
            ),
            (
                "M127 M94",
                "
                d> eds +x
                d> eds -x
                wait 3s
                d<
                d> eds +x
                wait 1s
                close
                wait 60s",
            ),
        ],
    );
    run_all_with(
        &every_type(|it| it.absence_delay = AbsenceDelay::Never),
        &[(
            "M127",
            "
            set eds a=1
            d> eds +a +x
            d< eds first a=1
            d> eds ack +x
            wait 60s
            d<
            set eds x=1
            d< eds changed x=1
            d> eds ack
            set eds -x               # now it has existed
            d< eds changed -x",
        )],
    );
    // A client that subscribes and unsubscribes repeatedly leaves no state.
    let mut rig =
        Rig::new(every_type(|it| it.absence_delay = AbsenceDelay::After(Duration::from_secs(3))));
    rig.run("d> eds +x -x");
    for _ in 0..1_000 {
        rig.run("d> eds +x\nd> eds -x");
    }
    rig.run("wait 3s\nd<");
    assert_eq!(rig.server.poll_timeout(), None);
}

// M133: removals are suppressed, while names that never existed are reported.
#[test]
fn suppressed_removals_are_not_sent() {
    run_all_with(
        &every_type(|it| it.removals = Removals::Suppress),
        &[
            (
                "M133",
                "
                set eds a=1 b=1
                d> eds +a +b +x
                d< eds first a=1 b=1 -x
                d> eds ack
                set eds -a b=2
                d< eds changed b=2
                d> eds ack
                set eds -b
                d<
                set eds b=2              # the client may have dropped it
                d< eds changed b=2",
            ),
            (
                "M133",
                "
                set cds a=1 b=1
                d> cds +*
                d< cds first a=1 b=1
                d> cds ack
                set cds -a
                d<
                set cds c=1
                d< cds changed c=1
                d> cds ack -never
                d<",
            ),
            // A repeated subscription is answered despite later changes.
            (
                "M133 M96 IS7",
                "
                set eds a=1
                d> eds +a
                d< eds first a=1
                d> eds +a
                set eds a=2
                set eds -a
                d> eds ack
                d< eds changed -a
                d> eds ack
                d<",
            ),
            (
                "M133 M92 IS14",
                "
                set eds a=1
                d> eds +* +a
                d< eds first a=1
                d> eds -a
                set eds a=2
                set eds -a
                d> eds ack
                d< eds changed -a
                d> eds ack
                d<",
            ),
            (
                "M133 M118 M119",
                "
                d> cds +* has:gone@old
                d< cds first
                2d> eds +gone has:gone@old
                2d<
                set eds gone=1
                2d< eds first gone=1",
            ),
        ],
    );
}
