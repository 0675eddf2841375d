//! `xds_routing_experimental` in virtual time.

use std::{collections::BTreeMap, time::Duration};

use crate::support::*;
use xds_core::Time;
use xds_routing::{
    Call, Random,
    lb::{
        ChildChange,
        ConnectivityState::{self, *},
        PolicyRoute, RoutedPick, RoutingConfig, XdsRouting,
    },
    proto::envoy::config::route::v3::RouteMatch,
};

type Policy = XdsRouting<&'static str>;

/// Creates a configuration of routes with their actions. The configuration of an action is its
/// name.
fn config(list: Vec<(RouteMatch, &str)>) -> RoutingConfig<String> {
    let actions = list.iter().map(|(_, action)| (action.to_string(), action.to_string()));
    let actions: BTreeMap<_, _> = actions.collect();
    let (matches, names): (Vec<_>, Vec<_>) = list.into_iter().unzip();
    let routes = matches.into_iter().map(|matches| route(matches, cluster("c"))).collect();
    let config = valid(routes);
    let routes = config.virtual_hosts()[0].routes().iter().zip(names);
    let routes = routes.map(|(route, name)| PolicyRoute::new(route.matches.clone(), name));
    RoutingConfig::new(routes.collect(), actions).expect("a valid config")
}

fn pick(policy: &Policy, path: &str) -> Result<&'static str, String> {
    match policy.pick(&Call::new(path, &[]), &mut Random::new(0)) {
        RoutedPick::Child(picker) => Ok(picker),
        RoutedPick::Queue => Err("queue".into()),
        RoutedPick::NoRoute(why) => Err(why.to_string()),
        other => panic!("{other:?}"),
    }
}

fn is_any(change: &ChildChange<String>) -> (char, &str) {
    match change {
        ChildChange::Create(name, _) => ('+', name),
        ChildChange::Update(name, _) => ('=', name),
        ChildChange::Close(name) => ('-', name),
        other => panic!("{other:?}"),
    }
}

#[test]
fn first_matching_route_is_used_whatever_the_state_of_its_child() {
    let mut policy = Policy::default();
    let routes = vec![(prefix("/MyService"), "1"), (path("/MyService/MyMethod"), "2")];
    let changes = policy.update(config(routes), Time::ZERO);
    assert_eq!(changes.iter().map(is_any).collect::<Vec<_>>(), [('+', "1"), ('+', "2")]);

    // Without a picker the call waits, whatever the other children have.
    policy.child_changed("2", Ready, "of 2");
    assert_eq!(pick(&policy, "/MyService/MyMethod"), Err("queue".into()));
    for state in [Connecting, Idle, TransientFailure, Ready] {
        policy.child_changed("1", state, "of 1");
        assert_eq!(pick(&policy, "/MyService/MyMethod"), Ok("of 1"), "{state:?}");
    }
    // A failed child that reconnects still updates its picker.
    policy.child_changed("1", TransientFailure, "fails");
    policy.child_changed("1", Connecting, "waits");
    assert_eq!(pick(&policy, "/MyService/MyMethod"), Ok("waits"));

    assert_eq!(pick(&policy, "/other"), Err("none of 2 routes matches /other".into()));
    println!("covers: S2.005 S2.019 S2.054 S2.055 S2.056 S2.057");
}

/// Channel that queues calls until they can be sent.
#[derive(Default)]
struct Channel {
    waiting: Vec<&'static str>,
    seen: u64,
    picks: usize,
}

impl Channel {
    fn pick_again(&mut self, policy: &Policy) {
        if self.seen == policy.generation() {
            return;
        }
        self.seen = policy.generation();
        self.picks += self.waiting.len();
        self.waiting.retain(|path| pick(policy, path) == Err("queue".into()));
    }
}

#[test]
fn every_change_repicks_all_waiting_calls() {
    let mut policy = Policy::default();
    let mut channel = Channel { waiting: vec!["/a", "/b"], ..Channel::default() };
    let _ = policy.update(config(vec![(prefix("/a"), "a"), (prefix("/b"), "b")]), Time::ZERO);
    channel.pick_again(&policy);
    assert_eq!((channel.picks, channel.waiting.len()), (2, 2));
    channel.pick_again(&policy);
    assert_eq!(channel.picks, 2, "nothing has changed");

    // After a new picker of one child, the call for the other is picked again and still waits.
    policy.child_changed("a", Connecting, "of a");
    channel.pick_again(&policy);
    assert_eq!((channel.picks, channel.waiting.as_slice()), (4, ["/b"].as_slice()));

    // An update that does not affect the call leaves it waiting. One that does sends it.
    let _ = policy.update(config(vec![(prefix("/a"), "a"), (prefix("/b"), "b")]), Time::ZERO);
    channel.pick_again(&policy);
    assert_eq!((channel.picks, channel.waiting.as_slice()), (5, ["/b"].as_slice()));
    let _ = policy.update(config(vec![(prefix("/"), "a")]), Time::ZERO);
    channel.pick_again(&policy);
    assert_eq!((channel.picks, channel.waiting.len()), (6, 0));
    println!("covers: S2.058 S2.059 S2.060");
}

