//! Tests with clients that send wrong requests.

use std::time::Duration;

use xds_core::service::Variant;

use super::*;
use crate::{
    options::Options,
    oracle::testing::{broken_rule, judgement},
};

fn response(nonce: &str, version: &str) -> Response {
    Response {
        kind: Some(0),
        nonce: nonce.into(),
        version: version.into(),
        resources: Vec::new(),
        removed: Vec::new(),
        errors: Vec::new(),
    }
}

fn request(nonce: &str, version: &str, error: Option<i32>) -> Request {
    Request {
        kind: Some(0),
        nonce: nonce.into(),
        version: version.into(),
        error,
        node: None,
        names: Names::Whole(vec!["r0".into()]),
    }
}

/// Returns the rule broken by a client that has accepted version 1, receives version 2 and sends
/// this request.
fn found(said: Request) -> Option<&'static str> {
    found_as(Options::default(), said).map(|rule| rule.id)
}

fn found_as(options: Options, said: Request) -> Option<Rule> {
    broken_rule(options, move |world, link, report| {
        let mut oracle = ClientRequests::default();
        let mut hear = |event: &Event<'_>| oracle.on_event(event, world, report);
        let (first, second) = (response("n1", "1"), response("n2", "2"));
        let ack = Request { node: Some("client-0".into()), ..request("n1", "1", None) };
        hear(&Event::Reading { link, response: &first });
        hear(&Event::Requested { link, request: &ack });
        hear(&Event::Reading { link, response: &second });
        hear(&Event::Requested { link, request: &said });
    })
}

#[test]
fn nack_without_the_last_accepted_version_is_detected() {
    assert_eq!(found(request("n2", "1", Some(3))), None);
    assert_eq!(found(request("n2", "", Some(3))), Some("IC3"));
    assert_eq!(found(request("n2", "2", Some(3))), Some("IC3"));
    println!("covers: IC3");
}

#[test]
fn new_request_without_the_last_accepted_version_is_detected() {
    assert_eq!(found(request("n1", "", None)), Some("IC7"));
    assert_eq!(found(request("n1", "2", None)), Some("IC7"));
}

#[test]
fn unknown_nonce_is_detected() {
    assert_eq!(found(request("elsewhere", "1", None)), Some("IC6"));
    println!("covers: IC6");
}

#[test]
fn nack_without_a_response_is_detected() {
    assert_eq!(found(request("n1", "1", Some(3))), Some("IC1"));
    println!("covers: IC1");
}

#[test]
fn response_without_an_answer_is_detected() {
    let found = judgement(|world, link, report| {
        let mut oracle = ClientRequests::default();
        let read = response("n1", "1");
        oracle.on_event(&Event::Reading { link, response: &read }, world, report);
        oracle.on_event(&Event::Rest, world, report);
    });
    assert_eq!(found, Some("IC1"));
}

#[test]
fn ack_without_the_version_of_its_response_is_detected() {
    assert_eq!(found(request("n2", "2", None)), None);
    assert_eq!(found(request("n2", "1", None)), Some("IC2"));
    println!("covers: IC2");
}

#[test]
fn new_request_without_the_newest_nonce_is_detected() {
    assert_eq!(found(request("", "1", None)), Some("IC4"));
    println!("covers: IC4");
}

#[test]
fn resubscription_without_the_newest_nonce_is_detected() {
    let found = judgement(|world, link, report| {
        let watch = world.watches(0).next().expect("there is one").0;
        world.unwatch(0, watch);
        world.advance(Duration::from_secs(1));
        world.watch(0, 0, Some("r0"));
        // The client has sent a request without an answer.
        world.advance(Duration::from_millis(1));
        let mut oracle = ClientRequests::default();
        let requests = oracle.requests(link, 0);
        (requests.newest, requests.last) = ("n1".into(), Some(Vec::new()));
        oracle.streams.entry(link).or_default().has_node = true;
        let anew = request("", "", None);
        oracle.on_event(&Event::Requested { link, request: &anew }, world, report);
    });
    assert_eq!(found, Some("IC12"));
    println!("covers: IC12");
}

