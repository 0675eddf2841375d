//! Tests with servers that withhold resources.

use super::*;

/// Checks the server as drained. The real server has not seen these messages, so it is not queried
/// about acceptance.
fn looks(case: &mut StreamCase<'_>) {
    case.oracle.drained(0, case.world, case.report);
}

/// Returns the rule broken by a server that has sent nothing to a client that subscribes to a name.
fn withheld(
    options: Options,
    name: &'static str,
    before: impl Fn(&mut StreamCase<'_>) + Send + Sync + 'static,
) -> Option<Rule> {
    broken(options, move |case| {
        before(case);
        case.asks(0, &[name]);
        looks(case);
    })
}

#[test]
fn withholding_without_a_reason_is_detected() {
    let sent = broken(Options::default(), |case| {
        case.asks(0, &["r0"]);
        case.says(response(0, &GOOD));
        case.answers(0, &["r0"], None);
        looks(case);
    });
    assert_eq!(sent, None);
    let blocked = |case: &mut StreamCase<'_>| {
        case.world.block_responses(case.link, Duration::from_secs(1));
    };
    let named_late = |case: &mut StreamCase<'_>| {
        case.world.set(0, "r1", "good");
        case.asks(0, &["r0"]);
        case.says(response(0, &GOOD));
        case.answers(0, &["r0"], None);
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
fn delay_caused_by_another_client_is_detected() {
    let beside_another = |case: &mut StreamCase<'_>| {
        assert!(case.world.watch(1, 0, Some("r0")).is_some());
        case.world.advance(Duration::from_secs(1));
        let own = case.link;
        let other = case.world.open_links().into_iter().find(|link| *link != own);
        case.link = other.expect("the other client has a stream");
        case.asks(0, &["r9"]);
        case.link = own;
    };
    for options in [Options::default(), incremental()] {
        let two = Options { clients: 2, ..options };
        assert_eq!(withheld(two, "r0", beside_another), Some(AT_ONCE));
    }
    println!("covers: IS25");
}
