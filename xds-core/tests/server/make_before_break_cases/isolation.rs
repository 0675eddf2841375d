//! Make before break while the resources of a rejected response are sent one by one.

use super::*;

fn run_isolating(requirement: &str, script: &str) {
    let config = gated(|_| ()).with_every_type(|it| it.nack_recovery = NackRecovery::Isolate);
    run_all_with(&config, &[(requirement, &started(script))]);
}

// An isolated resource blocks its dependents, although the others were ACKed.
#[test]
fn isolated_resource_blocks_dependents_until_replaced() {
    run_isolating(
        "M148 M108",
        "
        settled-delta
        set cds b=1 c=bad; rds r=2 | d< cds changed b=1 c=bad
        d> cds nack                | d< cds recovery b=1
        d> cds ack                 | d< cds recovery c=bad
        d> cds nack                | d<
        set cds c=2                | d< cds changed c=2
        d> cds ack                 | d< rds changed r=2
        d> rds ack                 | d<
        ",
    );
}

// A removal that waits for routes does not hold back what was sent before, and stays withheld.
#[test]
fn resources_are_isolated_while_removal_is_withheld() {
    run_isolating(
        "M147 M108",
        "
        settled
        set cds -a b=1; rds r=2 | < cds changed b=1 a=1
        > cds                   | < rds changed r=2
        set cds c=bad d=1       | < cds changed b=1 c=bad d=1 a=1
        > cds nack              | < cds recovery a=1 b=1 c=bad
        > cds nack              | < cds recovery a=1 b=1 d=1
        > cds                   | <
        > rds r                 | < cds changed b=1 c=bad d=1
        ",
    );
}

// What was left out of the accepted state is not withheld when it is removed.
#[test]
fn removal_of_resource_left_out_of_accepted_state_is_not_withheld() {
    run_isolating(
        "M147 M108",
        "
        set cds a=1 c=bad; rds r=1
        > cds *
        > rds r
        < cds first a=1 c=bad
        > cds nack * | < cds recovery a=1
        set cds -c   | <
        > cds *      | < rds first r=1
        ",
    );
}

// A state that was sent to isolate a resource is not repeated when a removal leads to the same state.
#[test]
fn removal_that_leads_to_isolated_state_repeats_nothing() {
    let config =
        ServerConfig::default().with_every_type(|it| it.nack_recovery = NackRecovery::Isolate);
    let script = "
        set cds b=1 c=1 d=bad; lds l=1
        > cds
        < cds first b=1 c=1 d=bad
        set cds -b
        > lds
        > cds nack | < cds recovery c=1
        > cds      | < cds recovery c=1 d=bad
        > cds nack | < lds first l=1
        <
        ";
    run_all_with(&config, &[("IS4 M108", script)]);
}
