//! Responses after a NACK: rejected resources are sent again with the next change.

use crate::support::{run_all, run_all_with};
use xds_core::server::{NackRecovery, ServerConfig};

#[test]
fn nacked_resources_are_resent_with_next_change() {
    run_all(&[
        (
            "M52 IS4 S0.094",
            "
            set cds a=bad
            > cds
            < cds first a=bad
            > cds nack
            <
            > cds nack
            <
            > cds
            <
        ",
        ),
        (
            "M53",
            "
            set cds a=bad b=1
            > cds
            < cds first a=bad b=1
            > cds nack
            <
            set cds a=good
            < cds changed a=good b=1
            > cds
            <
        ",
        ),
        // A removal in the same response changes nothing.
        (
            "M107",
            "
            set eds b=bad
            d> eds +a +b +c
            d< eds first b=bad -a -c
            d> eds nack
            set eds a=1
            d< eds changed a=1 b=bad
            d> eds ack
            <
        ",
        ),
        // Under a wildcard, rejected removals are sent again, because a client that rejects whole
        // responses still has the resources. A resource removed before the wildcard subscription
        // was never sent by it.
        (
            "M107 IS11",
            "
            set cds a=1 b=1 c=1
            2d> cds +*
            2d< cds first a=1 b=1 c=1
            d> cds +a
            d< cds first a=1
            set cds -a -b -c
            set cds c=bad
            d> cds +*
            d> cds ack
            d< cds changed -a c=bad
            d> cds nack
            set cds c=2
            d< cds changed -a c=2",
        ),
        // An ACK of a response without the rejected resources does not resolve them.
        (
            "M107 IS11",
            "
            set cds b=1 c=1
            2d> cds +*
            2d< cds first b=1 c=1
            d> cds +a +b
            d< cds first b=1 -a
            d> cds ack
            set cds a=bad -b -c
            d< cds changed a=bad -b
            d> cds +*
            d> cds nack
            d< cds resubscribed a=bad
            d> cds ack
            set cds d=1
            d< cds changed a=bad d=1 -b",
        ),
        (
            "M107 IS11 M173",
            "
            set cds b=1 c=1
            2d> cds +*
            2d< cds first b=1 c=1
            d> cds +a +b
            d< cds first b=1 -a
            d> cds ack
            set cds a=bad -b -c
            d< cds changed a=bad -b
            d> cds +*
            d> cds nack
            d< cds resubscribed a=bad
            d> cds nack
            set cds !b=7
            d< cds changed !b=7
            d> cds ack
            set cds a=2
            d< cds changed a=2",
        ),
        (
            "M107 IS11",
            "
            set cds x=1 y=1
            d> cds +*
            d< cds first x=1 y=1
            d> cds ack
            set cds y=bad -x
            d< cds changed y=bad -x
            d> cds nack
            <
            set cds y=good
            d< cds changed y=good -x
            d> cds ack
            <
            set cds z=1
            d< cds changed z=1
        ",
        ),
        // Removed before the rejected response, with a confirmed removal.
        (
            "M107 IS11",
            "
            set cds w=1 x=1 y=1
            d> cds +*
            d< cds first w=1 x=1 y=1
            d> cds ack
            set cds -x
            d< cds changed -x
            d> cds ack
            set cds x=bad
            d< cds changed x=bad
            d> cds nack
            set cds -w
            d< cds changed x=bad -w
            set cds -x -y
            d> cds nack
            d< cds changed -w -x -y
            d> cds ack
            d<
        ",
        ),
        // Unless the resource exists again; as often as it is rejected.
        (
            "M107 IS11",
            "
            set cds w=1 x=1 y=1
            d> cds +*
            d< cds first w=1 x=1 y=1
            d> cds ack
            set cds y=bad -x -w
            d< cds changed y=bad -w -x
            d> cds nack
            set cds x=2 -y
            d< cds changed x=2 -w -y
            d> cds nack
            set cds x=3
            d< cds changed x=3 -w -y
            d> cds ack
            <
        ",
        ),
        // Unless the client got an error in its place since.
        (
            "M107 IS11 IS28",
            "
            set cds a=1 c=1
            d> cds +* +a
            d< cds first a=1 c=1
            d> cds ack
            set cds -a b=bad
            d< cds changed b=bad -a
            d> cds nack
            set cds !a=7
            d< cds changed !a=7
            d> cds ack
            set cds b=2
            d< cds changed b=2
            d> cds ack
            d<
        ",
        ),
        // The rejected resource may be the removed one.
        (
            "M107",
            "
            set cds x=1 y=bad
            d> cds +*
            d< cds first x=1 y=bad
            d> cds nack
            <
            set cds -y
            d< cds changed x=1 -y
            d> cds ack
            <
        ",
        ),
        (
            "M52 M54 M107",
            "
            set eds x=1 y=bad z=1
            > eds x y
            < eds first x=1 y=bad
            > eds nack x y
            <
            > eds x y z              # only the new name
            < eds resubscribed z=1
            > eds x y z
            set eds z=2              # rejected ones are re-sent once with the next change
            < eds changed x=1 y=bad z=2
            > eds nack x y z
            set eds z=3
            < eds changed z=3
        ",
        ),
        (
            "M107",
            "
            set eds x=1 y=bad z=1
            > eds *
            < eds first x=1 y=bad z=1
            > eds nack *
            <
            set eds y=good
            < eds changed x=1 y=good z=1
            > eds nack *
            set eds z=2
            < eds changed y=good z=2
            > eds nack *
            <
        ",
        ),
        (
            "M55",
            "
            set eds x=bad y=1
            > eds x
            < eds first x=bad
            > eds nack x y
            < eds resubscribed y=1
            > eds x y
            <
        ",
        ),
        (
            "M55",
            "
            set lds x=bad y=1
            > lds x
            < lds first x=bad
            > lds nack x y
            < lds resubscribed x=bad y=1
            > lds nack x y
            <
        ",
        ),
        (
            "M57",
            "
            set eds x=1
            > eds x
            < eds first x=1
            > eds version:older x
            <
            set eds x=2
            < eds changed x=2
        ",
        ),
        (
            "M31 M52",
            "
            set eds x=bad y=1
            > eds x
            < eds first x=bad
            > eds nack x
            > eds *                  # a NACKed resource is not held
            < eds resubscribed x=bad y=1
            > eds nack *
            <
        ",
        ),
    ]);
}

