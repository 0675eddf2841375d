//! Tests with servers that break rules.

mod acceptance;
mod warming;
mod withheld;

use std::time::Duration;

use xds_core::service::Variant;

use super::{rules::*, *};
use crate::{
    options::{Action, Options},
    oracle::testing::broken_rule,
    world::message::ResponseItem,
};

/// Oracle with a client and a server whose messages are made by the test.
struct StreamCase<'a> {
    oracle: ServerResponses,
    world: &'a mut World,
    link: LinkId,
    report: &'a mut Report,
    nonces: u32,
}

/// Returns a resource in a response from its name and text.
fn item((name, text): (&str, &str)) -> ResponseItem {
    ResponseItem {
        name: name.into(),
        version: Text::default(),
        bytes: Some(crate::Toy::bytes(name, text)),
        ttl: None,
    }
}

fn response(kind: usize, items: &[(&str, &str)]) -> Response {
    Response {
        kind: Some(kind),
        nonce: Text::default(),
        version: "v".into(),
        resources: items.iter().copied().map(item).collect(),
        removed: Vec::new(),
        errors: Vec::new(),
    }
}

impl StreamCase<'_> {
    fn asks(&mut self, kind: usize, names: &[&str]) {
        let names = names.iter().copied().map(Text::from).collect();
        let names = match self.world.options().variant {
            Variant::StateOfTheWorld => Names::Whole(names),
            Variant::Incremental => {
                Names::Change { subscribe: names, unsubscribe: Vec::new(), versions: Vec::new() }
            }
        };
        self.hears(kind, "", None, names);
    }

    fn hears(&mut self, kind: usize, nonce: &str, error: Option<i32>, names: Names) {
        let request = Request {
            kind: Some(kind),
            nonce: nonce.into(),
            version: Text::default(),
            error,
            node: None,
            names,
        };
        let event = Event::Arrived { link: self.link, request: &request };
        self.oracle.on_event(&event, self.world, self.report);
    }

    /// The client acknowledges the newest response.
    fn answers(&mut self, kind: usize, names: &[&str], error: Option<i32>) {
        let names = match self.world.options().variant {
            Variant::StateOfTheWorld => {
                Names::Whole(names.iter().copied().map(Text::from).collect())
            }
            Variant::Incremental => Names::Change {
                subscribe: Vec::new(),
                unsubscribe: Vec::new(),
                versions: Vec::new(),
            },
        };
        let nonce = self.nonces.to_string();
        self.hears(kind, &nonce, error, names);
    }

    /// The server sends this response with a new nonce.
    fn says(&mut self, response: Response) {
        self.nonces += 1;
        self.says_as(self.nonces, response);
    }

    fn says_as(&mut self, nonce: u32, response: Response) {
        let response = Response { nonce: nonce.to_string().into(), ..response };
        let event = Event::Responded { link: self.link, response: &response };
        self.oracle.on_event(&event, self.world, self.report);
    }

    /// Asserts that no rule has been broken.
    fn is_well(&self) {
        assert!(self.report.breach.is_none(), "{:?}", self.report.breach);
    }

    fn ends_up(&mut self) {
        for event in [Event::Phase(Phase::Converge), Event::Rest] {
            self.oracle.on_event(&event, self.world, self.report);
        }
    }
}

/// Returns the rule broken in a case whose server has a valid `r0` of the first type.
fn broken(
    options: Options,
    play: impl Fn(&mut StreamCase<'_>) + Send + Sync + 'static,
) -> Option<Rule> {
    broken_rule(options, move |world, link, report| {
        let oracle = ServerResponses::default();
        play(&mut StreamCase { oracle, world, link, report, nonces: 0 });
    })
}

fn of(variant: Variant) -> Options {
    Options { variant, ..Options::default() }
}

fn incremental() -> Options {
    of(Variant::Incremental)
}

const GOOD: [(&str, &str); 1] = [("r0", "good")];

#[test]
fn reused_nonce_is_detected() {
    let found = broken(Options::default(), |case| {
        case.asks(0, &["r0"]);
        case.says(response(0, &GOOD));
        case.answers(0, &["r0"], None);
        case.world.set(0, "r0", "better");
        case.is_well();
        case.says_as(1, response(0, &[("r0", "better")]));
    });
    assert_eq!(found, Some(UNIQUE_NONCE));
    println!("covers: IS1");
}

#[test]
fn resent_nacked_resource_is_detected() {
    let found = broken(Options::default(), |case| {
        case.asks(0, &["r0"]);
        case.says(response(0, &GOOD));
        case.answers(0, &["r0"], Some(3));
        case.is_well();
        case.says(response(0, &GOOD));
    });
    assert_eq!(found, Some(NO_REPETITION));
    println!("covers: IS4");
}

#[test]
fn resent_acked_resource_is_detected() {
    let found = broken(Options::default(), |case| {
        case.asks(0, &["r0"]);
        case.says(response(0, &GOOD));
        case.answers(0, &["r0"], None);
        case.is_well();
        case.says(response(0, &GOOD));
    });
    assert_eq!(found, Some(NEWS));
    println!("covers: IS5");
}

#[test]
fn unanswered_name_is_detected() {
    let ends_without = |name: &'static str| {
        broken(incremental(), move |case| {
            case.asks(0, &[name]);
            case.ends_up();
        })
    };
    assert_eq!(ends_without("r0"), Some(ANSWERED));
    assert_eq!(ends_without("r9"), Some(NONE_IS_TOLD));
    println!("covers: IS7 IS12");
}

