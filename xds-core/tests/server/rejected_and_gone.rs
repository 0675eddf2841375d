//! Make before break: what a client rejected holds up nothing once the client no longer asks for it, or it is
//! gone without a word (M148, IL1).

use crate::support::{Rig, run_all_with};
use xds_core::server::{AckGated, NackRecovery, OrderingPolicy, ServerConfig};

fn gated() -> ServerConfig {
    let mut policy = AckGated::default();
    policy.references = None;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::AckGated(policy);
    config
}

#[test]
fn a_rejected_name_that_is_dropped_holds_up_nothing() {
    let config = gated();
    run_all_with(
        &config,
        &[
            (
                "M148",
                "
                set lds l=1; cds b=bad
                > lds l
                < lds first l=1
                > lds l
                > cds a b
                < cds first b=bad
                > cds nack a b
                set lds l=2
                <
                > cds a
                < lds changed l=2
                > lds l
                set cds b=2              # nobody asks for it
                set lds l=3
                < lds changed l=3
                ",
            ),
            // With the rejection itself, or all of the type.
            (
                "M148",
                "
                set lds l=1; cds b=bad
                > lds l
                < lds first l=1
                > lds l
                > cds a b
                < cds first b=bad
                > cds nack a
                set lds l=2
                < lds changed l=2
                ",
            ),
            (
                "M148",
                "
                set lds l=1; eds e=bad
                > lds l
                < lds first l=1
                > lds l
                > eds e
                < eds first e=bad
                > eds nack e
                set lds l=2
                <
                > eds
                < lds changed l=2
                ",
            ),
            (
                "M148",
                "
                set lds l=1; cds a=1 b=bad
                d> lds +l
                d< lds first l=1
                d> lds ack
                d> cds +b
                d< cds first b=bad
                d> cds nack
                set lds l=2
                d<
                d> cds -b
                d< lds changed l=2
                d> lds ack
                d> cds +*
                d< cds resubscribed a=1 b=bad
                d> cds nack
                set lds l=3
                d<
                d> cds -*
                d< cds resubscribed -a -b
                d> cds ack
                d< lds changed l=3
                ",
            ),
            // What else came with it, the client may lack.
            (
                "M148",
                "
                set lds l=1; eds a=1 b=bad
                > lds l
                < lds first l=1
                > lds l
                > eds a b c
                < eds first a=1 b=bad
                > eds nack a b c
                set lds l=2
                > eds a b
                <
                ",
            ),
        ],
    );
}

#[test]
fn a_rejected_resource_that_went_without_a_word_holds_up_nothing() {
    run_all_with(
        &gated(),
        &[
            (
                "M148 M77",
                "
                set lds l=1; eds e=bad f=1
                > lds l
                < lds first l=1
                > lds l
                > eds e
                < eds first e=bad
                > eds nack e
                set lds l=2
                <
                set eds -f
                <
                set eds -e
                < lds changed l=2
                ",
            ),
            (
                "M148 M223",
                "
                set lds l=1; cds b=bad
                set @v lds l=2
                > lds l
                < lds first l=1
                > lds l
                > cds b
                < cds first b=bad
                > cds nack b
                set lds l=3
                <
                assign 1 v
                < lds changed l=2
                > lds l
                < cds changed
                ",
            ),
        ],
    );
}

/// Whoever looks for the one that is rejected looks no further either.
#[test]
fn a_culprit_that_is_dropped_holds_up_nothing() {
    let config = gated().with_every_type(|it| it.nack_recovery = NackRecovery::Isolate);
    let mut rig = Rig::new(config);
    rig.run(
        "
        set lds l=1; eds a=1 b=bad
        d> lds +l
        d< lds first l=1
        d> lds ack
        d> eds +a +b
        d< eds first a=1 b=bad
        d> eds nack
        d< eds recovery a=1
        d> eds ack
        d< eds recovery b=bad
        d> eds nack
        set lds l=2
        d<
        d> eds -b
        d< lds changed l=2
        ",
    );
    println!("covers: M148 M108");
}

/// What was rejected is sent again when clusters are warmed, and may be accepted then.
#[test]
fn a_rejected_resource_that_is_accepted_for_another_reason_holds_up_nothing() {
    run_all_with(
        &gated(),
        &[
            (
                "M148 M151",
                "
                set lds l=1; cds c=1
                > lds l
                < lds first l=1
                > lds l
                > eds *
                set eds e=bad
                < eds first e=bad
                > eds nack *
                > cds c
                < cds first c=1
                > cds c
                set eds e=3
                < eds changed e=3
                > eds *
                set lds l=2
                < lds changed l=2
                ",
            ),
            (
                "M148 M151",
                "
                set lds l=1; cds c=1
                > lds l
                < lds first l=1
                > lds l
                > eds e f
                set eds e=1 f=1
                < eds first e=1 f=1
                > eds nack e f           # it has no room for these now
                > cds c
                < cds first c=1
                > cds c
                set lds l=2
                <
                > eds e f
                < eds warming e=1 f=1
                > eds e f
                < lds changed l=2
                > lds l
                set eds e=2
                < eds changed e=2
                ",
            ),
        ],
    );
}

