//! A relay made of the two cores: its client watches the resources that clients of its server
//! subscribe to, and its server serves them.

mod aliases;
#[allow(clippy::module_inception, reason = "the thing itself")]
mod relay;
mod segment;
mod transparent;

use std::time::Duration;

use relay::{GRACE, RelayWorld, Versions};
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
fn notices(world: &mut RelayWorld) -> Vec<(Member, WatchId, String)> {
    world.settle();
    let text = |notice: Notice| match notice {
        Notice::Changed(Ok(resource)) => Toy::text_of(&resource.bytes),
        Notice::Changed(Err(error)) => format!("none: {}", error.kind()),
        Notice::Ambient(Some(error)) => format!("ambient: {}", error.kind()),
        Notice::Ambient(None) => "well again".into(),
        other => panic!("{other:?}"),
    };
    let notices = world.downstream.notices.drain(..);
    notices.map(|(member, watch, notice)| (member, watch, text(notice))).collect()
}

fn set(world: &mut RelayWorld, name: &str, content: &str) {
    world.set(|it| {
        it.set(TYPE, name, Toy::bytes(name, content));
    });
}

fn watch(world: &mut RelayWorld, member: Member, name: &str) -> WatchId {
    watch_of(world, member, TYPE, name)
}

fn watch_of(world: &mut RelayWorld, member: Member, type_url: &str, name: &str) -> WatchId {
    let now = world.now;
    let watch = world.downstream.watch(member, type_url, Interest::Name(name), now);
    world.settle();
    watch
}

/// Returns the subscriptions at the upstream server, over all streams.
fn subscribed_upstream(world: &RelayWorld) -> Vec<String> {
    world.upstream.server.status().map(|it| format!("{} {:?}", it.node_id, it.subscribed)).collect()
}

#[test]
fn watchers_of_one_name_share_one_upstream_subscription() {
    for variant in VARIANTS {
        let mut world = RelayWorld::new(variant);
        set(&mut world, "a", "1");
        let members = ["one", "two", "three"].map(|id| world.client(id));
        let watches = members.map(|member| watch(&mut world, member, "a"));
        let expected: Vec<_> =
            members.into_iter().zip(watches).map(|(m, w)| (m, w, "1".to_owned())).collect();
        assert_eq!(notices(&mut world), expected);
        assert_eq!(subscribed_upstream(&world), ["relay Names(1)"]);
        assert_eq!(world.upstream.responses.len(), 1, "sent once");
        set(&mut world, "a", "2");
        assert_eq!(world.upstream.responses.len(), 2, "and once more");
        assert_eq!(notices(&mut world).len(), 3);
    }
    println!("covers: M245 B61");
}

#[test]
fn cached_resource_is_served_while_upstream_is_down() {
    for variant in VARIANTS {
        let mut world = RelayWorld::new(variant);
        set(&mut world, "a", "1");
        let one = world.client("one");
        watch(&mut world, one, "a");
        notices(&mut world);
        world.upstream.set_network(Network::Down, world.now);
        let two = world.client("two");
        let second = watch(&mut world, two, "a");
        assert_eq!(notices(&mut world), [(two, second, "1".to_owned())]);
    }
    println!("covers: M246");
}

#[test]
fn lost_upstream_is_invisible_downstream() {
    for variant in VARIANTS {
        let mut world = RelayWorld::new(variant);
        set(&mut world, "a", "1");
        let one = world.client("one");
        let first = watch(&mut world, one, "a");
        notices(&mut world);
        world.upstream.set_network(Network::Down, world.now);
        assert_eq!(world.troubles, [""; 0]);
        world.advance(Duration::from_secs(60));
        assert!(
            world.troubles.iter().any(|it| it.starts_with("a: ")),
            "the relay's operator does: {:?}",
            world.troubles
        );
        set(&mut world, "a", "2");
        assert_eq!(notices(&mut world), [], "nobody below notices");
        let streams = world.downstream.streams_of(one);
        world.upstream.set_network(Network::Up, world.now);
        world.advance(Duration::from_secs(180));
        assert_eq!(notices(&mut world), [(one, first, "2".to_owned())]);
        assert_eq!(world.downstream.streams_of(one), streams, "on the same stream");
        let before = world.troubles.len();
        world.advance(Duration::from_secs(180));
        assert_eq!(world.troubles.len(), before, "it is over");
    }
    println!("covers: M247");
}

#[test]
fn downstream_nack_is_not_passed_upstream() {
    for variant in VARIANTS {
        let mut world = RelayWorld::new(variant);
        set(&mut world, "a", "1");
        set(&mut world, "b", "1");
        let one = world.client("one");
        let [a, b] = ["a", "b"].map(|name| watch(&mut world, one, name));
        notices(&mut world);
        let before = world.downstream.responses.len();
        // The relay does not know which resources its clients reject, so it accepts all.
        set(&mut world, "a", "bad");
        let below = &world.downstream;
        let nacks = |it: &&Observation| matches!(it, Observation::Nacked { .. });
        assert_eq!(below.observations.iter().filter(nacks).count(), 1, "{variant:?}");
        assert_eq!(below.responses.len(), before + 1, "not sent again");
        assert!(!world.upstream.observations.iter().any(|it| nacks(&it)), "nor passed on");
        notices(&mut world);
        set(&mut world, "b", "2");
        assert!(notices(&mut world).contains(&(one, b, "2".to_owned())));
        set(&mut world, "a", "3");
        assert!(notices(&mut world).contains(&(one, a, "3".to_owned())));
    }
    println!("covers: M248");
}