#[test]
fn resource_never_sent_is_detected() {
    let found = broken(Options::default(), |case| {
        case.asks(0, &["r0"]);
        case.ends_up();
    });
    assert_eq!(found, Some(REMEMBERED));
    println!("covers: IS8");
}

#[test]
fn full_state_with_missing_or_extra_resources_is_detected() {
    let says = |items: &'static [(&str, &str)]| {
        broken(Options::default(), move |case| {
            case.world.set(0, "r1", "good");
            case.asks(0, &["r0", "r1", "r9"]);
            case.says(response(0, items));
        })
    };
    assert_eq!(says(&[("r0", "good"), ("r1", "good")]), None);
    assert_eq!(says(&[("r0", "good")]), Some(FULL_STATE));
    assert_eq!(says(&[("r0", "good"), ("r1", "old")]), Some(FULL_STATE));
    assert_eq!(says(&[("r0", "good"), ("r1", "good"), ("r9", "good")]), Some(LEFT_OUT));
    println!("covers: IS9 IS10");
}

#[test]
fn unrequested_resource_is_detected() {
    let found = broken(incremental(), |case| {
        case.world.set(0, "r1", "good");
        case.asks(0, &["r0"]);
        case.says(response(0, &[("r0", "good"), ("r1", "good")]));
    });
    assert_eq!(found, Some(FULL_STATE));
}

#[test]
fn resource_of_another_view_is_detected() {
    let found = broken(Options { views: 2, ..incremental() }, |case| {
        let other = case.world.has(0, 1)[0]["r0"].clone();
        assert_ne!(other, case.world.has(0, 0)[0]["r0"]);
        case.asks(0, &["r0"]);
        let foreign = ResponseItem { bytes: Some(other), ..item(GOOD[0]) };
        case.says(Response { resources: vec![foreign], ..response(0, &[]) });
    });
    assert_eq!(found, Some(OWN_VIEW));
    println!("covers: IS20");
}

#[test]
fn repeated_or_wrong_removal_is_detected() {
    let removes = |name: &'static str, times: u32| {
        broken(incremental(), move |case| {
            case.asks(0, &[name]);
            for _ in 0..times {
                case.says(Response { removed: vec![name.into()], ..response(0, &[]) });
                case.answers(0, &[], None);
            }
        })
    };
    assert_eq!(removes("r9", 1), None);
    assert_eq!(removes("r9", 2), Some(REMOVED_ONCE));
    assert_eq!(removes("r0", 1), Some(REMOVED_ONCE));
    println!("covers: IS11");
}

/// A client that subscribes only to an alias must receive the removal under the alias.
#[test]
fn removal_by_the_name_does_not_count_for_a_subscribed_alias() {
    let with_aliases =
        Options { actions: [Action::WatchAlias].into_iter().collect(), ..incremental() };
    let removes = |asked: &'static [&'static str]| {
        broken(with_aliases.clone(), move |case| {
            case.asks(0, asked);
            case.says(response(0, &GOOD));
            case.answers(0, &[], None);
            case.world.delete(0, "r0");
            case.asks(0, &["also-r0"]);
            for name in ["also-r0", "r0"] {
                case.says(Response { removed: vec![name.into()], ..response(0, &[]) });
                case.answers(0, &[], None);
            }
        })
    };
    assert_eq!(removes(&["*"]), None);
    assert_eq!(removes(&["r0"]), None);
    assert_eq!(removes(&["also-r0"]), Some(REMOVED_ONCE));
    println!("covers: IS11");
}

#[test]
fn one_version_for_two_contents_is_detected() {
    for options in [Options::default(), incremental()] {
        let found = broken(options, |case| {
            case.asks(0, &["r0"]);
            case.says(response(0, &GOOD));
            case.answers(0, &["r0"], None);
            case.world.set(0, "r0", "better");
            case.is_well();
            case.says(response(0, &[("r0", "better")]));
        });
        assert_eq!(found, Some(SAME_VERSION));
    }
    println!("covers: IS15");
}

#[test]
fn response_before_the_previous_ack_is_detected() {
    let found = broken(Options::default(), |case| {
        case.asks(0, &["r0"]);
        case.says(response(0, &GOOD));
        case.world.set(0, "r0", "better");
        case.says(Response { version: "w".into(), ..response(0, &[("r0", "better")]) });
    });
    assert_eq!(found, Some(ONE_AT_A_TIME));
    println!("covers: IS16");
}

#[test]
fn endpoints_sent_before_due_clusters_are_detected() {
    let found = broken(Options::default(), |case| {
        case.world.set(1, "r0", "good");
        case.asks(0, &["r0"]);
        case.asks(1, &["r0"]);
        case.says(response(1, &GOOD));
    });
    assert_eq!(found, Some(ORDER));
    println!("covers: IS17");
}

