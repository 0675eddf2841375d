//! Tests with servers that break rules.

use std::time::Duration;

use xds_core::{Version, service::Variant};

use super::*;
use crate::{options::Options, oracle::testing::judgement_with, world::message::ResponseItem};

/// Index of clusters, which are sent in full state.
const CLUSTERS: usize = 0;

/// Version of every resource in a response.
const VERSION: &str = "1";

fn texts(names: &[&str]) -> Vec<Text> {
    names.iter().copied().map(Text::from).collect()
}

fn whole(nonce: &str, names: &[&str]) -> Request {
    request(nonce, Names::Whole(texts(names)))
}

fn change(nonce: &str, subscribe: &[&str], unsubscribe: &[&str]) -> Request {
    let (subscribe, unsubscribe) = (texts(subscribe), texts(unsubscribe));
    request(nonce, Names::Change { subscribe, unsubscribe, versions: Vec::new() })
}

/// Returns the first request of a client that returns with a wildcard and resources of these
/// versions.
fn reconnect_with(has: &[(&str, &str)]) -> Request {
    let versions = has.iter().map(|&(name, version)| (name.into(), version.into())).collect();
    let (subscribe, unsubscribe) = (texts(&["*"]), Vec::new());
    request("", Names::Change { subscribe, unsubscribe, versions })
}

fn request(nonce: &str, names: Names) -> Request {
    Request {
        kind: Some(CLUSTERS),
        nonce: nonce.into(),
        version: Text::default(),
        error: None,
        node: None,
        names,
    }
}

/// Returns a response with the server's resources of these names.
fn response(nonce: &str, names: &[&str], world: &World) -> Response {
    let item = |name: &&str| ResponseItem {
        name: (*name).into(),
        version: VERSION.into(),
        bytes: Some(world.has(0, 0)[CLUSTERS][*name].clone()),
        ttl: None,
    };
    Response {
        kind: Some(CLUSTERS),
        nonce: nonce.into(),
        version: nonce.into(),
        resources: names.iter().map(item).collect(),
        removed: Vec::new(),
        errors: Vec::new(),
    }
}

