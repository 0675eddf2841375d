//! A relay made of the two cores: its client watches the resources that clients of its server
//! subscribe to, and its server serves them.

mod aliases;
#[allow(clippy::module_inception, reason = "the thing itself")]
mod relay;
mod segment;
mod transparent;

use std::time::Duration;

use relay::{GRACE, Relayed, Versions};
use segment::{Member, Network, VARIANTS};
use xds_core::{
    CacheControl, WatchId,
    client::{Interest, Notice},
    server::{Observation, ResourceOptions, StatusCode, Transaction, Variant},
    types,
};
use xds_sim::{Toy, ToyType};

const TYPE: &str = types::CLUSTER_LOAD_ASSIGNMENT;

/// Returns the notices of the watchers of the relay's clients since the last call.
fn told(relayed: &mut Relayed) -> Vec<(Member, WatchId, String)> {
    relayed.settle();
    let text = |notice: Notice| match notice {
        Notice::Changed(Ok(resource)) => Toy::text_of(&resource.bytes),
        Notice::Changed(Err(error)) => format!("none: {}", error.kind()),
        Notice::Ambient(Some(error)) => format!("ambient: {}", error.kind()),
        Notice::Ambient(None) => "well again".into(),
        other => panic!("{other:?}"),
    };
    let notices = relayed.downstream.notices.drain(..);
    notices.map(|(member, watch, notice)| (member, watch, text(notice))).collect()
}

fn set(relayed: &mut Relayed, name: &str, content: &str) {
    relayed.set(|it| {
        it.set(TYPE, name, Toy::bytes(name, content));
    });
}

fn watch(relayed: &mut Relayed, member: Member, name: &str) -> WatchId {
    watch_of(relayed, member, TYPE, name)
}

fn watch_of(relayed: &mut Relayed, member: Member, type_url: &str, name: &str) -> WatchId {
    let now = relayed.now;
    let watch = relayed.downstream.watch(member, type_url, Interest::Name(name), now);
    relayed.settle();
    watch
}

/// Returns the subscriptions at the upstream server, over all streams.
fn subscribed_upstream(relayed: &Relayed) -> Vec<String> {
    relayed.upstream.server.status().map(|it| format!("{} {:?}", it.node_id, it.interest)).collect()
}

#[test]
fn many_who_want_the_same_are_one_subscription() {
    for variant in VARIANTS {
        let mut relayed = Relayed::new(variant);
        set(&mut relayed, "a", "1");
        let members = ["one", "two", "three"].map(|id| relayed.client(id));
        let watches = members.map(|member| watch(&mut relayed, member, "a"));
        let expected: Vec<_> =
            members.into_iter().zip(watches).map(|(m, w)| (m, w, "1".to_owned())).collect();
        assert_eq!(told(&mut relayed), expected);
        assert_eq!(subscribed_upstream(&relayed), ["relay Names(1)"]);
        assert_eq!(relayed.upstream.responses.len(), 1, "sent once");
        set(&mut relayed, "a", "2");
        assert_eq!(relayed.upstream.responses.len(), 2, "and once more");
        assert_eq!(told(&mut relayed).len(), 3);
    }
    println!("covers: M245 B61");
}

#[test]
fn what_is_there_is_served_at_once() {
    for variant in VARIANTS {
        let mut relayed = Relayed::new(variant);
        set(&mut relayed, "a", "1");
        let one = relayed.client("one");
        watch(&mut relayed, one, "a");
        told(&mut relayed);
        relayed.upstream.set_network(Network::Down, relayed.now);
        let two = relayed.client("two");
        let second = watch(&mut relayed, two, "a");
        assert_eq!(told(&mut relayed), [(two, second, "1".to_owned())]);
    }
    println!("covers: M246");
}