/// Who takes a change back takes back what waits for it, too.
#[test]
fn a_rejected_change_that_is_taken_back_holds_up_nothing() {
    run_all_with(
        &gated(),
        &[
            (
                "M147 M148",
                "
                set cds a=1; rds r=1
                > cds
                < cds first a=1
                > cds
                > rds r
                < rds first r=1
                > rds r
                set cds b=bad; rds r=2
                < cds changed a=1 b=bad
                > cds nack
                <
                set cds -b; rds r=3
                < cds changed a=1
                > cds
                < rds changed r=3
                ",
            ),
            (
                "M147 M148",
                "
                set cds a=1; rds r=1
                d> cds +*
                d< cds first a=1
                d> cds ack
                d> rds +r
                d< rds first r=1
                d> rds ack
                set cds b=bad; rds r=2
                d< cds changed b=bad
                d> cds nack
                d<
                set cds -b; rds r=3
                d< cds changed -b
                d> cds ack
                d< rds changed r=3
                ",
            ),
            // While it was on its way.
            (
                "M147 M148",
                "
                set cds a=1; lds l=1
                > cds a
                < cds first a=1
                > lds l
                set cds -a
                > cds nack a
                < cds changed
                > cds a
                < lds first l=1
                ",
            ),
            (
                "M147 M148",
                "
                set cds a=1; lds l=1
                > cds
                < cds first a=1
                > lds l
                set cds -a
                > cds nack
                < cds changed
                > cds
                < lds first l=1
                ",
            ),
        ],
    );
}

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

/// What was told to be gone, and rejected, the client may use yet, and so what it refers to.
#[test]
fn a_rejected_deletion_goes_on_holding_up_others() {
    run_all_with(
        &gated(),
        &[
            (
                "M147 M148",
                "
                set cds a=1 b=1; lds l=1 m=1
                d> cds +*
                d< cds first a=1 b=1
                d> cds ack
                d> lds +*
                d< lds first l=1 m=1
                d> lds ack
                set lds -l; cds -a
                d< lds changed -l
                d> lds nack
                d<
                d> lds +x -x
                d< lds resubscribed -x
                d> lds ack
                d<
                ",
            ),
            (
                "M147 M148",
                "
                set cds a=1; lds l=1 m=bad
                > cds
                < cds first a=1
                > cds
                > lds l
                < lds first l=1
                > lds l
                set lds -l; cds -a
                > lds l m
                < lds changed m=bad
                > lds nack l m
                <
                > lds l
                < lds recovery           # without what was bad
                <
                > lds l
                < cds changed
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
            // What it had by name before, it may have yet.
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
                < cds changed a=1 b=bad c=1
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

/// Who has all there is need not take note that something is gone: what only waits for what there is goes on.
#[test]
fn rejected_news_hold_up_nothing_that_waits_for_what_there_is() {
    run_all_with(
        &gated(),
        &[
            (
                "M146 M148",
                "
                set cds a=1 c=1; lds l=1
                d> cds +a +b +c
                d< cds first a=1 c=1 -b
                d> cds ack
                d> lds +l
                d< lds first l=1
                d> lds ack
                set cds b=bad -c
                d< cds changed b=bad -c
                d> cds nack
                set lds l=2
                d<
                d> cds -b
                d< lds changed l=2
                ",
            ),
            // But for what the client may have yet that refers to what is gone.
            (
                "M147 M148",
                "
                set cds a=1 c=1; lds l=1; eds e=1
                d> cds +a +b +c
                d< cds first a=1 c=1 -b
                d> cds ack
                d> eds +e
                d< eds first e=1
                d> eds ack
                d> lds +l
                d< lds first l=1
                d> lds ack
                set cds b=bad -c
                d< cds changed b=bad -c
                d> cds nack
                set lds l=2; eds -e
                d<
                d> cds -b
                d< lds changed l=2
                d> lds ack
                d<
                ",
            ),
            // Nor is everything had that was asked for after something was accepted.
            (
                "M146 M148",
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
                set lds l=2
                <
                ",
            ),
            (
                "M146 M148",
                "
                set eds a=1 b=bad; lds l=1
                > eds a
                < eds first a=1
                > eds a
                > lds l
                < lds first l=1
                > lds l
                > eds *
                < eds resubscribed b=bad
                > eds nack *
                set lds l=2
                <
                set eds -b
                < lds changed l=2
                ",
            ),
            // Of what it lacks, nothing is forgiven.
            (
                "M146 M148",
                "
                set cds a=1 c=1; lds l=1
                d> cds +a +b +c
                d< cds first a=1 c=1 -b
                d> cds ack
                d> lds +l
                d< lds first l=1
                d> lds ack
                set cds a=2 b=bad -c
                d< cds changed a=2 b=bad -c
                d> cds nack
                set lds l=2
                d> cds -b
                d<
                ",
            ),
        ],
    );
}
