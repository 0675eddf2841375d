//! Tests with clients that read too early or delay too much.

use std::time::Duration;

use xds_core::client::Resource;

use super::*;
use crate::{
    oracle::testing::broken_rule,
    world::{
        Party,
        message::{Names, Request},
    },
};

/// A client with a valid resource `r0` of the first type and one watch, and the oracle.
struct BusyCase<'a> {
    oracle: Busy,
    world: &'a mut World,
    link: LinkId,
    watch: WatchId,
    report: &'a mut Report,
}

impl BusyCase<'_> {
    fn sees(&mut self, event: &Event<'_>) {
        assert!(self.report.breach.is_none(), "before {event:?}: {:?}", self.report.breach);
        self.oracle.on_event(event, self.world, self.report);
    }

    /// The client reads a response with this nonce.
    fn reads(&mut self, nonce: &str) {
        let response = Response {
            kind: Some(0),
            nonce: nonce.into(),
            version: Text::default(),
            resources: Vec::new(),
            removed: Vec::new(),
            errors: Vec::new(),
        };
        self.sees(&Event::Read { link: self.link, response: Some(&response) });
    }

    fn answers(&mut self, nonce: &str) {
        self.requests(nonce, None);
    }

    fn rejects(&mut self, nonce: &str) {
        self.requests(nonce, Some(3));
    }

    fn requests(&mut self, nonce: &str, error: Option<i32>) {
        let request = Request {
            kind: Some(0),
            nonce: nonce.into(),
            version: Text::default(),
            error,
            node: None,
            names: Names::Whole(vec!["r0".into()]),
        };
        self.sees(&Event::Requested { link: self.link, request: &request });
    }

    fn tells(&mut self) {
        let value = Resource::new("r0", "1", crate::Toy::bytes("r0", "good"));
        self.tells_this(&Notice::Changed(Ok(value)));
    }

    fn tells_this(&mut self, notice: &Notice) {
        self.sees(&Event::Notified { client: 0, watch: self.watch, notice });
    }

    fn is_done(&mut self) {
        self.sees(&Event::Handled { client: 0, watch: self.watch });
    }

    fn is_drained(&mut self) {
        self.sees(&Event::ClientDrained { client: 0 });
    }

    fn begins(&mut self, name: &str) {
        let watch = self.watch;
        let name = Some(name);
        self.sees(&Event::Watched { client: 0, watch, kind: 0, name, is_first: true });
    }
}

fn broken(
    options: Options,
    play: impl Fn(&mut BusyCase<'_>) + Send + Sync + 'static,
) -> Option<Rule> {
    broken_rule(options, move |world, link, report| {
        let (watch, _) = world.watches(0).next().expect("there is one");
        play(&mut BusyCase { oracle: Busy::default(), world, link, watch, report });
    })
}

fn proxy() -> Options {
    Options { profile: ProfileName::Envoy, ..Options::default() }
}

#[test]
fn reading_while_a_watcher_is_busy_is_detected() {
    enum Between {
        Nothing,
        Drained,
        Done,
        Ended,
    }
    let reads_again = |between: Between| {
        broken(Options::default(), move |case| {
            case.reads("1");
            case.tells();
            case.answers("1");
            match between {
                Between::Nothing => {}
                Between::Drained => case.is_drained(),
                Between::Done => case.is_done(),
                Between::Ended => case.sees(&Event::Unwatched { client: 0, watch: case.watch }),
            }
            case.reads("2");
        })
    };
    assert_eq!(reads_again(Between::Nothing), Some(WAITS));
    assert_eq!(reads_again(Between::Drained), Some(WAITS));
    assert_eq!(reads_again(Between::Done), None);
    assert_eq!(reads_again(Between::Ended), None);
    println!("covers: IC34");
}

#[test]
fn unrelated_notices_do_not_block_reading() {
    let begun_since = broken(Options::default(), |case| {
        case.reads("1");
        case.begins("r0");
        case.tells();
        case.reads("2");
    });
    assert_eq!(begun_since, None);
    let told_before = broken(Options::default(), |case| {
        case.tells();
        case.reads("1");
        case.reads("2");
    });
    assert_eq!(told_before, None);
    enum Since {
        Nothing,
        Connections,
        Failure,
        First,
    }
    let well_again = |since: Since| {
        broken(Options::default(), move |case| {
            if !matches!(since, Since::First) {
                case.reads("0");
            }
            match since {
                Since::Nothing | Since::First => {}
                Since::Connections => {
                    case.oracle.clients.entry(0).or_default().troubled.insert(case.watch);
                }
                Since::Failure => case.sees(&Event::Unreadable { link: case.link }),
            }
            case.reads("1");
            case.tells_this(&Notice::Ambient(None));
            case.reads("2");
        })
    };
    assert_eq!(well_again(Since::Nothing), Some(WAITS));
    assert_eq!(well_again(Since::Connections), None);
    assert_eq!(well_again(Since::Failure), None);
    assert_eq!(well_again(Since::First), None);
    println!("covers: IC34");
}

#[test]
fn not_reading_without_a_busy_watcher_is_detected() {
    let waits = |is_seen: bool| {
        broken(Options::default(), move |case| {
            case.world.slow_down(0, case.watch, Duration::from_secs(9));
            case.world.set(0, "r0", "better");
            case.world.advance(Duration::from_secs(1));
            assert!(!case.world.client(0).wants_read(case.world.link(case.link).channel));
            if is_seen {
                case.reads("1");
                case.tells();
                case.answers("1");
            }
            case.is_drained();
        })
    };
    assert_eq!(waits(true), None);
    assert_eq!(waits(false), Some(READS_ON));
    println!("covers: IC34");
}

#[test]
fn ack_that_waits_for_watchers_is_detected() {
    let answers = |options: Options, is_answered: bool, is_busy: bool| {
        broken(options, move |case| {
            case.reads("1");
            if is_busy {
                case.tells();
            }
            if is_answered {
                case.answers("1");
            }
            case.is_drained();
        })
    };
    assert_eq!(answers(Options::default(), true, true), None);
    assert_eq!(answers(Options::default(), false, true), Some(ANSWERS));
    assert_eq!(answers(proxy(), false, true), None);
    assert_eq!(answers(proxy(), false, false), Some(ANSWERS));
    println!("covers: IC34");
}

#[test]
fn ack_may_wait_only_for_the_nack_of_an_earlier_response() {
    let acks = |delayed: &'static [&'static str]| {
        broken(Options::default(), move |case| {
            case.reads("0");
            case.rejects("0");
            delayed.iter().for_each(|nonce| case.reads(nonce));
            case.is_drained();
            case.world.advance(NACK_INTERVAL);
            let (last, rejected) = delayed.split_last().expect("a response that is accepted");
            rejected.iter().for_each(|nonce| case.rejects(nonce));
            case.answers(last);
        })
    };
    assert_eq!(acks(&["1"]), Some(NACKS_APART));
    assert_eq!(acks(&["1", "2"]), None);
    println!("covers: IC34");
}

#[test]
fn missing_request_while_a_watcher_is_busy_is_detected() {
    let asks = |is_asked: bool| {
        broken(Options::default(), move |case| {
            if !is_asked {
                case.world.suspend(Party::Client(0), Duration::from_secs(1));
            }
            case.world.watch(0, 0, Some("r1"));
            case.tells();
            case.begins("r1");
            case.is_drained();
        })
    };
    assert_eq!(asks(true), None);
    assert_eq!(asks(false), Some(ASKS));
    println!("covers: IC34");
}
