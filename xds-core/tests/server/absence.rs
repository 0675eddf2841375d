//! What clients are told of names that do not exist, or not any more: one test for each policy, with the
//! default beside it where no other test has it.

use core::time::Duration;

use crate::support::{Rig, every_type, run_all_with};
use xds_core::server::{AbsenceGrace, Admission, Missing, OnDemand, Removals, ServerConfig};

/// M39: an answer without resources, where a client waits for one.
#[test]
fn a_first_request_for_what_is_missing_can_be_answered() {
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
                set eds x=1              # it is not forgotten
                < eds changed x=1
                > eds x y                # a first answer there is once
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
                > eds                    # asks for nothing, and is not answered
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

/// M39, M76: what was deleted while a client was away is gone for it, too, if it says that it had something.
#[test]
fn who_comes_back_to_nothing_is_told() {
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
                2> eds version:before x  # absence would say nothing
                2<
                3> cds x                 # it never had anything
                3< cds first x=1
                4> lds x
                4<",
        )],
    );
}

/// M39, M76: who used a part of a response and accepted none says nothing of it when it comes back. It is told
/// that everything has gone when one that never had anything has given up waiting.
#[test]
fn the_first_answer_is_not_held_for_ever_where_absence_is_deletion() {
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
            3> eds x                 # absence would say nothing
            4> cds z                 # it comes in time
            5> cds                   # what was everything by name is not held
            5< cds first
            5> cds
            wait 3s
            2<
            2> cds y                 # asks for something else, and has waited as long
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
    made.on_demand = OnDemand::Told;
    let script = "> cds x\nwanted cds x\nwait 60s\n<\nset cds x=1\n< cds first x=1";
    run_all_with(&made, &[("M39 M254", script)]);
}

/// M38, M39: of a view that the client has not been assigned yet, nothing is said.
#[test]
fn nothing_is_missing_from_a_view_that_is_not_there() {
    for (missing, answer) in
        [(Missing::EmptyResponse, "< eds first"), (Missing::NotFound, "< eds first !x=5")]
    {
        let mut config = every_type(|it| it.missing = missing);
        config.admission = Admission::Asked;
        let mut rig = Rig::new(config);
        rig.run("> eds x\n<");
        let stream = rig.stream(1);
        rig.server.assign(stream, &"mine".into(), rig.now);
        rig.run(answer);
    }
    println!("covers: M9 M38 M39");
}

/// M39, M77, M173: that it does not exist is an error.
#[test]
fn names_that_do_not_exist_can_be_errors() {
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
                set eds !x=14            # what the application says comes first
                > eds x
                < eds first !x=14
                > eds x
                set eds -x
                < eds changed !x=5",
            ),
            (
                "M179 M127",
                "
                d> eds +x                # an incremental client is told as ever
                d< eds first -x",
            ),
        ],
    );
}

/// M127: what may come a little later is not reported at once.
#[test]
fn absence_can_wait_a_little() {
    run_all_with(
        &every_type(|it| it.absence_grace = AbsenceGrace::Grace(Duration::from_secs(3))),
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
                d> eds +x                # asked for again: it has its time once
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
                set eds -x               # it has been there
                d< eds first -x
                d> eds ack
                set eds x=2
                d< eds changed x=2
                d> eds ack
                set eds -x               # deletions are no absence
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
        &every_type(|it| it.absence_grace = AbsenceGrace::Never),
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
    // A client that comes and goes with a name makes the server hold nothing for it.
    let mut rig =
        Rig::new(every_type(|it| it.absence_grace = AbsenceGrace::Grace(Duration::from_secs(3))));
    rig.run("d> eds +x -x");
    for _ in 0..1_000 {
        rig.run("d> eds +x\nd> eds -x");
    }
    rig.run("wait 3s\nd<");
    assert_eq!(rig.server.poll_timeout(), None);
}

/// M133: a client keeps what was deleted, and hears of what never was.
#[test]
fn deletions_can_be_kept_from_clients() {
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
                set eds b=2              # who knows what became of it meanwhile
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
            // Who has asked again is answered, whatever happened since.
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