#[test]
fn unused_subscription_ends_after_the_grace_period() {
    for variant in VARIANTS {
        let mut world = RelayWorld::new(variant);
        set(&mut world, "a", "1");
        let one = world.client("one");
        let first = watch(&mut world, one, "a");
        let second = watch(&mut world, one, "b");
        assert_eq!(world.subscriptions(), 2);
        world.downstream.client(one).unwatch(first, world.now);
        world.advance(GRACE / 2);
        assert_eq!(world.subscriptions(), 2);
        let again = watch(&mut world, one, "a");
        world.advance(GRACE * 2);
        assert_eq!(world.subscriptions(), 2, "wanted again in time");
        world.downstream.client(one).unwatch(again, world.now);
        world.downstream.client(one).unwatch(second, world.now);
        world.advance(GRACE * 2);
        assert_eq!(world.subscriptions(), 0);
        assert!(
            subscribed_upstream(&world).iter().all(|it| it.ends_with("Nothing")),
            "{:?}",
            subscribed_upstream(&world)
        );
    }
    println!("covers: M250 M254 M256");
}

/// The cache control mark is passed on with the resource. A resource with the mark is not kept for
/// later clients.
#[test]
fn do_not_cache_resource_is_passed_on_and_not_kept() {
    let mut world = RelayWorld::new(Variant::Incremental);
    let marked = |content: &'static str, control| {
        move |it: &mut Transaction| {
            let options = ResourceOptions::default().with_cache_control(control);
            it.set_with(TYPE, "a", Toy::bytes("a", content), options);
        }
    };
    world.set(marked("1", CacheControl::DoNotCache));
    let one = world.client("one");
    let first = watch(&mut world, one, "a");
    let received: Vec<_> = world.downstream.notices.drain(..).collect();
    let [(_, _, Notice::Changed(Ok(resource)))] = &received[..] else { panic!("{received:?}") };
    assert_eq!(resource.cache_control, CacheControl::DoNotCache);

    world.downstream.client(one).unwatch(first, world.now);
    world.advance(Duration::from_millis(1));
    assert_eq!(world.subscriptions(), 0, "not kept for a while");
    assert_eq!(world.downstream.server.stats().resources, 0);

    let again = watch(&mut world, one, "a");
    assert_eq!(notices(&mut world).len(), 1);
    world.set(marked("2", CacheControl::Cacheable));
    world.downstream.client(one).unwatch(again, world.now);
    world.advance(GRACE / 2);
    assert_eq!(world.subscriptions(), 1, "now it may be kept");
    println!("covers: M249");
}

#[test]
fn upstream_removal_or_error_is_passed_downstream() {
    let mut world = RelayWorld::new(Variant::Incremental);
    set(&mut world, "a", "1");
    let one = world.client("one");
    let [a, b, c] = ["a", "b", "c"].map(|name| watch(&mut world, one, name));
    let missing = "none: does not exist: reported missing by the server".to_owned();
    assert_eq!(
        notices(&mut world),
        [(one, a, "1".to_owned()), (one, b, missing.clone()), (one, c, missing)]
    );
    world.set(|it| {
        it.remove(TYPE, "a");
    });
    // The client keeps its resource, because its own policy decides.
    let gone = "ambient: does not exist: deleted by the server".to_owned();
    assert_eq!(notices(&mut world), [(one, a, gone)]);
    world.set(|it| {
        it.set_error(TYPE, "b", StatusCode::PermissionDenied, "not yours");
    });
    let refused = notices(&mut world);
    assert!(
        matches!(&refused[..], [(_, watch, text)] if *watch == b && text.contains("not yours")),
        "{refused:?}"
    );
    set(&mut world, "c", "1");
    assert_eq!(notices(&mut world), [(one, c, "1".to_owned())], "created after all");
    println!("covers: M251 M255");
}

/// In state of the world, only full-state types report removals.
#[test]
fn upstream_removal_or_error_is_passed_downstream_in_sotw() {
    let mut world = RelayWorld::new(Variant::StateOfTheWorld);
    let cluster = |world: &mut RelayWorld, content: &'static str| {
        world.set(|it| {
            it.set(types::CLUSTER, "a", Toy::bytes("a", content));
        });
    };
    cluster(&mut world, "1");
    let one = world.client("one");
    let [a, b] = ["a", "b"].map(|name| watch_of(&mut world, one, types::CLUSTER, name));
    assert_eq!(notices(&mut world), [(one, a, "1".to_owned())]);
    world.set(|it| {
        it.remove(types::CLUSTER, "a");
    });
    let gone = "ambient: does not exist: deleted by the server".to_owned();
    assert_eq!(notices(&mut world), [(one, a, gone)]);
    world.set(|it| {
        it.set_error(types::CLUSTER, "b", StatusCode::PermissionDenied, "not yours");
    });
    let refused = notices(&mut world);
    assert!(
        matches!(&refused[..], [(_, watch, text)] if *watch == b && text.contains("not yours")),
        "{refused:?}"
    );
    cluster(&mut world, "2");
    assert_eq!(notices(&mut world), [(one, a, "2".to_owned())], "created again");
    println!("covers: M251 M255");
}