#[test]
fn routing_state_aggregates_the_states_of_all_children() {
    let state = |states: &[ConnectivityState]| {
        let names = ["a", "b", "c"];
        let routes = names.iter().take(states.len()).map(|name| (prefix(name), *name)).collect();
        let mut policy = Policy::default();
        let _ = policy.update(config(routes), Time::ZERO);
        for (name, state) in names.into_iter().zip(states) {
            policy.child_changed(name, *state, name);
        }
        policy.state()
    };
    assert_eq!(state(&[TransientFailure, Connecting, Ready]), Ready);
    assert_eq!(state(&[TransientFailure, Idle, Connecting]), Connecting);
    assert_eq!(state(&[TransientFailure, Idle]), Idle);
    assert_eq!(state(&[TransientFailure, TransientFailure]), TransientFailure);

    let mut failing = Policy::default();
    let _ = failing.update(config(vec![(prefix(""), "a")]), Time::ZERO);
    assert_eq!(failing.state(), Connecting);
    failing.child_changed("a", TransientFailure, "a");
    failing.child_changed("a", Connecting, "a");
    assert_eq!(failing.state(), TransientFailure, "until it is ready");
    println!("covers: S2.061");
}

#[test]
fn children_are_kept_by_action_name() {
    let at = |minutes: u64| Time::ZERO.after(Duration::from_secs(60 * minutes));
    let mut policy = Policy::default();
    let update = |policy: &mut Policy, routes, minute| {
        let changes = policy.update(config(routes), at(minute));
        changes.iter().map(is_any).map(|(how, name)| format!("{how}{name}")).collect::<Vec<_>>()
    };
    assert_eq!(
        update(&mut policy, vec![(prefix("/a"), "a"), (prefix("/b"), "b")], 0),
        ["+a", "+b"]
    );
    policy.child_changed("a", Ready, "of a");
    // Other routes to the same action update its child.
    let many = vec![(prefix("/a"), "a"), (prefix("/x"), "a"), (path("/x"), "a")];
    assert_eq!(update(&mut policy, many, 1), ["=a"]);
    assert_eq!(pick(&policy, "/x"), Ok("of a"));
    assert_eq!(pick(&policy, "/b"), Err("none of 3 routes matches /b".into()));

    // A removed child is restored if it returns in time, and closed otherwise.
    policy.child_changed("b", Ready, "of b");
    assert_eq!(policy.poll_timeout(), Some(at(16)));
    assert_eq!(
        update(&mut policy, vec![(prefix("/a"), "a"), (prefix("/b"), "b")], 15),
        ["=a", "=b"]
    );
    assert_eq!((pick(&policy, "/b"), policy.poll_timeout()), (Ok("of b"), None));
    assert_eq!(update(&mut policy, vec![(prefix("/a"), "a")], 20), ["=a"]);
    assert!(policy.handle_timeout(at(34)).is_empty());
    assert_eq!(policy.handle_timeout(at(35)), ["b"]);

    let mut at_once = Policy::new(Duration::ZERO);
    let _ = at_once.update(config(vec![(prefix("/a"), "a")]), at(0));
    let changes = at_once.update(config(vec![(prefix("/b"), "b")]), at(0));
    assert_eq!(changes.iter().map(is_any).collect::<Vec<_>>(), [('+', "b"), ('-', "a")]);
    println!("covers: S2.052 X47");
}

#[test]
fn routes_and_actions_must_match() {
    let matches = || {
        valid(vec![route(prefix("/a"), cluster("c"))]).virtual_hosts()[0].routes()[0]
            .matches
            .clone()
    };
    let new = |routes: &[&str], actions: &[&str]| {
        let routes = routes.iter().map(|name| PolicyRoute::new(matches(), *name)).collect();
        let actions = actions.iter().map(|name| (name.to_string(), ())).collect();
        RoutingConfig::new(routes, actions).map_err(|invalid| invalid.to_string())
    };
    assert!(new(&["a", "a"], &["a"]).is_ok());
    assert_eq!(new(&["a", "b"], &["a"]).unwrap_err(), "route[1].action: action `b` is not defined");
    assert_eq!(new(&["a"], &["a", "b"]).unwrap_err(), "action[\"b\"]: is not used by any route");
    println!("covers: S2.040 S2.041 S2.043");
}
