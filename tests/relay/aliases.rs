//! One client and a server that it asks for a resource by an alias.

use xds_core::{
    Time,
    client::{Interest, Notice},
    server::{ResourceOptions, Server, ServerConfig, Transaction, Variant},
    types,
};
use xds_sim::{Toy, ToyType};

use crate::relay::{relay::client, segment::Segment};

const TYPE: &str = types::CLUSTER_LOAD_ASSIGNMENT;

struct Pair(Segment);

impl Pair {
    fn apply(&mut self, change: impl FnOnce(&mut Transaction)) -> Vec<String> {
        let mut transaction = Transaction::new();
        change(&mut transaction);
        self.0.server.apply(transaction, Time::ZERO).expect("a good transaction");
        self.notices()
    }

    fn set(&mut self, name: &str, content: &str, alias: &str) -> Vec<String> {
        self.apply(|it| {
            let options = ResourceOptions::default().with_alias(alias);
            it.set_with(TYPE, name, Toy::bytes(name, content), options);
        })
    }

    /// Returns the notices of the client's watcher.
    fn notices(&mut self) -> Vec<String> {
        while self.0.pump(Time::ZERO) {}
        let text = |notice: Notice| match notice {
            Notice::Changed(Ok(resource)) => Toy::text_of(&resource.bytes),
            Notice::Changed(Err(error)) => format!("none: {:?}", error.kind()),
            Notice::Ambient(Some(error)) => format!("ambient: {:?}", error.kind()),
            other => format!("{other:?}"),
        };
        self.0.notices.drain(..).map(|(.., notice)| text(notice)).collect()
    }
}

/// The client learns the resource's name and subscribes to it from then on. It is sent nothing
/// twice, and is notified of the removal.
#[test]
fn watcher_of_an_alias_subscribes_to_the_resource_name() {
    let server = Server::new(ServerConfig::default(), 1, Time::ZERO);
    let mut pair = Pair(Segment::new(server));
    assert_eq!(pair.set("a", "1", "x"), [""; 0]);
    let member = pair.0.join(client("one", Variant::Incremental, ToyType::new));
    pair.0.watch(member, TYPE, Interest::Name("x"), Time::ZERO);
    assert_eq!(pair.notices(), ["1"]);
    assert_eq!(pair.set("a", "2", "x"), ["2"]);
    assert_eq!(pair.set("b", "1", "y"), [""; 0]);
    let gone = pair.apply(|it| {
        it.remove(TYPE, "a");
    });
    assert_eq!(gone, ["ambient: Deleted"]);
    assert_eq!(pair.set("a", "3", "z"), ["3"], "the alias is forgotten");

    pair.0.watch(member, TYPE, Interest::Name("w"), Time::ZERO);
    assert_eq!(pair.notices(), ["none: Absent"], "it stands for nothing");
    assert_eq!(pair.set("b", "2", "w"), ["2"], "until it does");
    println!("covers: M136 M137 DX-40");
}
