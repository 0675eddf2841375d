//! What a client has accepted in no form: its deletion waits for nothing.

use super::gated;
use crate::support::run_all_with;

/// What a client never accepted nothing refers to that it has: its deletion need not wait, and must not, since
/// what came beside it is as good as ever.
#[test]
fn the_deletion_of_what_was_never_accepted_waits_for_nothing() {
    run_all_with(
        &gated(),
        &[
            (
                "M147 M148",
                "
                set cds a=1; lds l=1
                > cds
                < cds first a=1
                > cds
                > lds l
                < lds first l=1
                > lds l
                set cds b=1 c=bad; lds l=2
                < cds changed a=1 b=1 c=bad
                > cds nack
                <
                set cds -c
                < cds changed a=1 b=1
                > cds
                < lds changed l=2
                ",
            ),
            // While it is on its way, and of names.
            (
                "M147 M148",
                "
                set cds b=1 c=bad; lds l=1
                > cds b c
                < cds first b=1 c=bad
                > lds l
                set cds -c
                > cds nack b c
                < cds changed b=1
                > cds b c
                < lds first l=1
                ",
            ),
            // It is not repeated for another reason either.
            (
                "M147 M148",
                "
                set cds b=bad; lds l=1
                > cds * b
                < cds first b=bad
                > lds l
                set cds -b
                > cds nack * b d
                < cds changed
                > cds * b d
                < lds first l=1
                ",
            ),
            (
                "M107 M147 M148",
                "
                set cds a=1; lds l=1
                d> cds +*
                d< cds first a=1
                d> cds ack
                d> lds +l
                d< lds first l=1
                d> lds ack
                set cds b=1 c=bad; lds l=2
                d< cds changed b=1 c=bad
                d> cds nack
                d<
                set cds -c
                d< cds changed b=1 -c
                d> cds ack
                d< lds changed l=2
                ",
            ),
            // That something else is missing is no deletion.
            (
                "M147 M148",
                "
                set cds a=1 b=bad; lds l=1
                2d> cds +a
                2d< cds first a=1
                2d> cds ack
                2close
                d> cds +a +b +c has:a=1
                d< cds first b=bad -c
                d> lds +l
                d> cds nack
                set cds -b -a
                d< lds first l=1
                d> lds ack
                d< cds changed -a -b
                d> cds ack
                ",
            ),
            // What a client says that it has from before may be in use.
            (
                "M147 M148",
                "
                set cds b=1 c=bad; lds l=1
                > cds version:old b c
                < cds first b=1 c=bad
                > lds l
                set cds -c
                > cds nack version:old b c
                <
                ",
            ),
        ],
    );
}

/// It may have been there for long before the client asked for it.
#[test]
fn the_deletion_of_what_every_response_with_it_was_rejected_for_waits_for_nothing() {
    run_all_with(
        &gated(),
        &[
            (
                "M147 M148",
                "
                set cds a=1 b=bad; lds l=1
                > cds a
                < cds first a=1
                > cds a
                > lds l
                < lds first l=1
                > lds l
                > cds a b c
                < cds resubscribed a=1 b=bad
                > cds nack a b c
                set cds -b c=1; lds l=2
                < cds changed a=1 c=1
                > cds a b c
                < lds changed l=2
                ",
            ),
            (
                "M147 M148",
                "
                set cds a=1 b=bad; lds l=1
                d> cds +a
                d< cds first a=1
                d> cds ack
                d> lds +l
                d< lds first l=1
                d> lds ack
                d> cds +b
                d< cds resubscribed b=bad
                d> cds nack
                set cds -b; lds l=2
                d< cds changed -b
                d> cds ack
                d< lds changed l=2
                ",
            ),
            // It had one of that name before, and accepted that it was gone.
            (
                "M147 M148",
                "
                set cds a=1 b=1; lds l=1
                > cds a b c
                < cds first a=1 b=1
                > cds a b c
                > lds l
                < lds first l=1
                > lds l
                set cds -b
                < cds changed a=1
                > cds a b c
                set cds b=bad
                < cds changed a=1 b=bad
                > cds nack a b c
                set cds -b c=1; lds l=2
                < cds changed a=1 c=1
                > cds a b c
                < lds changed l=2
                ",
            ),
            // Everything that there was before it asked for that.
            (
                "M147 M148",
                "
                set cds a=1 b=bad; lds l=1
                > cds a
                < cds first a=1
                > cds a
                > lds l
                < lds first l=1
                > lds l
                > cds *
                < cds resubscribed a=1 b=bad
                > cds nack *
                set cds -b c=1; lds l=2
                < cds changed a=1 c=1
                > cds *
                < lds changed l=2
                ",
            ),
            // What it had by name before, it may have yet, and is served as it has it.
            (
                "M147 M148",
                "
                set cds a=1 b=1; lds l=1
                > cds b
                < cds first b=1
                > cds b
                > lds l
                < lds first l=1
                > lds l
                set cds b=bad
                > cds *
                < cds resubscribed a=1 b=bad
                > cds nack *
                set cds -b c=1; lds l=2
                < cds changed a=1 b=1 c=1
                ",
            ),
            // If it rejected the news, or has it from everything, it may have it yet.
            (
                "M147 M148",
                "
                set cds a=1 b=1; lds l=1
                > cds a b
                < cds first a=1 b=1
                > cds a b
                > lds l
                < lds first l=1
                > lds l
                set cds -b
                < cds changed a=1
                > cds nack a b
                set cds b=2
                < cds changed a=1 b=2
                > cds nack a b
                set cds -b; lds l=2
                < lds changed l=2
                <
                > lds l
                < cds changed a=1
                ",
            ),
            (
                "M147 M148",
                "
                set cds a=1; lds l=1
                d> cds +*
                d< cds first a=1
                d> cds ack
                d> lds +l
                d< lds first l=1
                d> lds ack
                d> cds +a
                d< cds resubscribed a=1
                d> cds nack
                set cds -a; lds l=2
                d< lds changed l=2
                d<
                d> lds ack
                d< cds changed -a
                ",
            ),
        ],
    );
}