#[test]
fn a_lost_upstream_takes_nothing_from_anybody() {
    for variant in VARIANTS {
        let mut relayed = Relayed::new(variant);
        set(&mut relayed, "a", "1");
        let one = relayed.client("one");
        let first = watch(&mut relayed, one, "a");
        told(&mut relayed);
        relayed.upstream.set_network(Network::Down, relayed.now);
        assert_eq!(relayed.troubles, [""; 0]);
        relayed.advance(Duration::from_secs(60));
        assert!(
            relayed.troubles.iter().any(|it| it.starts_with("a: ")),
            "the relay's operator does: {:?}",
            relayed.troubles
        );
        set(&mut relayed, "a", "2");
        assert_eq!(told(&mut relayed), [], "nobody below notices");
        let streams = relayed.downstream.streams_of(one);
        relayed.upstream.set_network(Network::Up, relayed.now);
        relayed.advance(Duration::from_secs(180));
        assert_eq!(told(&mut relayed), [(one, first, "2".to_owned())]);
        assert_eq!(relayed.downstream.streams_of(one), streams, "on the same stream");
        let before = relayed.troubles.len();
        relayed.advance(Duration::from_secs(180));
        assert_eq!(relayed.troubles.len(), before, "it is over");
    }
    println!("covers: M247");
}

#[test]
fn a_rejection_below_stays_below() {
    for variant in VARIANTS {
        let mut relayed = Relayed::new(variant);
        set(&mut relayed, "a", "1");
        set(&mut relayed, "b", "1");
        let one = relayed.client("one");
        let [a, b] = ["a", "b"].map(|name| watch(&mut relayed, one, name));
        told(&mut relayed);
        let before = relayed.downstream.responses.len();
        // The relay does not know which resources its clients reject, so it accepts all.
        set(&mut relayed, "a", "bad");
        let below = &relayed.downstream;
        let nacks = |it: &&Observation| matches!(it, Observation::Nacked { .. });
        assert_eq!(below.observations.iter().filter(nacks).count(), 1, "{variant:?}");
        assert_eq!(below.responses.len(), before + 1, "not sent again");
        assert!(!relayed.upstream.observations.iter().any(|it| nacks(&it)), "nor passed on");
        told(&mut relayed);
        set(&mut relayed, "b", "2");
        assert!(told(&mut relayed).contains(&(one, b, "2".to_owned())));
        set(&mut relayed, "a", "3");
        assert!(told(&mut relayed).contains(&(one, a, "3".to_owned())));
    }
    println!("covers: M248");
}

#[test]
fn what_nobody_wants_is_given_up_after_a_while() {
    for variant in VARIANTS {
        let mut relayed = Relayed::new(variant);
        set(&mut relayed, "a", "1");
        let one = relayed.client("one");
        let first = watch(&mut relayed, one, "a");
        let second = watch(&mut relayed, one, "b");
        assert_eq!(relayed.subscriptions(), 2);
        relayed.downstream.client(one).unwatch(first, relayed.now);
        relayed.advance(GRACE / 2);
        assert_eq!(relayed.subscriptions(), 2);
        let again = watch(&mut relayed, one, "a");
        relayed.advance(GRACE * 2);
        assert_eq!(relayed.subscriptions(), 2, "wanted again in time");
        relayed.downstream.client(one).unwatch(again, relayed.now);
        relayed.downstream.client(one).unwatch(second, relayed.now);
        relayed.advance(GRACE * 2);
        assert_eq!(relayed.subscriptions(), 0);
        assert!(
            subscribed_upstream(&relayed).iter().all(|it| it.ends_with("Nothing")),
            "{:?}",
            subscribed_upstream(&relayed)
        );
    }
    println!("covers: M250 M254 M256");
}

