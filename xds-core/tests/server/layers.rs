//! Layered views and the updates that their clients get.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Parts, Rig, payload, run_all_with, url};
use proptest::{collection::vec, prelude::*};
use xds_core::{
    ViewName,
    server::{
        Admission, DropView, LayersError, ServerConfig, ServerLimits, Transaction, TransactionError,
    },
};

fn asked() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.admission = Admission::ByApplication;
    config
}

fn view(name: &str) -> ViewName {
    ViewName::from(name)
}

#[test]
fn layered_view_sends_only_visible_changes() {
    run_all_with(
        &asked(),
        &[
            // The topmost layer with a name counts; hidden resources change without an update.
            (
                "M224 M222",
                "
                set @base cds a=1 b=1
                set @own cds a=9
                layers v own base
                d> cds
                assign 1 v
                d< cds first a=9 b=1
                d> cds ack
                set @base cds a=2              # hidden
                d<
                set @own cds c=1
                d< cds changed c=1
                d> cds ack
                set @base cds c=5 b=2
                d< cds changed b=2
                d> cds ack
                set @own cds -a                # reveals the base's resource
                d< cds changed a=2
                d> cds ack
                set @own cds b=2               # equal resource on top
                d<
                set @own cds -b
                d<
                set @own cds -c
                d< cds changed c=5
                d> cds ack
                set @base cds -c
                d< cds changed -c
                d> cds ack
                d<",
            ),
            // Names, and state of the world.
            (
                "M224",
                "
                set @base cds a=1 b=1; eds x=1
                layers v own base
                > cds
                > eds x y
                assign 1 v
                < cds first a=1 b=1
                > cds
                < eds first x=1
                > eds x y
                <
                set @own eds y=1; cds b=1
                < eds changed y=1
                > eds x y
                <
                set @own cds b=2
                < cds changed a=1 b=2
                > cds
                > eds x y
                < eds warming x=1 y=1
                > eds x y
                set @own cds -b; eds -y
                < cds changed a=1 b=1
                > cds",
            ),
            // An error in an upper layer hides the resource below.
            (
                "M224 M171 M176",
                "
                set @base eds a=1
                layers v own base
                d> eds +a +b
                assign 1 v
                d< eds first a=1 -b
                d> eds ack
                set @own eds !a=7
                d< eds changed !a=7
                d> eds ack
                set @base eds a=2
                d<
                set @base eds !b=14
                d< eds changed !b=14
                d> eds ack
                set @own eds !a=14
                d< eds changed !a=14
                d> eds ack
                set @own eds -a
                d< eds changed a=2
                d> eds ack
                d<",
            ),
            // A change of the layers is sent as a difference, also while a response is in flight.
            (
                "M224 M223",
                "
                set @one cds a=1 b=1
                set @two cds a=2 c=1
                layers v one
                d> cds +*
                2d> cds +a
                assign 1 v
                assign 2 v
                d< cds first a=1 b=1
                2d< cds first a=1
                layers v two one
                d<
                2d> cds ack
                d> cds ack
                d< cds changed a=2 c=1
                2d< cds changed a=2
                2d> cds ack
                d> cds ack
                layers v one two
                2d< cds changed a=1
                d< cds changed a=1
                2d> cds ack
                d> cds ack
                layers v one two
                d<
                layers v
                d< cds changed -a -b -c
                d> cds ack
                2d< cds changed -a
                2d> cds ack
                set @v cds a=7                  # a plain view again
                d< cds changed a=7
                2d< cds changed a=7",
            ),
            // A missing layer is empty; clients change between layered and plain views.
            (
                "M224 M223",
                "
                layers v own base
                layers w base
                > cds
                assign 1 v
                < cds first
                > cds
                set @base cds a=1
                < cds changed a=1
                > cds
                set @own cds a=2
                < cds changed a=2
                > cds
                assign 1 w
                < cds changed a=1
                > cds
                assign 1 base
                <",
            ),
        ],
    );
}

