//! Subscriptions in the incremental variant, each of which is answered.

use crate::support::{Rig, run_all};
use xds_core::server::SubscribedNames;

// M86-M104: subscriptions and unsubscriptions; every subscription is answered.
#[test]
fn each_subscription_is_answered() {
    run_all(&[
        (
            "M86 M87 M88 IS14",
            "
            set cds a=1 b=1
            d> cds
            d< cds first a=1 b=1
            d> cds ack +a
            d< cds resubscribed a=1
            d> cds ack -*
            d< cds resubscribed -b
            d> cds ack
            set cds a=2 b=2
            d< cds changed a=2
            d> cds ack
            d<",
        ),
        (
            "M89 M90",
            "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            d> eds ack +*
            d< eds resubscribed b=1
            2d> eds +*
            2d< eds first a=1 b=1",
        ),
        (
            "M91 M92 IS14",
            "
            set cds a=1
            d> cds +* +a +b
            d< cds first a=1 -b
            d> cds ack -a
            d< cds resubscribed a=1
            d> cds ack -b
            d< cds resubscribed -b
            d> cds ack
            set cds a=2 b=1
            d< cds changed a=2 b=1",
        ),
        (
            "M93",
            "
            set cds a=1 b=1 c=1
            d> cds +* +a
            d< cds first a=1 b=1 c=1
            d> cds ack -*
            d< cds resubscribed -b -c
            d> cds ack
            set cds b=2
            d<",
        ),
        (
            "M94 M102",
            "
            set eds a=1 b=1
            d> eds +a +b
            d< eds first a=1 b=1
            d> eds ack -a
            d<
            set eds a=2
            d<
            set eds b=2
            d< eds changed b=2",
        ),
        (
            "M95 S0.195",
            "
            set cds a=1
            d> cds +*
            d< cds first a=1
            d> cds ack -never
            d<
            set cds a=2
            d< cds changed a=2",
        ),
        (
            "M96 IS7 S0.192 S0.193",
            "
            set eds a=1
            d> eds +a
            d< eds first a=1
            d> eds ack
            d> eds +a
            d< eds resubscribed a=1
            d> eds ack
            d> eds -a
            d> eds +a
            d< eds resubscribed a=1",
        ),
        (
            "M97 IS7",
            "
            set cds a=1 b=1
            d> cds +*
            d< cds first a=1 b=1
            d> cds ack +a
            d< cds resubscribed a=1",
        ),
        // The resource is gone again, but the subscription must still be answered.
        (
            "M97 IS7",
            "
            d> cds +*
            d< cds first
            set cds a=1
            d> cds +*
            d<
            set cds -a
            d> cds ack
            d< cds resubscribed
            d> cds ack
            d<",
        ),
        (
            "M98",
            "
            set eds a=1
            d> eds +a -a
            d<
            set eds a=2
            d<
            2d> cds +* -*
            2d<
            set cds a=1
            2d<
            2d> cds +a
            2d< cds first a=1",
        ),
        (
            "M99",
            "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            d> eds ack +b
            d< eds resubscribed b=1",
        ),
        (
            "M100",
            "
            d> cds +*
            d< cds first
            d> cds ack
            d<
            2d> cds
            2d< cds first
            2d> cds ack
            2d<",
        ),
        (
            "M101",
            "
            set cds a=1
            d> cds +a
            d< cds first a=1
            d> cds ack -a
            d<
            d> cds
            d<
            set cds b=1
            d<",
        ),
        (
            "M103 M134",
            "
            set cds a=1 b=1
            d> cds
            d< cds first a=1 b=1
            d> cds ack
            set cds a=2 -b c=1
            d< cds changed a=2 c=1 -b
            d> cds ack
            set cds -c
            d< cds changed -c",
        ),
        (
            "M104",
            "
            set cds a=1
            d> cds
            d< cds first a=1
            d> cds ack
            set cds a=1
            d<",
        ),
    ]);
}

/// The interest in the stream status follows subscriptions and unsubscriptions.
#[test]
fn stream_status_reports_interest() {
    let mut rig = Rig::script("d> cds +* +a +b");
    let interest = |rig: &Rig| rig.server.status().next().map(|status| status.subscribed);
    assert_eq!(interest(&rig), Some(SubscribedNames::WildcardAndNames(2)));
    rig.run("d< cds first -a -b\nd> cds ack -a");
    assert_eq!(interest(&rig), Some(SubscribedNames::WildcardAndNames(1)));
    rig.run("d< cds resubscribed -a\nd> cds ack -* -b");
    assert_eq!(interest(&rig), Some(SubscribedNames::Nothing));
    rig.run("1close");
    assert_eq!(rig.server.stats().names, 0, "IS23");
    println!("covers: M13 IS23");
}
