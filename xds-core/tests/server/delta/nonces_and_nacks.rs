//! Nonces and rejections in the incremental variant.

use crate::support::{Rig, run_all};
use xds_core::server::Observation;

// M105-M115: nonces and rejections.
#[test]
fn nonces_and_nacks_follow_protocol() {
    run_all(&[
        (
            "M105 M114 IS16",
            "
            set cds a=1
            d> cds
            d< cds first a=1
            set cds a=2
            set cds a=3 b=1
            d<
            d> cds ack
            d< cds changed a=3 b=1
            d> cds ack
            d<",
        ),
        (
            "M106 M53",
            "
            set cds a=1
            d> cds
            d< cds first a=1
            d> cds nack
            d<
            d> cds nack
            d<
            set cds a=2
            d< cds changed a=2",
        ),
        (
            "M107 IS4",
            "
            set eds good=1 bad=1
            d> eds +good +bad
            d< eds first good=1 bad=1
            d> eds nack
            d<
            set eds bad=2
            d< eds changed good=1 bad=2
            d> eds nack
            d<
            set eds bad=3
            d< eds changed bad=3    # the valid one was re-sent once
            d> eds ack",
        ),
        (
            "M107",
            "
            set cds good=1 bad=1
            d> cds
            d< cds first good=1 bad=1
            d> cds nack
            d<
            set cds bad=2
            d< cds changed good=1 bad=2
            d> cds ack
            set cds bad=3
            d< cds changed bad=3",
        ),
        (
            "M109",
            "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            d> eds nack +b
            d< eds resubscribed b=1",
        ),
        (
            "M110 IS3",
            "
            set eds a=1 b=1
            d> eds +a
            d< eds first a=1
            d> eds ack
            set eds a=2
            d< eds changed a=2
            d> eds nonce:1 +b      # stale nonce
            d<
            d> eds ack
            d< eds resubscribed b=1",
        ),
        (
            "M111",
            "
            set eds a=1
            d> eds +a
            d< eds first a=1
            d> eds ack
            set eds a=2
            d< eds changed a=2
            d> eds nonce:1
            d<
            d> eds ack
            d<",
        ),
        (
            "M112",
            "
            set eds a=1
            d> eds nonce:77 +a
            d< eds first a=1
            d> eds nonce:78
            d> eds nonce:x
            d<",
        ),
        (
            "M115 M131",
            "
            d> eds +a
            d< eds first -a
            set eds a=1
            set eds -a
            d> eds ack
            d< eds changed -a
            d> eds ack
            2d> cds
            2d< cds first
            set cds x=1
            set cds -x
            2d> cds ack
            2d<",
        ),
    ]);
    let mut rig = Rig::script(
        "
        set eds a=1
        d> eds +a
        d< eds first a=1
        d> eds ack
        set eds a=2
        d< eds changed a=2
        d> eds nonce:1
        d> eds nonce:9
        d> eds nack",
    );
    let seen = rig.observations();
    let count = |wanted: fn(&Observation) -> bool| seen.iter().filter(|o| wanted(o)).count();
    assert_eq!(count(|o| matches!(o, Observation::StaleNonce { .. })), 1);
    assert_eq!(count(|o| matches!(o, Observation::BogusNonce { .. })), 1);
    assert_eq!(count(|o| matches!(o, Observation::Acked { .. })), 1);
    assert_eq!(count(|o| matches!(o, Observation::Nacked { .. })), 1);
    println!("covers: M106 M111 M112");
}
