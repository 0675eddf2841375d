//! Tests with servers that withhold resources.

use super::*;

/// Checks the server as drained. The real server has not seen these messages, so it is not queried
/// about acceptance.
fn looks(scene: &mut Scene<'_>) {
    scene.oracle.drained(0, scene.world, scene.report);
}

/// Returns the rule broken by a server that has sent nothing to a client that subscribes to a name.
fn withheld(
    options: Options,
    name: &'static str,
    before: impl Fn(&mut Scene<'_>) + Send + Sync + 'static,
) -> Option<Rule> {
    broken(options, move |scene| {
        before(scene);
        scene.asks(0, &[name]);
        looks(scene);
    })
}

#[test]
fn what_is_kept_back_for_no_reason_is_found_out() {
    let sent = broken(Options::default(), |scene| {
        scene.asks(0, &["r0"]);
        scene.says(response(0, &GOOD));
        scene.answers(0, &["r0"], None);
        looks(scene);
    });
    assert_eq!(sent, None);
    let blocked = |scene: &mut Scene<'_>| {
        scene.world.block_responses(scene.link, Duration::from_secs(1));
    };
    let named_late = |scene: &mut Scene<'_>| {
        scene.world.set(0, "r1", "good");
        scene.asks(0, &["r0"]);
        scene.says(response(0, &GOOD));
        scene.answers(0, &["r0"], None);
    };
    assert_eq!(withheld(Options::default(), "r0", |_| {}), Some(REMEMBERED));
    assert_eq!(withheld(Options::default(), "r0", blocked), None);
    assert_eq!(withheld(Options::default(), "r1", named_late), Some(NEWLY_NAMED));
    assert_eq!(withheld(Options::default(), "r9", |_| {}), None);
    assert_eq!(withheld(incremental(), "r0", |_| {}), Some(ANSWERED));
    assert_eq!(withheld(incremental(), "r0", blocked), None);
    assert_eq!(withheld(incremental(), "r9", |_| {}), Some(NONE_IS_TOLD));
    println!("covers: IS6 IS7 IS8 IS12");
}

#[test]
fn what_is_kept_back_beside_others_is_found_out() {
    let beside_another = |scene: &mut Scene<'_>| {
        assert!(scene.world.watch(1, 0, Some("r0")).is_some());
        scene.world.advance(Duration::from_secs(1));
        let own = scene.link;
        let other = scene.world.open_links().into_iter().find(|link| *link != own);
        scene.link = other.expect("the other client has a stream");
        scene.asks(0, &["r9"]);
        scene.link = own;
    };
    for options in [Options::default(), incremental()] {
        let two = Options { clients: 2, ..options };
        assert_eq!(withheld(two, "r0", beside_another), Some(AT_ONCE));
    }
    println!("covers: IS25");
}
