//! Deterministic simulation of xDS in virtual time.
//!
//! A [`World`] is one client, one server and the link between them. Nothing in it waits: time jumps
//! from one thing that is due to the next, so a run is over in microseconds and is the same every
//! time. On top of it, [`script`] runs protocol scenarios written as text, whose printed answers are
//! the expectation.
//!
//! ```
//! use std::time::Duration;
//!
//! use xds_core::{Client, Time, TypeUrl, client::*, server, types};
//! use xds_sim::{Peer, Toy, ToyType, World};
//!
//! let node = Node::new("simulated");
//! let config = ClientConfig::new(node, ManagementServer::new("sim"))
//!     .with_type(ToyType::new(types::CLUSTER));
//! let server = server::Server::new(server::ServerConfig::default(), 1, Time::ZERO);
//! let mut world = World::new(Client::new(config, 1, Time::ZERO), Peer::Core(Box::new(server)));
//!
//! // Watched before it exists, created a minute later: it arrives all the same.
//! let clusters = TypeUrl::from(types::CLUSTER);
//! let watch = world.client.watch(&clusters, Interest::Name("a"), Time::ZERO).unwrap();
//! world.attach(watch, "w");
//! world.advance(Duration::from_secs(60));
//! let mut change = server::Transaction::new();
//! change.set(types::CLUSTER, "a", Toy::bytes("a", "hello"));
//! if let Peer::Core(server) = &mut world.peer {
//!     server.apply(change, Time::from_nanos(60_000_000_000)).unwrap();
//! }
//! world.settle();
//! let log: Vec<String> = world.take_log().into_iter().map(|event| event.text).collect();
//! assert!(log.iter().any(|line| line.starts_with("w: a=hello")), "{log:#?}");
//! ```

pub mod script;
pub mod status_text;
mod toy;
pub mod trace;
mod watchers;
pub mod wire_text;
mod world;

pub use toy::{Toy, ToyType};
pub use world::{Event, Peer, Reachability, World};