/// The cache control mark is passed on with the resource. A resource with the mark is not kept for
/// later clients.
#[test]
fn what_is_not_to_be_kept_is_passed_on_and_forgotten() {
    let mut relayed = Relayed::new(Variant::Incremental);
    let marked = |content: &'static str, control| {
        move |it: &mut Transaction| {
            let options = ResourceOptions::default().with_cache_control(control);
            it.set_with(TYPE, "a", Toy::bytes("a", content), options);
        }
    };
    relayed.set(marked("1", CacheControl::DoNotKeep));
    let one = relayed.client("one");
    let first = watch(&mut relayed, one, "a");
    let notices: Vec<_> = relayed.downstream.notices.drain(..).collect();
    let [(_, _, Notice::Changed(Ok(resource)))] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(resource.cache_control, CacheControl::DoNotKeep);

    relayed.downstream.client(one).unwatch(first, relayed.now);
    relayed.advance(Duration::from_millis(1));
    assert_eq!(relayed.subscriptions(), 0, "not kept for a while");
    assert_eq!(relayed.downstream.server.stats().resources, 0);

    let again = watch(&mut relayed, one, "a");
    assert_eq!(told(&mut relayed).len(), 1);
    relayed.set(marked("2", CacheControl::MayKeep));
    relayed.downstream.client(one).unwatch(again, relayed.now);
    relayed.advance(GRACE / 2);
    assert_eq!(relayed.subscriptions(), 1, "now it may be kept");
    println!("covers: M249");
}

#[test]
fn a_removal_or_an_error_above_is_one_below() {
    let mut relayed = Relayed::new(Variant::Incremental);
    set(&mut relayed, "a", "1");
    let one = relayed.client("one");
    let [a, b, c] = ["a", "b", "c"].map(|name| watch(&mut relayed, one, name));
    let missing = "none: does not exist: the server has none".to_owned();
    assert_eq!(
        told(&mut relayed),
        [(one, a, "1".to_owned()), (one, b, missing.clone()), (one, c, missing)]
    );
    relayed.set(|it| {
        it.remove(TYPE, "a");
    });
    // The client keeps its resource, because its own policy decides.
    let gone = "ambient: does not exist: deleted by the server".to_owned();
    assert_eq!(told(&mut relayed), [(one, a, gone)]);
    relayed.set(|it| {
        it.set_error(TYPE, "b", StatusCode::PermissionDenied, "not yours");
    });
    let refused = told(&mut relayed);
    assert!(
        matches!(&refused[..], [(_, watch, text)] if *watch == b && text.contains("not yours")),
        "{refused:?}"
    );
    set(&mut relayed, "c", "1");
    assert_eq!(told(&mut relayed), [(one, c, "1".to_owned())], "created after all");
    println!("covers: M251 M255");
}

/// In state of the world, only full-state types report removals.
#[test]
fn a_removal_or_an_error_above_is_one_below_in_lists_too() {
    let mut relayed = Relayed::new(Variant::StateOfTheWorld);
    let cluster = |relayed: &mut Relayed, content: &'static str| {
        relayed.set(|it| {
            it.set(types::CLUSTER, "a", Toy::bytes("a", content));
        });
    };
    cluster(&mut relayed, "1");
    let one = relayed.client("one");
    let [a, b] = ["a", "b"].map(|name| watch_of(&mut relayed, one, types::CLUSTER, name));
    assert_eq!(told(&mut relayed), [(one, a, "1".to_owned())]);
    relayed.set(|it| {
        it.remove(types::CLUSTER, "a");
    });
    let gone = "ambient: does not exist: deleted by the server".to_owned();
    assert_eq!(told(&mut relayed), [(one, a, gone)]);
    relayed.set(|it| {
        it.set_error(types::CLUSTER, "b", StatusCode::PermissionDenied, "not yours");
    });
    let refused = told(&mut relayed);
    assert!(
        matches!(&refused[..], [(_, watch, text)] if *watch == b && text.contains("not yours")),
        "{refused:?}"
    );
    cluster(&mut relayed, "2");
    assert_eq!(told(&mut relayed), [(one, a, "2".to_owned())], "created again");
    println!("covers: M251 M255");
}

#[test]
fn what_is_not_to_be_aggregated_has_a_stream_of_its_own() {
    for variant in VARIANTS {
        let mut relayed = Relayed::new(variant);
        set(&mut relayed, "a", "1");
        for id in ["one", "two", "apart-1", "apart-2"] {
            let member = relayed.client(id);
            watch(&mut relayed, member, "a");
        }
        assert_eq!(told(&mut relayed).len(), 4);
        assert_eq!(
            subscribed_upstream(&relayed),
            ["relay Names(1)", "apart-1 Names(1)", "apart-2 Names(1)"]
        );
    }
    println!("covers: M252 IS20");
}