#[test]
fn invalid_layers_are_refused() {
    let limits = {
        let mut limits = ServerLimits::default();
        limits.views = 5;
        limits
    };
    let mut rig = Rig::new(asked().with_limits(limits));
    rig.run("set @own cds a=1\nset @base cds a=1\nlayers v own base");
    let mut refused = |name: &str, layers: &[&str]| {
        let layers: Vec<_> = layers.iter().map(|&name| view(name)).collect();
        rig.server.set_layers(&view(name), &layers, rig.now).expect_err("refused")
    };
    assert_eq!(refused("own", &["base"]), LayersError::Nested { view: view("own") });
    assert_eq!(refused("w", &["w"]), LayersError::Nested { view: view("w") });
    assert_eq!(refused("w", &["v"]), LayersError::Nested { view: view("v") });
    assert_eq!(refused("w", &["own", "own"]), LayersError::Duplicate { layer: view("own") });
    assert_eq!(refused("w", &["own", "x"]), LayersError::TooManyViews { limit: 5 });
    rig.run("set @full cds a=1");
    let own = LayersError::OwnResources { view: view("full") };
    let layers = [view("base")];
    assert_eq!(rig.server.set_layers(&view("full"), &layers, rig.now), Err(own));
    let error = rig.server.apply(crate::support::transaction("@v cds a=1"), rig.now);
    assert_eq!(error, Err(TransactionError::LayeredView { view: view("v") }));
    let error = rig.server.apply(Transaction::snapshot("v"), rig.now);
    assert_eq!(error, Err(TransactionError::LayeredView { view: view("v") }));
    assert_eq!(rig.server.stats().resources, 3, "nothing has changed");
    println!("covers: M218 M224 B57");
}

// M223, M224: a client changes to a layer that has nothing of the type.
#[test]
fn view_change_to_layer_sends_later_layer_updates() {
    run_all_with(
        &asked(),
        &[(
            "M223 M224",
            "
            layers over base
            d> eds +a
            assign 1 over
            d< eds first -a
            d> eds ack
            assign 1 base
            d<
            set @other eds a=1
            set @base eds a=2
            d< eds changed a=2
            d> eds ack
            close",
        )],
    );
}

// M222, M224: layered views use no memory without subscribers.
#[test]
fn layered_views_share_stored_resources() {
    let mut rig = Rig::new(asked());
    rig.run("set @base cds a=1 b=1; eds x=1\nset @own cds b=2\nlayers v own base\nlayers w base");
    let before = rig.server.stats();
    assert_eq!((before.views, before.resources, before.types), (5, 4, 3));
    let bytes = |rig: &Rig, name: &str, resource: &str| {
        rig.server.resource_in(&view(name), &url("cds"), resource).cloned()
    };
    assert_eq!(bytes(&rig, "v", "b"), Some(payload("b", "2")), "though nobody subscribes");
    assert_eq!(bytes(&rig, "v", "a"), bytes(&rig, "base", "a"));
    let version = rig.server.version_in(&view("v"), &url("cds"));
    rig.run("> cds\n2> cds\nassign 1 v\nassign 2 w\n< cds first a=1 b=2\n2< cds first a=1 b=1");
    assert_eq!(rig.server.version_in(&view("v"), &url("cds")), version, "the same, from content");
    let pointer = |rig: &Rig, name: &str| bytes(rig, name, "a").map(|bytes| bytes.as_ptr());
    assert_eq!(pointer(&rig, "v"), pointer(&rig, "w"));
    assert_eq!(rig.server.stats().payloads, before.payloads);
    assert_eq!(rig.server.stats().resources, before.resources, "shown, not stored");
    rig.run("1close\n2close");
    let after = rig.server.stats();
    assert_eq!((after.types, after.names), (before.types, before.names));
    rig.server.drop_view(&view("base"), DropView::Freeze, rig.now);
    assert_eq!(bytes(&rig, "w", "a"), Some(payload("a", "1")), "a layer in use stays");
    for name in ["w", "v", "own"] {
        rig.server.drop_view(&view(name), DropView::Freeze, rig.now);
    }
    let stats = rig.server.stats();
    assert_eq!((stats.views, stats.resources, stats.payloads, stats.types), (1, 0, 0, 0));
    println!("covers: M222 M213 M224 M243");
}

/// The names of a client with many names are freed after its stream has closed, while the arena of
/// the view still shows the layers.
#[test]
fn layered_view_dropped_before_its_names_are_freed_leaves_its_layers_unchanged() {
    let mut limits = ServerLimits::default();
    limits.names_per_call = 1;
    let mut rig = Rig::new(asked().with_limits(limits));
    rig.run(
        "set @base cds a=1 b=1 c=1\nlayers v base\nd> cds +a +b +c\nassign 1 v\nd< cds first a=1 b=1 c=1",
    );
    rig.server.drop_view(&view("v"), DropView::Freeze, rig.now);
    rig.parts = Parts::OnRequest;
    rig.run("1close");
    assert!(rig.server.stats().unfinished_closes > 0);
    assert_eq!(rig.server.stats().resources, 3);
    while rig.part().is_some() {}
    rig.run("set @base cds -a");
    let stats = rig.server.stats();
    assert_eq!((stats.views, stats.resources, stats.types), (2, 2, 1));
    println!("covers: M213 M224");
}

