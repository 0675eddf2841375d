//! Scenarios of `ii/xds-test-harness`, the conformance suite of the CNCF's prototype: responses to
//! a client that subscribes, adds names, drops names and unsubscribes.
//!
//! The suite itself runs over gRPC and waits for seconds after each step. Here the core is
//! called directly, and the result is final once it has no more output. The peculiarities of the
//! suite are kept:
//!
//! - A resource is identified by name, version and nonce only. The version is that of the response,
//!   which must be the version that the adapter was given last. One version is given to several
//!   contents.
//! - In state of the world every ACK repeats type and names of the first subscription, even for
//!   another type.
//! - A client unsubscribes from everything by subscribing to an empty name.

mod adapter;
mod client;

use libtest_mimic::{Arguments, Failed, Trial};
use xds_core::{
    Time,
    proto::Any,
    server::{Admission, Server},
    service::Variant,
    types,
};

use self::{
    adapter::{ResourceRequest, SetStateRequest, body},
    client::{Client, NODE, Streams},
};

const NOW: Time = Time::ZERO;

/// Action or expectation of a scenario.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The client subscribes to names, or to everything.
    Subscribe(&'static [&'static str]),
    /// The client subscribes to the other type of the scenario.
    SubscribeOther(&'static [&'static str]),
    /// The client replaces its subscription by this name.
    Narrow(&'static str),
    Unsubscribe(&'static str),
    UnsubscribeFromAll,
    Update(&'static str),
    Add(&'static str),
    /// Adds a resource under the first version.
    AddAsFirst(&'static str),
    Remove(&'static str),
    /// The client has exactly these resources in their first version.
    HasFirst(&'static [&'static str]),
    OtherHasFirst(&'static [&'static str]),
    /// The client has exactly these resources, the last of them in its newest version.
    HasLatest(&'static [&'static str]),
    /// The client has only this resource, in its newest version.
    HasOnlyLatest(&'static str),
    /// The client received these resources in one response.
    Together(&'static [&'static str]),
    /// The client received this resource in a separate response.
    Apart(&'static str),
    ReportedMissing(Gone),
    HasNothing,
}

/// Resource that a response reports as missing.
#[derive(Clone, Copy, Debug)]
struct Gone(&'static str);

use Step::{
    Add, AddAsFirst, Apart, HasFirst, HasLatest, HasNothing, HasOnlyLatest, Narrow, OtherHasFirst,
    Remove, ReportedMissing, Subscribe, SubscribeOther, Together, Unsubscribe, UnsubscribeFromAll,
    Update,
};

struct Scenario {
    name: &'static str,
    types: &'static [&'static str],
    variants: &'static [Variant],
    streams: &'static [Streams],
    /// Resources of all types at the start.
    resources: &'static [&'static str],
    steps: &'static [Step],
}

const FULL_STATE: &[&str] = &[types::CLUSTER, types::LISTENER];
const CHANGES: &[&str] = &[types::ROUTE_CONFIGURATION, types::CLUSTER_LOAD_ASSIGNMENT];
const ALL: &[&str] =
    &[types::CLUSTER, types::LISTENER, types::ROUTE_CONFIGURATION, types::CLUSTER_LOAD_ASSIGNMENT];
const SOTW: &[Variant] = &[Variant::StateOfTheWorld];
const DELTA: &[Variant] = &[Variant::Incremental];
const BOTH: &[Variant] = &[Variant::StateOfTheWorld, Variant::Incremental];
const ANY_STREAM: &[Streams] = &[Streams::Aggregated, Streams::PerType];
const AGGREGATED: &[Streams] = &[Streams::Aggregated];

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "everything on a wildcard request",
        types: FULL_STATE,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C"],
        steps: &[Subscribe(&[]), HasFirst(&["A", "B", "C"]), Together(&["A", "B", "C"])],
    },
    Scenario {
        name: "everything again when something changes",
        types: FULL_STATE,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C"],
        steps: &[
            Subscribe(&[]),
            HasFirst(&["A", "B", "C"]),
            Update("A"),
            HasLatest(&["B", "C", "A"]),
            Together(&["A", "B", "C"]),
        ],
    },
    Scenario {
        name: "everything again when something is added",
        types: FULL_STATE,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C"],
        steps: &[
            Subscribe(&[]),
            HasFirst(&["A", "B", "C"]),
            Add("D"),
            HasLatest(&["A", "B", "C", "D"]),
            Together(&["A", "B", "C", "D"]),
        ],
    },
    Scenario {
        name: "what is named and nothing else",
        types: ALL,
        variants: BOTH,
        streams: ANY_STREAM,
        resources: &["A", "B", "C", "D"],
        steps: &[Subscribe(&["B", "D"]), HasFirst(&["B", "D"])],
    },
    Scenario {
        name: "all that is named when some of it changes",
        types: FULL_STATE,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C", "D"],
        steps: &[
            Subscribe(&["B", "D"]),
            HasFirst(&["B", "D"]),
            Update("B"),
            HasLatest(&["D", "B"]),
            Together(&["B", "D"]),
        ],
    },
    Scenario {
        name: "what changes of that which is named",
        types: CHANGES,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C", "D"],
        steps: &[
            Subscribe(&["B", "D"]),
            HasFirst(&["B", "D"]),
            Update("B"),
            HasLatest(&["D", "B"]),
            Apart("B"),
        ],
    },
    Scenario {
        name: "all that is named when some of it is created",
        types: FULL_STATE,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C"],
        steps: &[
            Subscribe(&["A", "Z"]),
            HasFirst(&["A"]),
            Add("Z"),
            HasLatest(&["A", "Z"]),
            Together(&["A", "Z"]),
        ],
    },
    Scenario {
        name: "what is created of that which is named",
        types: CHANGES,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C", "D"],
        steps: &[
            Subscribe(&["A", "Z"]),
            HasFirst(&["A"]),
            Add("Z"),
            HasLatest(&["A", "Z"]),
            Apart("Z"),
        ],
    },
    Scenario {
        name: "two types on one stream",
        types: &[types::CLUSTER, types::ROUTE_CONFIGURATION],
        variants: BOTH,
        streams: AGGREGATED,
        resources: &["A", "B", "C"],
        steps: &[
            Subscribe(&["B"]),
            HasFirst(&["B"]),
            SubscribeOther(&["B"]),
            OtherHasFirst(&["B"]),
            Update("B"),
            HasLatest(&["B"]),
        ],
    },
    Scenario {
        name: "all of what is left when names are dropped",
        types: FULL_STATE,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C", "D", "F"],
        steps: &[
            Subscribe(&["C", "A", "B"]),
            HasFirst(&["A", "B", "C"]),
            Narrow("A"),
            Update("A"),
            HasLatest(&["A"]),
        ],
    },
    Scenario {
        name: "nothing of what was dropped",
        types: CHANGES,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C", "D"],
        steps: &[
            Subscribe(&["B", "D"]),
            HasFirst(&["B", "D"]),
            Narrow("B"),
            Update("B"),
            HasOnlyLatest("B"),
            Update("D"),
            HasOnlyLatest("B"),
        ],
    },
    Scenario {
        name: "nothing when all is dropped",
        types: ALL,
        variants: SOTW,
        streams: ANY_STREAM,
        resources: &["A", "B", "C", "D"],
        steps: &[
            Subscribe(&["A", "B"]),
            HasFirst(&["A", "B"]),
            UnsubscribeFromAll,
            Update("B"),
            HasNothing,
        ],
    },
    Scenario {
        name: "names one after the other",
        types: ALL,
        variants: DELTA,
        streams: ANY_STREAM,
        resources: &["A", "B", "C"],
        steps: &[
            Subscribe(&["A"]),
            HasFirst(&["A"]),
            Subscribe(&["B"]),
            HasFirst(&["A", "B"]),
            Apart("B"),
        ],
    },
    Scenario {
        name: "only what changes",
        types: ALL,
        variants: DELTA,
        streams: ANY_STREAM,
        resources: &["A", "B", "C"],
        steps: &[
            Subscribe(&["A", "B", "C"]),
            HasFirst(&["A", "B", "C"]),
            Update("A"),
            HasLatest(&["B", "C", "A"]),
            Apart("A"),
        ],
    },
    Scenario {
        name: "what does not exist, and is created",
        types: ALL,
        variants: DELTA,
        streams: ANY_STREAM,
        resources: &["A"],
        steps: &[
            Subscribe(&["A", "B"]),
            HasFirst(&["A"]),
            ReportedMissing(Gone("B")),
            AddAsFirst("B"),
            HasFirst(&["A", "B"]),
            Apart("B"),
        ],
    },
    Scenario {
        name: "what is removed, and added again",
        types: ALL,
        variants: DELTA,
        streams: ANY_STREAM,
        resources: &["A", "B"],
        steps: &[
            Subscribe(&["A", "B"]),
            HasFirst(&["A", "B"]),
            Remove("B"),
            ReportedMissing(Gone("B")),
            HasFirst(&["A"]),
            Add("B"),
            HasLatest(&["A", "B"]),
            Apart("B"),
        ],
    },
    Scenario {
        name: "nothing of what is unsubscribed, one after the other",
        types: ALL,
        variants: DELTA,
        streams: ANY_STREAM,
        resources: &["A", "B"],
        steps: &[
            Subscribe(&["A", "B"]),
            HasFirst(&["A", "B"]),
            Unsubscribe("B"),
            Update("B"),
            HasFirst(&["A", "B"]),
            Unsubscribe("A"),
            Update("A"),
            HasFirst(&["A", "B"]),
        ],
    },
];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for scenario in SCENARIOS {
        for &variant in scenario.variants {
            for &streams in scenario.streams {
                for &type_url in scenario.types {
                    let short = types::short_name(type_url).unwrap_or(type_url);
                    let name = format!("{variant:?}, {streams:?}, {short}: {}", scenario.name);
                    trials.push(Trial::test(name, move || {
                        play(scenario, type_url, variant, streams)
                    }));
                }
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// First version of the adapter. All later changes have the second one.
const FIRST: &str = "1";
const SECOND: &str = "2";

fn play(
    scenario: &Scenario,
    type_url: &'static str,
    variant: Variant,
    streams: Streams,
) -> Result<(), Failed> {
    let mut config = adapter::config();
    config.admission = Admission::ByApplication;
    let mut server = Server::new(config, 1, NOW);
    let state = SetStateRequest {
        node: NODE.into(),
        version: FIRST.into(),
        resources: ALL
            .iter()
            .flat_map(|&ty| scenario.resources.iter().map(move |n| any(ty, n)))
            .collect(),
    };
    server.apply(state.snapshot(), NOW).expect("a sound snapshot");
    let mut client = Client::new(server, variant, streams);
    for step in scenario.steps {
        take(*step, type_url, &mut client).map_err(|why| format!("{step:?}: {why}"))?;
    }
    match client.answered_last() {
        true => Ok(()),
        false => Err("the server answers an ACK".into()),
    }
}

fn take(step: Step, type_url: &'static str, client: &mut Client) -> Result<(), String> {
    let request_as = |name: &str, version: &str| ResourceRequest {
        node: NODE.into(),
        type_url: type_url.into(),
        resource_name: name.into(),
        version: version.into(),
    };
    let request = |name: &str| request_as(name, SECOND);
    match step {
        Subscribe(names) => client.subscribe(type_url, names),
        SubscribeOther(names) => client.subscribe(other(type_url), names),
        Narrow(name) => client.narrow(type_url, name),
        Unsubscribe(name) => client.unsubscribe(type_url, name),
        UnsubscribeFromAll => client.unsubscribe_from_all(type_url),
        Update(name) | Add(name) => client.change(request(name).set()),
        AddAsFirst(name) => client.change(request_as(name, FIRST).set()),
        // The suite states no version here.
        Remove(name) => client.change(request_as(name, "").remove()),
        HasFirst(names) => {
            names.iter().try_for_each(|name| has(client, type_url, name, FIRST))?;
            has_exactly(client, type_url, names)?;
        }
        OtherHasFirst(names) => {
            names.iter().try_for_each(|name| has(client, other(type_url), name, FIRST))?;
            has_exactly(client, other(type_url), names)?;
        }
        HasLatest(names) => {
            let (latest, rest) = names.split_last().ok_or("no names")?;
            has(client, type_url, latest, SECOND)?;
            // In full state the other resources are sent again, in a response with the new version.
            let stated = if client.is_sent_full_state(type_url) { SECOND } else { FIRST };
            rest.iter().try_for_each(|name| {
                has_version_from_response(client, type_url, name, FIRST, stated)
            })?;
            has_exactly(client, type_url, names)?;
        }
        HasOnlyLatest(name) => {
            has(client, type_url, name, SECOND)?;
            has_exactly(client, type_url, &[name])?;
        }
        Together(names) => {
            let nonces = names.iter().map(|name| &client.resources[&key(type_url, name)].nonce);
            let mut nonces: Vec<_> = nonces.collect();
            nonces.dedup();
            if nonces.len() != 1 {
                return Err(format!("responses {nonces:?}"));
            }
        }
        Apart(name) => {
            let nonce = &client.resources[&key(type_url, name)].nonce;
            let sharing = client.resources.values().filter(|it| it.nonce == *nonce).count();
            if sharing != 1 {
                return Err(format!("{sharing} resources in one response"));
            }
        }
        ReportedMissing(Gone(name)) => {
            if !client.removed.contains(&key(type_url, name)) {
                return Err(format!("told of {:?}", client.removed));
            }
        }
        HasNothing => has_exactly(client, type_url, &[])?,
    }
    Ok(())
}

/// Checks that the client has this version of the resource, from a response with the same version.
fn has(client: &Client, type_url: &str, name: &str, version: &str) -> Result<(), String> {
    has_version_from_response(client, type_url, name, version, version)
}

/// Checks that the client has one version of the resource, from a response with version `stated`.
fn has_version_from_response(
    client: &Client,
    type_url: &str,
    name: &str,
    version: &str,
    stated: &str,
) -> Result<(), String> {
    let received =
        client.resources.get(&key(type_url, name)).ok_or_else(|| format!("{name} is missing"))?;
    if received.body != body(type_url, name, version) {
        return Err(format!("{name} is not the one of version {version}"));
    }
    if received.version != stated {
        return Err(format!("{name} came as of version {:?}, not {stated:?}", received.version));
    }
    if received.own_version.as_ref().is_some_and(|own| own != version) {
        return Err(format!("{name} has version {:?}, not {version:?}", received.own_version));
    }
    Ok(())
}

/// Checks that the client has exactly these resources of the type.
fn has_exactly(client: &Client, type_url: &str, names: &[&str]) -> Result<(), String> {
    let of_type = |(ty, _): &&(String, String)| ty == type_url;
    let extra = client.resources.keys().filter(of_type).find(|(_, n)| !names.contains(&n.as_str()));
    extra.map_or(Ok(()), |(_, name)| Err(format!("{name} is not expected")))
}

fn key(type_url: &str, name: &str) -> (String, String) {
    (type_url.to_owned(), name.to_owned())
}

/// Returns the other type of a scenario with two types.
fn other(type_url: &str) -> &'static str {
    match type_url {
        types::CLUSTER => types::LISTENER,
        _ => types::CLUSTER_LOAD_ASSIGNMENT,
    }
}

fn any(type_url: &str, name: &str) -> Any {
    Any { type_url: type_url.into(), value: body(type_url, name, FIRST).into() }
}
