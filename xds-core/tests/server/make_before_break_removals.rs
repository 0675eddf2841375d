//! Make before break: removals without a replacement, and subscriptions to removed resources.

use crate::support::run_all_with;
use xds_core::server::{
    Admission, MakeBeforeBreakPolicy, OrderingPolicy, ServerConfig, StageTimeoutAction,
};

fn gated() -> ServerConfig {
    let mut policy = MakeBeforeBreakPolicy::default();
    policy.references = None;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(policy);
    config
}

/// A resource that loses the subscribed alias is removed like a deleted one.
#[test]
fn resource_without_its_alias_is_removed_after_references() {
    run_all_with(
        &gated(),
        &[
            (
                "M136 M147",
                "
                set cds a=1; eds a+x=1
                d> cds +*
                d< cds first a=1
                d> cds ack
                d> eds +x
                d< eds first a+x=1
                d> eds ack
                set cds b=1 -a; eds b+x=1 a=1
                d< cds changed b=1 -a
                d< eds changed b+x=1
                d> eds ack
                d<                       # the cluster still exists
                d> cds ack
                d< eds changed -a
                d> eds ack
                d<
                ",
            ),
            // The alias is restored before the removal was sent.
            (
                "M136 M149",
                "
                set cds a=1; eds a+x=1
                d> cds +*
                d< cds first a=1
                d> cds ack
                d> eds +x
                d< eds first a+x=1
                d> eds ack
                set cds b=1 -a; eds b+x=1 a=1
                d< cds changed b=1 -a
                d< eds changed b+x=1
                d> eds ack
                set eds b=1 a+x=1
                d< eds changed a+x=1
                d> eds ack
                d> cds ack
                d< eds changed -b
                d> eds ack
                d<
                ",
            ),
        ],
    );
}

// IS7: a subscription to a removed resource is answered at once.
#[test]
fn subscription_to_removed_resource_is_answered_at_once() {
    run_all_with(
        &gated(),
        &[
            (
                "M96 M127 M146",
                "
                set cds a=1; rds r=1
                d> cds +*
                d< cds first a=1
                d> cds ack
                d> rds +r
                d< rds first r=1
                d> rds ack
                set cds a=2; rds -r
                d< rds changed -r
                d> rds ack
                d< cds changed a=2       # not ACKed
                d> rds +r
                d< rds resubscribed -r
                d> rds ack
                d> rds +s
                d< rds resubscribed -s
                d<
                ",
            ),
            (
                "M147",
                "
                set cds a=1; lds l=1
                d> cds +*
                d< cds first a=1
                d> cds ack
                d> lds +l
                d< lds first l=1
                d> lds ack
                set cds a=2; lds -l
                d< lds changed -l        # listeners are not referenced
                d< cds changed a=2
                d> lds ack
                d> lds +l
                d< lds resubscribed -l
                ",
            ),
        ],
    );
}

/// After a view change the time of a removal is unknown. With `StageTimeoutAction::Continue` it is sent after
/// the timeout.
#[test]
fn removal_after_view_change_is_sent_after_timeout() {
    let mut policy = MakeBeforeBreakPolicy::default();
    policy.references = None;
    policy.on_stage_timeout = StageTimeoutAction::Continue;
    let mut config = ServerConfig::default();
    config.ordering = OrderingPolicy::MakeBeforeBreak(policy);
    config.admission = Admission::ByApplication;
    run_all_with(
        &config,
        &[(
            "M148",
            "
            set @one eds a=1
            set @two cds a=1
            d> eds +a
            assign 1 one
            d< eds first a=1
            d> eds ack
            d> cds
            d< cds first
            d> cds ack
            assign 1 two
            d< cds changed a=1
            d> cds nack
            d<
            wait 5s
            d< eds changed -a
            d> eds ack
            d<
            wait 60s
            d<
            ",
        )],
    );
}

/// A returning client that has everything is sent an empty response before the removal of what it
/// states, because the removal waits for its first ACK.
#[test]
fn stated_resource_is_removed_although_nothing_was_due() {
    run_all_with(
        &gated(),
        &[(
            "IL1 M147",
            "
            set cds r=1
            9d> cds +r
            9d< cds first r=1
            9d> cds ack
            d> cds +r has:r=1
            d<
            set cds -r
            9d< cds changed -r
            d< cds first
            d> cds ack
            d< cds changed -r
            d> cds ack
            d<
            ",
        )],
    );
}