// A client that rejects whole responses lacks all resources of the state. Without the dropped name
// the state is another one (IS4), and is sent because no other update may ever follow.
#[test]
fn nacked_state_is_resent_without_unsubscribed_name() {
    run_all(&[
        (
            "M107",
            "
            set cds x=1 y=bad
            > cds x y
            < cds first x=1 y=bad
            > cds nack x y
            <
            > cds x
            < cds recovery x=1
            > cds x
            <
            set cds x=2
            < cds changed x=2
        ",
        ),
        // The NACK itself may drop the name.
        (
            "M107",
            "
            set lds x=1 y=bad
            > lds x y
            < lds first x=1 y=bad
            > lds nack x
            < lds recovery x=1
            > lds x
            <
        ",
        ),
        // Another resource may have been the invalid one; no state is sent twice.
        (
            "M107 IS4",
            "
            set cds x=bad y=1 z=1
            > cds x y z
            < cds first x=bad y=1 z=1
            > cds nack x y z
            > cds x y
            < cds recovery x=bad y=1
            > cds nack x y
            <
            > cds x
            < cds recovery x=bad
            > cds nack x
            <
            > cds
            <
        ",
        ),
        (
            "M107 IS4",
            "
            set cds x=bad
            > cds x nowhere
            < cds first x=bad
            > cds nack x nowhere
            > cds x
            <
        ",
        ),
        // The wildcard is replaced by a name.
        (
            "M107 IS4",
            "
            set cds x=bad
            > cds * x
            < cds first x=bad
            > cds nack x
            <
        ",
        ),
        // A resource that the client holds is not sent again (M48).
        (
            "M107 M48",
            "
            set cds x=1 y=bad
            > cds x
            < cds first x=1
            > cds x y
            < cds resubscribed x=1 y=bad
            > cds nack x y
            > cds x
            <
        ",
        ),
        // Removals are reported.
        (
            "M107 M76",
            "
            set cds x=1 z=1
            > cds x z
            < cds first x=1 z=1
            > cds x z
            set cds -z y=bad
            < cds changed x=1
            > cds nack x y z
            < cds resubscribed x=1 y=bad
            > cds nack x y z
            > cds x z
            < cds recovery x=1
            > cds x z
            <
        ",
        ),
    ]);
    let minimal =
        ServerConfig::default().with_every_type(|it| it.nack_recovery = NackRecovery::Minimal);
    let script = "
        set cds x=1 y=bad
        > cds x y
        < cds first x=1 y=bad
        > cds nack x y
        > cds x
        <
    ";
    run_all_with(&minimal, &[("M54", script)]);
}

// M54 with `NackRecovery::Minimal`.
#[test]
fn minimal_recovery_sends_only_changes() {
    let config =
        ServerConfig::default().with_every_type(|it| it.nack_recovery = NackRecovery::Minimal);
    run_all_with(
        &config,
        &[(
            "M54",
            "
        set eds x=1 y=bad
        > eds x y
        < eds first x=1 y=bad
        > eds nack x y
        <
        set eds y=good
        < eds changed y=good
    ",
        )],
    );
}

/// A change that was undone while the rejected response was in flight does not make another state,
/// and neither does a repeated NACK.
#[test]
fn undone_change_does_not_resend_nacked_state() {
    run_all(&[(
        "IS4 M106 M107",
        "> cds c e
         set cds c=1
         < cds first c=1
         set cds e=1
         > cds nack c e
         set cds -e
         <
         > cds nack c e
         <
         > cds nack c
         <
         set cds c=2
         < cds changed c=2",
    )]);
}

/// A resource that the client stated when it connected is not part of the first response, so it is not
/// among the rejected ones.
#[test]
fn stated_resource_is_not_resent_after_nack_of_first_response() {
    run_all(&[(
        "IS4 M107 M116",
        "set eds a=1 b=1
         9d> eds +a +b
         9d< eds first a=1 b=1
         set eds b=2
         d> eds +a +b has:a=1 has:b=1
         d< eds first b=2
         d> eds nack
         set eds b=3
         d< eds changed b=3",
    )]);
}