#[test]
fn client_excluded_from_aggregation_has_its_own_upstream_stream() {
    for variant in VARIANTS {
        let mut world = RelayWorld::new(variant);
        set(&mut world, "a", "1");
        for id in ["one", "two", "apart-1", "apart-2"] {
            let member = world.client(id);
            watch(&mut world, member, "a");
        }
        assert_eq!(notices(&mut world).len(), 4);
        assert_eq!(
            subscribed_upstream(&world),
            ["relay Names(1)", "apart-1 Names(1)", "apart-2 Names(1)"]
        );
    }
    println!("covers: M252 IS20");
}

/// Moves a client from the relay to the upstream server.
fn move_to_upstream(world: &mut RelayWorld, member: Member, variant: Variant) -> Member {
    world.downstream.set_network(Network::Down, world.now);
    let nobody = relay::client("nobody", variant, ToyType::new);
    let client = std::mem::replace(world.downstream.client(member), nobody);
    world.upstream.join(client)
}

/// Versions are derived from contents, so those of the relay equal those of the upstream server. A
/// client that moves between them is not sent resources that it has.
#[test]
fn delta_versions_equal_those_of_the_upstream_server() {
    let mut world = RelayWorld::new(Variant::Incremental);
    set(&mut world, "a", "1");
    set(&mut world, "b", "1");
    let one = world.client("one");
    for name in ["a", "b"] {
        watch(&mut world, one, name);
    }
    assert_eq!(notices(&mut world).len(), 2);
    let moved = move_to_upstream(&mut world, one, Variant::Incremental);
    let before = world.upstream.responses.len();
    world.advance(Duration::from_secs(10));
    assert_eq!(world.upstream.streams_of(moved).len(), 1);
    assert_eq!(world.upstream.responses.len(), before, "it has everything");
    println!("covers: M253 M124");
}

/// In state of the world a reconnecting client is sent named resources again, under
/// the same version.
#[test]
fn sotw_versions_equal_those_of_the_upstream_server() {
    let mut world = RelayWorld::new(Variant::StateOfTheWorld);
    for name in ["a", "b", "unwanted"] {
        world.set(|it| {
            it.set(types::CLUSTER, name, Toy::bytes(name, "1"));
        });
    }
    let one = world.client("one");
    for name in ["a", "b"] {
        watch_of(&mut world, one, types::CLUSTER, name);
    }
    assert_eq!(notices(&mut world).len(), 2);
    let newest = |segment: &segment::Segment| {
        let (member, sent) = segment.responses.last().expect("a response");
        (*member, sent.resources, sent.version.clone())
    };
    let (_, resources, version) = newest(&world.downstream);
    assert_eq!(resources, 2);
    assert_eq!(newest(&world.upstream).2, version, "of both resources, which is all it names");
    let moved = move_to_upstream(&mut world, one, Variant::StateOfTheWorld);
    world.advance(Duration::from_secs(10));
    assert_eq!(newest(&world.upstream), (moved, 2, version), "it has everything");
    println!("covers: M253");
}

/// The relay passes on versions set by the application.
#[test]
fn versions_set_by_the_application_are_passed_on() {
    for (variant, expected) in VARIANTS.into_iter().zip(["all-7", "one-7"]) {
        let mut world = RelayWorld::with_versions(variant, Versions::Above);
        world.set(|it| {
            let options = ResourceOptions::default().with_version("one-7");
            it.set_version(types::CLUSTER, "all-7");
            it.set_with(types::CLUSTER, "a", Toy::bytes("a", "1"), options);
        });
        let one = world.client("one");
        watch_of(&mut world, one, types::CLUSTER, "a");
        let notices: Vec<_> = world.downstream.notices.drain(..).collect();
        let [(_, _, Notice::Changed(Ok(resource)))] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!(resource.version.as_str(), expected);
        let moved = move_to_upstream(&mut world, one, variant);
        let before = world.upstream.responses.len();
        world.advance(Duration::from_secs(10));
        let sent = &world.upstream.responses[before..];
        match (variant, sent) {
            (Variant::Incremental, []) => assert_eq!(world.upstream.streams_of(moved).len(), 1),
            (Variant::StateOfTheWorld, [(_, sent)]) => assert_eq!(sent.version.as_str(), expected),
            _ => panic!("{variant:?}: {sent:?}"),
        }
    }
    println!("covers: M253 M124");
}
