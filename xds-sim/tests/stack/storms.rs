//! Storms on a stage.

use xds_sim::stack::{Stage, check::check, storm::storm};

#[test]
fn storms_break_no_rule() {
    let summary = check(0..100, &async |stage: &Stage| storm(stage).await);
    println!("{summary:?}");
}