/// A message on a stream.
#[derive(Clone)]
enum Step {
    Asked(Request),
    /// A response with this nonce and these names.
    Sent(&'static str, &'static [&'static str]),
    /// A response that only removes these names.
    Removed(&'static str, &'static [&'static str]),
}

use Step::{Asked, Removed, Sent};

/// Returns the rule broken by an exchange that ends at rest. The server has `r0` and `r1`.
fn broken(variant: Variant, state: &[Step]) -> Option<&'static str> {
    let options = Options { variant, ..Options::default() };
    let state = state.to_vec();
    judgement_with(options, move |world, link, report| {
        world.set(CLUSTERS, "r1", "good");
        world.advance(Duration::from_secs(1));
        let mut oracle = ServerResponses::default();
        // The versions are known from another stream.
        for (name, bytes) in &world.has(0, 0)[CLUSTERS] {
            oracle.contents.insert((CLUSTERS, name.clone(), VERSION.into()), bytes.clone());
        }
        for content in &state {
            match content {
                Asked(request) => {
                    oracle.on_event(&Event::Arrived { link, request }, world, report);
                }
                Sent(nonce, names) => {
                    let response = response(nonce, names, world);
                    oracle.on_event(&Event::Responded { link, response: &response }, world, report);
                }
                Removed(nonce, names) => {
                    let response =
                        Response { removed: texts(names), ..response(nonce, &[], world) };
                    oracle.on_event(&Event::Responded { link, response: &response }, world, report);
                }
            }
        }
        // The real server has sent other responses with other versions, which its status must show.
        let server = world.server(0).expect("it is ours");
        let shown = server.status().next().expect("it has a client");
        let text =
            |version: Option<Version>| version.map_or_else(Text::default, |it| it.as_str().into());
        let state = oracle.state(link, CLUSTERS);
        state.versions = (text(shown.sent_version), text(shown.acked_version));
        oracle.on_event(&Event::Phase(Phase::Converge), world, report);
        oracle.on_event(&Event::Rest, world, report);
    })
}

fn broken_whole(state: &[Step]) -> Option<&'static str> {
    broken(Variant::StateOfTheWorld, state)
}

fn broken_changes(state: &[Step]) -> Option<&'static str> {
    broken(Variant::Incremental, state)
}

#[test]
fn response_to_a_stale_request_is_detected() {
    let state = [
        Asked(whole("", &["r0"])),
        Sent("1", &["r0"]),
        Asked(whole("1", &["r0", "r1"])),
        Sent("2", &["r0", "r1"]),
        Asked(whole("2", &["r0", "r1"])),
        // It has crossed the second response.
        Asked(whole("1", &["r0"])),
    ];
    assert_eq!(broken_whole(&state), None);
    let answered = [&state[..], &[Sent("3", &["r0", "r1"]), Asked(whole("3", &["r0", "r1"]))]];
    assert_eq!(broken_whole(&answered.concat()), Some("IS2"));
    println!("covers: IS2");
}

#[test]
fn ignored_request_that_crossed_a_response_is_detected() {
    let state = [
        Asked(change("", &["r0"], &[])),
        Sent("1", &["r0"]),
        Asked(change("0", &["r1"], &[])),
        Asked(change("1", &[], &[])),
    ];
    assert_eq!(broken_changes(&state), Some("IS3"), "nothing is said of what it asks for");
    let counted = [&state[..], &[Sent("2", &["r1"]), Asked(change("2", &[], &[]))]].concat();
    assert_eq!(broken_changes(&counted), None);
    let given_up = [
        Asked(change("", &["r0"], &[])),
        Asked(change("0", &[], &["r0"])),
        Asked(change("0", &["r1"], &[])),
        Sent("1", &["r1"]),
        Asked(change("1", &[], &[])),
    ];
    assert_eq!(broken_changes(&given_up), None);
    let mut sent = given_up;
    sent[3] = Sent("1", &["r0", "r1"]);
    assert_eq!(broken_changes(&sent), Some("IS3"), "what it has given up is sent");
    println!("covers: IS3");
}

#[test]
fn missing_response_to_a_new_name_is_detected() {
    let state = [Asked(whole("", &["r0"])), Sent("1", &["r0"]), Asked(whole("1", &["r0", "r1"]))];
    assert_eq!(broken_whole(&state), Some("IS6"));
    let sent = [&state[..], &[Sent("2", &["r0", "r1"]), Asked(whole("2", &["r0", "r1"]))]];
    assert_eq!(broken_whole(&sent.concat()), None);
    println!("covers: IS6");
}

#[test]
fn reconnect_response_that_is_not_the_exact_difference_is_detected() {
    let stated = [Asked(reconnect_with(&[("r0", VERSION), ("r1", "old"), ("r9", "old")]))];
    let exact = [Sent("1", &["r1"]), Asked(change("1", &[], &[])), Removed("2", &["r9"])];
    let told = |content: &[Step]| {
        broken_changes(&[&stated[..], content, &[Asked(change("2", &[], &[]))]].concat())
    };
    assert_eq!(told(&exact), None);
    let [changed, answer, gone] = exact;
    assert_eq!(told(std::slice::from_ref(&gone)), Some("IS13"), "what has changed is not sent");
    assert_eq!(told(&[changed, answer.clone()]), Some("IS13"), "nobody says what is gone");
    let again = [Sent("1", &["r0", "r1"]), answer, gone];
    assert_eq!(told(&again), Some("IS13"), "what it has is sent again");
    // Except after a new wildcard subscription (M97).
    let [all, answer, gone] = again;
    assert_eq!(told(&[Asked(change("", &["*"], &[])), all, answer, gone]), None);
    println!("covers: IS13");
}

#[test]
fn missing_response_to_a_name_that_leaves_the_wildcard_is_detected() {
    let state = [
        Asked(change("", &["*", "r0"], &[])),
        Sent("1", &["r0", "r1"]),
        Asked(change("1", &[], &[])),
        Asked(change("", &[], &["r0"])),
    ];
    assert_eq!(broken_changes(&state), Some("IS14"));
    let answered = [&state[..], &[Sent("2", &["r0"]), Asked(change("2", &[], &[]))]].concat();
    assert_eq!(broken_changes(&answered), None);
    println!("covers: IS14");
}

#[test]
fn wrong_response_at_the_begin_or_end_of_a_wildcard_is_detected() {
    let begins =
        [Asked(change("", &["r0"], &[])), Sent("1", &["r0"]), Asked(change("1", &["*"], &[]))];
    assert_eq!(broken_changes(&begins), Some("IS14"), "the rest is not sent");
    let sent = [&begins[..], &[Sent("2", &["r1"]), Asked(change("2", &[], &[]))]].concat();
    assert_eq!(broken_changes(&sent), None);
    // An empty first request subscribes to the legacy wildcard, until a name is subscribed.
    let ends = [
        Asked(change("", &[], &[])),
        Asked(change("", &["r0"], &[])),
        Sent("1", &["r0"]),
        Asked(change("1", &[], &[])),
    ];
    assert_eq!(broken_changes(&ends), None);
    let mut goes_on = ends;
    goes_on[2] = Sent("1", &["r0", "r1"]);
    assert_eq!(broken_changes(&goes_on), Some("IS14"));
    println!("covers: IS14");
}
