//! Polling clients: each request is a stream of its own, and the client's state is in the request.

use prost::Message as _;
use xds_core::{
    Frame, StreamId,
    proto::{self, DiscoveryRequest, DiscoveryResponse},
    server::{Observation, ServerOutput, ServerTransmit, StreamKind},
};

use crate::support::{Rig, request_of, url};

/// Starts a fetch. Returns the answer unless the fetch has to wait.
fn fetch(rig: &mut Rig, ask: &DiscoveryRequest) -> (StreamId, Option<Answer>) {
    let via = StreamKind::Fetch { type_url: ask.type_url.as_str().into() };
    let id = rig.server.accept(via, rig.now).expect("a stream");
    rig.message(id, ask);
    let answer = take_answer(rig, id);
    (id, answer)
}

#[derive(Debug)]
struct Answer {
    transmit: ServerTransmit,
    response: DiscoveryResponse,
}

impl Answer {
    /// Returns the request of a client that accepted the response.
    fn accepted(&self, names: &[&str]) -> DiscoveryRequest {
        DiscoveryRequest {
            version_info: self.response.version_info.clone(),
            response_nonce: self.response.nonce.clone(),
            ..ask(&self.response.type_url, names)
        }
    }

    /// Returns the request of a client that rejected the response and stays at the version
    /// `before`.
    fn rejected(&self, before: &str, names: &[&str]) -> DiscoveryRequest {
        DiscoveryRequest {
            version_info: before.into(),
            error_detail: Some(proto::Status { code: 3, message: "no".into(), details: vec![] }),
            ..self.accepted(names)
        }
    }
}

fn take_answer(rig: &mut Rig, id: StreamId) -> Option<Answer> {
    let mut frame = Frame::default();
    let transmit = rig.server.poll_transmit(id, rig.now, &mut frame)?;
    rig.drain();
    assert!(rig.effects().contains(&ServerOutput::Finished(id)), "that was it");
    let response = DiscoveryResponse::decode(frame.to_bytes()).expect("our own");
    Some(Answer { transmit, response })
}

fn ask(type_url: &str, names: &[&str]) -> DiscoveryRequest {
    let resource_names = names.iter().copied().map(String::from).collect();
    DiscoveryRequest { type_url: type_url.into(), resource_names, ..request_of("me", "cds") }
}

// M185, M186: a client with the newest version waits until a subscribed resource changes.
#[test]
fn poll_with_current_version_waits_for_change() {
    for names in [&[][..], &["a"]] {
        let mut rig = Rig::script("set cds a=1 b=1");
        let (_, answer) = fetch(&mut rig, &ask(&url("cds"), names));
        let answer = answer.expect("there is something");
        let (id, nothing) = fetch(&mut rig, &answer.accepted(names));
        assert!(nothing.is_none(), "{names:?}: it has that");
        rig.run("set cds b=2");
        let early = take_answer(&mut rig, id);
        assert_eq!(early.is_some(), names.is_empty(), "only those who asked for it");
        if early.is_none() {
            rig.run("set cds a=2");
            assert!(take_answer(&mut rig, id).is_some());
        }
    }
    println!("covers: M185 M186 S0.205 IS31");
}

/// Polls of a type without a wildcard wait for changes of the named resources.
#[test]
fn endpoint_poll_waits_for_named_change() {
    let mut rig = Rig::script("set eds a=1 b=1");
    let (_, answer) = fetch(&mut rig, &ask(&url("eds"), &["a"]));
    let answer = answer.expect("there is something");
    let (id, nothing) = fetch(&mut rig, &answer.accepted(&["a"]));
    assert!(nothing.is_none());
    rig.run("set eds b=2");
    assert!(take_answer(&mut rig, id).is_none(), "nobody asked for it");
    rig.run("set eds a=2");
    let changed = take_answer(&mut rig, id).expect("a change of what was asked for");
    assert_eq!(changed.transmit.resources, 1);
    println!("covers: M185 M186");
}

// M187: the version depends on the requested names.
#[test]
fn poll_version_depends_on_requested_names() {
    for ty in ["cds", "eds"] {
        let mut rig = Rig::script(&format!("set {ty} a=1 b=1"));
        let (_, one) = fetch(&mut rig, &ask(&url(ty), &["a"]));
        let one = one.expect("there is something");
        let (_, both) = fetch(&mut rig, &one.accepted(&["a", "b"]));
        let both = both.expect("it lacks one");
        assert_eq!(both.transmit.resources, 2, "a fetch has all of it: nobody knows what is held");
        assert_ne!(both.response.version_info, one.response.version_info);
        let (_, again) = fetch(&mut rig, &both.accepted(&["b", "a"]));
        assert!(again.is_none(), "{ty}: the order of names says nothing");
    }
    println!("covers: M187");
}

// M188: a nonce is optional. M190: an empty list means the wildcard, like `*`.
#[test]
fn empty_list_and_star_poll_the_wildcard() {
    let mut rig = Rig::script("set cds a=1 b=1");
    for names in [&[][..], &["*"]] {
        let (_, answer) = fetch(&mut rig, &ask(&url("cds"), names));
        let answer = answer.expect("there is something");
        assert_eq!(answer.transmit.resources, 2);
        let bare = DiscoveryRequest { response_nonce: String::new(), ..answer.accepted(names) };
        assert!(fetch(&mut rig, &bare).1.is_none());
    }
    println!("covers: M188 M190 S0.202");
}

// M189: a rejected version is not sent again until it changes, and the rejection is reported.
#[test]
fn nacked_poll_waits_for_changed_version() {
    for (ty, names) in [("cds", &[][..]), ("eds", &["a"])] {
        let mut rig = Rig::script(&format!("set {ty} a=1"));
        let (_, good) = fetch(&mut rig, &ask(&url(ty), names));
        let version = good.expect("there is something").response.version_info;
        rig.run(&format!("set {ty} a=bad"));
        let stays = DiscoveryRequest { version_info: version.clone(), ..ask(&url(ty), names) };
        let (_, bad) = fetch(&mut rig, &stays);
        let bad = bad.expect("a change");
        rig.observations();
        let (id, again) = fetch(&mut rig, &bad.rejected(&version, names));
        assert!(again.is_none(), "{ty}: it was rejected");
        let is_told = |seen: &Observation| {
            matches!(seen, Observation::Nacked { version, message, .. }
                if *version.as_str() == bad.response.version_info && &**message == "no")
        };
        assert!(rig.observations().iter().any(is_told));
        rig.run(&format!("set {ty} a=good"));
        assert!(take_answer(&mut rig, id).is_some(), "{ty}: that is something else");
    }
    println!("covers: M189 IS19");
}

/// Removals are reported by absence, so a client that has a resource does not wait forever.
#[test]
fn removal_of_last_resource_answers_poll() {
    let mut rig = Rig::script("set cds a=1");
    let (_, answer) = fetch(&mut rig, &ask(&url("cds"), &[]));
    let (id, nothing) = fetch(&mut rig, &answer.expect("there is something").accepted(&[]));
    assert!(nothing.is_none());
    rig.run("set cds -a");
    let empty = take_answer(&mut rig, id).expect("a change");
    assert_eq!(empty.transmit.resources, 0);
    println!("covers: M185");
}