#[test]
fn heartbeat_of_an_unsent_or_permanent_resource_is_detected() {
    const TTL: Option<Duration> = Some(Duration::from_secs(10));
    let beats = |lasting: bool, sent: bool| {
        broken(incremental(), move |case| {
            if lasting {
                case.world.set_for(0, "r0", "good", Duration::from_secs(10));
            }
            let bytes = Some(case.world.has(0, 0)[0]["r0"].clone());
            case.asks(0, &["r0"]);
            if sent {
                let first = ResponseItem { ttl: TTL.filter(|_| lasting), bytes, ..item(GOOD[0]) };
                case.says(Response { resources: vec![first], ..response(0, &[]) });
                case.answers(0, &[], None);
            }
            case.is_well();
            let beat = ResponseItem { bytes: None, ttl: TTL, ..item(GOOD[0]) };
            case.says(Response { resources: vec![beat], ..response(0, &[]) });
        })
    };
    assert_eq!(beats(true, true), None);
    assert_eq!(beats(true, false), Some(HEARTBEATS));
    assert_eq!(beats(false, true), Some(HEARTBEATS));
    println!("covers: IS27");
}

#[test]
fn ttl_sent_to_a_client_without_ttl_support_is_detected() {
    let features = [crate::options::Feature::WithoutTtl].into_iter().collect();
    let found = broken(Options { features, ..incremental() }, |case| {
        case.asks(0, &["r0"]);
        let ttl = Some(Duration::from_secs(10));
        let expiring = ResponseItem { ttl, ..item(GOOD[0]) };
        case.says(Response { resources: vec![expiring], ..response(0, &[]) });
    });
    assert_eq!(found, Some(TOLD));
}

#[test]
fn false_or_repeated_resource_error_is_detected() {
    let tells = |is_so: bool, times: u32| {
        broken(incremental(), move |case| {
            if is_so {
                case.world.set_error(0, "r0", xds_core::server::StatusCode::PermissionDenied);
            }
            case.asks(0, &["r0"]);
            for _ in 0..times {
                case.says(Response { errors: vec![("r0".into(), 7)], ..response(0, &[]) });
                case.answers(0, &[], None);
            }
        })
    };
    assert_eq!(tells(true, 1), None);
    assert_eq!(tells(true, 2), Some(ERRORS));
    assert_eq!(tells(false, 1), Some(ERRORS));
    println!("covers: IS28");
}

#[test]
fn missing_resource_error_is_detected() {
    let drained = |variant, names: &'static [&'static str], is_told: bool| {
        broken(of(variant), move |case| {
            case.asks(0, names);
            case.says(response(0, &GOOD));
            case.answers(0, names, None);
            case.world.set_error(0, "r0", xds_core::server::StatusCode::PermissionDenied);
            if is_told {
                let errors = vec![("r0".into(), 7)];
                case.says(Response { errors, version: "w".into(), ..response(0, &[]) });
                case.answers(0, names, None);
            }
            // The real server has not seen these messages, so it is not queried about acceptance.
            case.oracle.drained(0, case.world, case.report);
        })
    };
    for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
        assert_eq!(drained(variant, &["r0"], true), None);
        assert_eq!(drained(variant, &["r0"], false), Some(ERRORS));
    }
    assert_eq!(drained(Variant::Incremental, &["*"], false), None, "it is not named");
    println!("covers: IS28");
}

#[test]
fn resource_sent_despite_its_error_is_detected() {
    let sends = |names: &'static [&'static str]| {
        broken(incremental(), move |case| {
            case.asks(0, names);
            case.says(response(0, &GOOD));
            case.answers(0, &[], None);
            case.is_well();
            case.world.set_error(0, "r0", xds_core::server::StatusCode::PermissionDenied);
            case.asks(0, names);
            case.says(response(0, &GOOD));
        })
    };
    assert_eq!(sends(&["*"]), None, "it is not named");
    assert_eq!(sends(&["r0"]), Some(ERRORS));
    println!("covers: IS28");
}

#[test]
fn server_that_waits_for_an_ack_at_rest_is_detected() {
    let found = broken(Options::default(), |case| {
        case.ends_up();
        case.is_well();
        case.world.set(0, "r0", "better");
        case.world.advance(Duration::from_millis(1));
        case.ends_up();
    });
    assert_eq!(found, Some(ALL_ACCEPTED));
    println!("covers: IS30");
}

#[test]
fn server_that_closes_before_an_ack_is_detected() {
    let leaves = |answered: bool| {
        broken(Options::default(), move |case| {
            case.asks(0, &["r0"]);
            case.says(response(0, &GOOD));
            if answered {
                case.answers(0, &["r0"], None);
            }
            case.world.go_away(0, Duration::from_secs(4));
            let event = Event::EndedAtServer { link: case.link };
            case.oracle.on_event(&event, case.world, case.report);
        })
    };
    assert_eq!(leaves(true), None);
    assert_eq!(leaves(false), Some(LEAVES));
    println!("covers: IS33");
}