/// Moves a client from the relay to the upstream server.
fn go_straight_up(relayed: &mut Relayed, member: Member, variant: Variant) -> Member {
    relayed.downstream.set_network(Network::Down, relayed.now);
    let nobody = relay::client("nobody", variant, ToyType::new);
    let client = std::mem::replace(relayed.downstream.client(member), nobody);
    relayed.upstream.join(client)
}

/// Versions are derived from contents, so those of the relay equal those of the upstream server. A
/// client that moves between them is not sent resources that it has.
#[test]
fn versions_are_those_of_the_server_above() {
    let mut relayed = Relayed::new(Variant::Incremental);
    set(&mut relayed, "a", "1");
    set(&mut relayed, "b", "1");
    let one = relayed.client("one");
    for name in ["a", "b"] {
        watch(&mut relayed, one, name);
    }
    assert_eq!(told(&mut relayed).len(), 2);
    let moved = go_straight_up(&mut relayed, one, Variant::Incremental);
    let before = relayed.upstream.responses.len();
    relayed.advance(Duration::from_secs(10));
    assert_eq!(relayed.upstream.streams_of(moved).len(), 1);
    assert_eq!(relayed.upstream.responses.len(), before, "it has everything");
    println!("covers: M253 M124");
}

/// In state of the world a reconnecting client is sent named resources again, under
/// the same version.
#[test]
fn versions_of_lists_are_those_of_the_server_above() {
    let mut relayed = Relayed::new(Variant::StateOfTheWorld);
    for name in ["a", "b", "unwanted"] {
        relayed.set(|it| {
            it.set(types::CLUSTER, name, Toy::bytes(name, "1"));
        });
    }
    let one = relayed.client("one");
    for name in ["a", "b"] {
        watch_of(&mut relayed, one, types::CLUSTER, name);
    }
    assert_eq!(told(&mut relayed).len(), 2);
    let newest = |segment: &segment::Segment| {
        let (member, sent) = segment.responses.last().expect("a response");
        (*member, sent.resources, sent.version.clone())
    };
    let (_, resources, version) = newest(&relayed.downstream);
    assert_eq!(resources, 2);
    assert_eq!(newest(&relayed.upstream).2, version, "of both resources, which is all it names");
    let moved = go_straight_up(&mut relayed, one, Variant::StateOfTheWorld);
    relayed.advance(Duration::from_secs(10));
    assert_eq!(newest(&relayed.upstream), (moved, 2, version), "it has everything");
    println!("covers: M253");
}

/// The relay passes on versions set by the application.
#[test]
fn versions_that_the_application_gives_are_passed_on() {
    for (variant, expected) in VARIANTS.into_iter().zip(["all-7", "one-7"]) {
        let mut relayed = Relayed::with_versions(variant, Versions::Above);
        relayed.set(|it| {
            let options = ResourceOptions::default().with_version("one-7");
            it.set_version(types::CLUSTER, "all-7");
            it.set_with(types::CLUSTER, "a", Toy::bytes("a", "1"), options);
        });
        let one = relayed.client("one");
        watch_of(&mut relayed, one, types::CLUSTER, "a");
        let notices: Vec<_> = relayed.downstream.notices.drain(..).collect();
        let [(_, _, Notice::Changed(Ok(resource)))] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!(resource.version.as_str(), expected);
        let moved = go_straight_up(&mut relayed, one, variant);
        let before = relayed.upstream.responses.len();
        relayed.advance(Duration::from_secs(10));
        let sent = &relayed.upstream.responses[before..];
        match (variant, sent) {
            (Variant::Incremental, []) => assert_eq!(relayed.upstream.streams_of(moved).len(), 1),
            (Variant::StateOfTheWorld, [(_, sent)]) => assert_eq!(sent.version.as_str(), expected),
            _ => panic!("{variant:?}: {sent:?}"),
        }
    }
    println!("covers: M253 M124");
}