// M213: a layered view is dropped like others.
#[test]
fn layered_view_is_dropped_by_policy() {
    let start = || {
        let mut rig = Rig::new(asked());
        rig.run(
            "set @base cds a=1\nlayers v base\nd> cds\nassign 1 v\nd< cds first a=1\nd> cds ack",
        );
        rig
    };
    let mut rig = start();
    rig.server.drop_view(&view("v"), DropView::RemoveAll, rig.now);
    rig.run("d< cds changed -a\nd> cds ack\nset @base cds a=2\nd<\n1close");
    assert_eq!(rig.server.stats().views, 2);
    let mut rig = start();
    rig.server.drop_view(&view("v"), DropView::Freeze, rig.now);
    rig.server.drop_view(&view("base"), DropView::Freeze, rig.now);
    rig.run("set @base cds b=1\nd< cds changed b=1\nd> cds ack");
    rig.server.drop_view(&view("base"), DropView::Freeze, rig.now);
    rig.run("1close");
    let stats = rig.server.stats();
    assert_eq!((stats.views, stats.resources, stats.payloads), (1, 0, 0), "one after the other");
    println!("covers: M213");
}

const LAYERS: [&str; 3] = ["l0", "l1", "l2"];
const VIEWS: [&str; 2] = ["v0", "v1"];
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Op {
    /// Sets resources and errors of a layer, or removes them.
    Apply(usize, Vec<(usize, Value)>),
    Layers(usize, Vec<usize>),
    /// A client subscribes to the wildcard or these names of a view.
    Come(usize, usize, u8),
    Go(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Resource(u8),
    Error(i32),
    Nothing,
}

fn op() -> impl Strategy<Value = Op> {
    let value = prop_oneof![
        4 => (0..3u8).prop_map(Value::Resource),
        1 => prop_oneof![Just(7), Just(14)].prop_map(Value::Error),
        2 => Just(Value::Nothing),
    ];
    prop_oneof![
        5 => (0..3usize, vec((0..3usize, value), 1..4))
            .prop_map(|(layer, changes)| Op::Apply(layer, changes)),
        2 => (0..2usize, Just(vec![0, 1, 2]).prop_shuffle(), 0..4usize)
            .prop_map(|(view, order, n)| Op::Layers(view, order[..n].to_vec())),
        2 => (0..3usize, 0..2usize, 0..8u8).prop_map(|(who, view, bits)| Op::Come(who, view, bits)),
        1 => (0..3usize).prop_map(Op::Go),
    ]
}

/// Contents of a layer. A name may have a resource and an error, which only subscriptions by name
/// get.
type Layer = BTreeMap<usize, (Option<u8>, Option<i32>)>;

#[derive(Default)]
struct Model {
    layers: [Layer; 3],
    views: [Vec<usize>; 2],
}

impl Model {
    fn apply(&mut self, layer: usize, name: usize, value: Value) {
        let entry = self.layers[layer].entry(name).or_default();
        match value {
            Value::Resource(content) => *entry = (Some(content), None),
            Value::Error(code) => entry.1 = Some(code),
            Value::Nothing => *entry = (None, None),
        }
        self.layers[layer].retain(|_, entry| *entry != (None, None));
    }

    /// Computes the contents of a view from its layers.
    fn effective(&self, view: usize) -> Layer {
        let mut set = Layer::new();
        for &layer in self.views[view].iter().rev() {
            set.extend(self.layers[layer].clone());
        }
        set
    }
}

struct Client {
    view: usize,
    /// Empty for the wildcard.
    names: BTreeSet<usize>,
    held: BTreeMap<String, String>,
}

/// Final resources and errors of a client.
fn expected(set: &Layer, names: &BTreeSet<usize>) -> BTreeMap<String, String> {
    let mut held = BTreeMap::new();
    for (&name, &(content, error)) in set {
        let text = content.map(|content| format!("{}={content}", NAMES[name]));
        let told = error.map(|code| format!("!{}={code}", NAMES[name]));
        let shown =
            if names.is_empty() { text } else { told.filter(|_| names.contains(&name)).or(text) };
        if let Some(shown) = shown.filter(|_| names.is_empty() || names.contains(&name)) {
            held.insert(NAMES[name].to_owned(), shown);
        }
    }
    held
}

impl Client {
    /// Takes pending responses. Returns their number.
    fn settle(&mut self, rig: &mut Rig, stream: u32) -> usize {
        let mut responses = 0;
        while let Some(received) = rig.receive(stream) {
            responses += 1;
            assert!(responses < 10, "it never ends");
            for text in received.resources() {
                let name = text.trim_start_matches(['-', '!']);
                let name = name.split('=').next().unwrap_or_default().to_owned();
                match text.starts_with('-') {
                    true => drop(self.held.remove(&name)),
                    false => drop(self.held.insert(name, text)),
                }
            }
            rig.run(&format!("{stream}d> eds ack"));
        }
        responses
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // M224, M222: clients of layered views hold the effective contents, get no response while these
    // stay the same, and the version equals that of a plain view with the same resources.
    #[test]
    fn clients_hold_effective_contents_of_layers(ops in vec(op(), 1..40)) {
        let mut rig = Rig::new(asked());
        let mut model = Model::default();
        let mut clients: BTreeMap<u32, Client> = BTreeMap::new();
        let mut opened = 10;
        for op in ops {
            let before: Vec<_> = (0..2).map(|view| model.effective(view)).collect();
            match op {
                Op::Apply(layer, changes) => {
                    // Only the last change of a name counts.
                    let changes: BTreeMap<_, _> = changes.into_iter().collect();
                    let mut text = format!("set @{} eds", LAYERS[layer]);
                    for (name, value) in changes {
                        model.apply(layer, name, value);
                        let name = NAMES[name];
                        text += &match value {
                            Value::Resource(content) => format!(" {name}={content}"),
                            Value::Error(code) => format!(" !{name}={code}"),
                            Value::Nothing => format!(" -{name}"),
                        };
                    }
                    rig.run(&text);
                }
                Op::Layers(view, layers) => {
                    let names: Vec<_> = layers.iter().map(|&layer| LAYERS[layer]).collect();
                    rig.run(&format!("layers {} {}", VIEWS[view], names.join(" ")));
                    model.views[view] = layers;
                }
                Op::Come(who, view, bits) => {
                    let names: BTreeSet<_> = (0..3).filter(|bit| bits & (1 << bit) != 0).collect();
                    let asks: String = match names.is_empty() {
                        true => "+*".into(),
                        false => names.iter().map(|&name| format!("+{} ", NAMES[name])).collect(),
                    };
                    opened += 3;
                    let stream = opened + u32::try_from(who).unwrap();
                    rig.run(&format!("{stream}d> eds {asks}\nassign {stream} {}", VIEWS[view]));
                    let mut client = Client { view, names, held: BTreeMap::new() };
                    client.settle(&mut rig, stream);
                    clients.insert(stream, client);
                }
                Op::Go(who) => {
                    let leaving = clients.keys().copied().nth(who);
                    if let Some(stream) = leaving {
                        clients.remove(&stream);
                        rig.run(&format!("{stream}close"));
                    }
                }
            }
            for (&stream, client) in &mut clients {
                let set = model.effective(client.view);
                let wanted = expected(&set, &client.names);
                let is_same = before[client.view] == set;
                let responses = client.settle(&mut rig, stream);
                prop_assert!(!is_same || responses == 0, "told of what did not change for it");
                prop_assert_eq!(&client.held, &wanted);
            }
            for (view, name) in VIEWS.iter().enumerate() {
                let set = model.effective(view);
                let mut plain = Rig::default();
                for (name, (content, _)) in &set {
                    let shown = rig.server.resource_in(&ViewName::from(VIEWS[view]), &url("eds"), NAMES[*name]);
                    let wanted = content.map(|it| payload(NAMES[*name], &it.to_string()));
                    prop_assert_eq!(shown, wanted.as_ref());
                    if let Some(content) = content {
                        plain.run(&format!("set eds {}={content}", NAMES[*name]));
                    }
                }
                let version = rig.server.version_in(&ViewName::from(*name), &url("eds"));
                prop_assert_eq!(version, plain.server.version(&url("eds")));
            }
        }
        for stream in clients.into_keys() {
            rig.run(&format!("{stream}close"));
        }
        for name in VIEWS.iter().chain(&LAYERS) {
            rig.server.drop_view(&ViewName::from(*name), DropView::Freeze, rig.now);
        }
        let stats = rig.server.stats();
        prop_assert_eq!((stats.views, stats.resources, stats.payloads, stats.names), (1, 0, 0, 0));
    }
}