#[test]
fn first_request_without_a_node_is_detected() {
    let found = judgement(|world, link, report| {
        let first = request("", "", None);
        let event = Event::Requested { link, request: &first };
        ClientRequests::default().on_event(&event, world, report);
    });
    assert_eq!(found, Some("IC5"));
    println!("covers: IC5");
}

#[test]
fn request_without_a_change_is_detected() {
    assert_eq!(found(request("n1", "1", None)), Some("IC40"));
    println!("covers: IC40");
}

#[test]
fn sotw_request_that_does_not_list_all_watched_names_is_detected() {
    let names = Names::Whole(vec!["r0".into(), "r9".into()]);
    let said = Request { names, ..request("n2", "2", None) };
    assert_eq!(found_as(Options::default(), said), Some(WHOLE_LIST));
}

#[test]
fn delta_request_with_late_versions_or_unwatched_names_is_detected() {
    let incremental = Options { variant: Variant::Incremental, ..Options::default() };
    let change = |subscribe: &[&str], versions: Vec<(Text, Text)>| {
        let subscribe = subscribe.iter().copied().map(Text::from).collect();
        let names = Names::Change { subscribe, unsubscribe: Vec::new(), versions };
        Request { names, ..request("n2", "", None) }
    };
    assert_eq!(found_as(incremental.clone(), change(&[], Vec::new())), None);
    let stated = change(&[], vec![("r0".into(), "1".into())]);
    assert_eq!(found_as(incremental.clone(), stated), Some(VERSIONS_FIRST));
    let again = change(&["r0"], Vec::new());
    assert_eq!(found_as(incremental.clone(), again), Some(NEWS));
    let foreign = change(&["xdstp://elsewhere/t/r1"], Vec::new());
    assert_eq!(found_as(incremental, foreign), Some(AUTHORITY));
    println!("covers: IC9 IC30");
}

#[test]
fn subscription_that_differs_from_the_watches_is_detected() {
    let found = judgement(|world, link, report| {
        let watch = world.watches(0).next().expect("there is one").0;
        let mut oracle = ClientRequests::default();
        oracle.requests(link, 0);
        oracle.on_event(&Event::Rest, world, report);
        assert!(report.breach.is_none(), "{:?}", report.breach);
        world.watch(0, 0, Some("r1"));
        world.advance(Duration::from_secs(1));
        oracle.on_event(&Event::Rest, world, report);
        assert!(report.breach.is_none(), "{:?}", report.breach);
        // A blocked unsubscribe is not sent.
        world.block_requests(link, Duration::from_secs(10));
        world.unwatch(0, watch);
        oracle.on_event(&Event::Rest, world, report);
    });
    assert_eq!(found, Some("IC10"));
    println!("covers: IC10");
}

fn wanted(all: bool) -> WatchedNames<'static> {
    WatchedNames { names: Vec::new(), all }
}

#[test]
fn first_request_must_state_the_last_accepted_version() {
    let accepted = AcceptedVersion { version: "1".into(), ..AcceptedVersion::default() };
    let held = Holds::Something;
    assert!(accepted.may_begin(&"1".into(), &wanted(false), held));
    assert!(!accepted.may_begin(&"".into(), &wanted(false), held), "it is left out");
    assert!(!accepted.may_begin(&"2".into(), &wanted(false), held), "it is another one");
    assert!(accepted.may_begin(&"".into(), &wanted(true), held), "it was one of some names");
    assert!(!accepted.may_begin(&"1".into(), &wanted(false), Holds::Nothing), "nothing is held");
    assert!(accepted.may_begin(&"".into(), &wanted(false), Holds::Nothing));
    let outdated = AcceptedVersion { is_outdated: true, ..accepted };
    assert!(outdated.may_begin(&"".into(), &wanted(false), held), "it may be of another server");
    println!("covers: IC7 UN-04");
}
