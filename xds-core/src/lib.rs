//! Sans-IO protocol cores for both ends of xDS, the protocol by which Envoy, gRPC and service meshes
//! get their configuration.
//!
//! A [`Client`] and a [`Server`] are state machines. They take events (a stream was
//! opened, a message arrived, a timer fired) and hand out what to do next (open a channel, send this
//! message, tell this watcher, wake me then). They never touch a socket, a clock or a random source,
//! so a run can be replayed byte for byte, and any runtime can drive them. Adapters for tokio and
//! others live in crates of their own.
//!
//! # The picture
//!
//! ```text
//!        commands              ┌───────────────┐   poll_output    open or close a channel,
//!   watch, unwatch, handled ─▶ │               │ ───────────────▶ tell a watcher,
//!                              │               │                  this channel has something to send
//!   news of transports         │  Client       │   poll_transmit
//!   handle_event(..., now)  ─▶ │  (or Server)  │ ───────────────▶ one rendered message
//!                              │               │   poll_timeout
//!   handle_timeout(now)     ─▶ │               │ ───────────────▶ when to call handle_timeout
//!                              └───────────────┘   wants_read
//!                                                ───────────────▶ whether to read the next message
//! ```
//!
//! Inputs do the work. Polls hand out what is ready, except for one: `poll_transmit` renders a
//! message at the moment the transport has room for it, which is how a thousand `watch` calls become
//! one request.
//!
//! # The loop
//!
//! One exchange from end to end, with function calls in place of a network, without time and without failures:
//!
//! ```
//! use bytes::Bytes;
//! use xds_core::client::{ChannelEvent, Client, ClientConfig, Interest, ManagementServer};
//! use xds_core::client::{Node, Notice, OpaqueType, Output};
//! use xds_core::server::{Server, ServerConfig, ServerOutput, StreamEvent, Transaction, Variant, Via};
//! use xds_core::{Frame, Time, TypeUrl, types};
//!
//! let node = Node::new("node-1");
//! let config = ClientConfig::new(node, ManagementServer::new("in-process"))
//!     .with_type(OpaqueType::new(types::CLUSTER));
//! let now = Time::ZERO; // a real driver reads its monotonic clock before every call
//! let mut client = Client::new(config, 42, now);
//! let mut server = Server::new(ServerConfig::default(), 42, now);
//!
//! // A resource is its bytes; its name is field 1, as in every xDS resource.
//! let mut change = Transaction::new();
//! change.set(types::CLUSTER, "backend", Bytes::from_static(b"\x0a\x07backend"));
//! server.apply(change, now)?;
//!
//! let clusters = TypeUrl::from(types::CLUSTER);
//! client.watch(&clusters, Interest::Name("backend"), now)?;
//!
//! let (mut stream, mut channel, mut seen) = (None, None, None);
//! let mut frame = Frame::default();
//! while seen.is_none() {
//!     while let Some(output) = client.poll_output() {
//!         match output {
//!             Output::Open(id, _call) => {
//!                 channel = Some(id);
//!                 stream = Some(server.accept(Via::Aggregated(Variant::StateOfTheWorld), now)?);
//!                 client.handle_event(ChannelEvent::Opened(id), now);
//!             }
//!             Output::Writable(id) => {
//!                 while client.poll_transmit(id, now, &mut frame).is_some() {
//!                     let stream = stream.expect("opened above");
//!                     server.handle_event(StreamEvent::Message(stream, frame.to_bytes()), now);
//!                 }
//!             }
//!             Output::Notify(watch, notice) => {
//!                 if let Notice::Changed(Ok(resource)) = notice {
//!                     seen = Some(resource.name);
//!                 }
//!                 client.handled(watch, now); // the next response may be read
//!             }
//!             _ => {}
//!         }
//!     }
//!     while let Some(output) = server.poll_output() {
//!         if let ServerOutput::Writable(id) = output {
//!             while server.poll_transmit(id, now, &mut frame).is_some() {
//!                 let channel = channel.expect("opened above");
//!                 client.handle_event(ChannelEvent::Message(channel, frame.to_bytes()), now);
//!             }
//!         }
//!     }
//! }
//! assert_eq!(seen.as_ref().map(|name| name.as_str()), Some("backend"));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! A driver with a network does four things more, in every turn of its loop:
//!
//! - it sleeps until the time that `poll_timeout` names or until there is news, and calls `handle_timeout` in either
//!   case, since a deadline counts also while messages keep coming;
//! - it tells the machine of every end ([`client::ChannelEvent::Closed`], [`server::StreamEvent`]), and ends a transport
//!   when it is told to ([`client::Output::Close`], [`server::ServerOutput::Close`]);
//! - it calls `poll_transmit` only while the transport has room for a message;
//! - it reads the next message only while `wants_read` says so.
//!
//! `examples/custom_runtime.rs` in the repository does this with threads and blocking sockets. For futures there is the
//! crate `xds-grpc`, which asks of a runtime to spawn, to sleep and to connect; for handles and watches as streams,
//! `xds-handle`; and `xds-conformance` holds a finished adapter against the rules below.
//!
//! # The rules
//!
//! Each of them is a test (`tests/client_contract.rs`, and `tests/server/model.rs` for the server).
//!
//! 1. `now` never goes back; if it does, the last one is used.
//! 2. Same config, seed and calls give the same outputs, byte for byte, in every process.
//! 3. Inputs may follow inputs undrained; nothing is lost. When outputs are taken changes how
//!    messages coalesce, never where things end. Times that count from a request begin when it is rendered.
//! 4. While an output is queued, `poll_timeout` is due: a driver that sleeps exactly to it misses
//!    nothing. A message that waits for room in a transport is no queued output.
//! 5. `poll_output` and `poll_timeout` take constant time, and every poll that returned `None` does
//!    so again until the next input.
//! 6. No input panics or grows memory past the configured limits. A panic is our bug.
//! 7. Ids are never reused; events for closed or unknown ids are ignored and counted.
//!
//! # Errors
//!
//! There are three families, and they do not mix. What a *peer* does wrong ends a channel or stream
//! ([`client::ChannelError`], [`server::CloseReason`]). A bad *resource* becomes a NACK and a notice
//! to its watchers ([`client::Rejection`], [`client::WatchError`]). What the *caller* does wrong is
//! returned at once ([`client::InvalidWatch`], [`server::TransactionError`]).
//!
//! # What is here
//!
//! Resources are bytes with a name to both machines. Beside them stands [`references`], for those who fill
//! a server: which resources a resource refers to, and whether a set of them is consistent.
//!
//! The client follows any number of servers, with authorities and fallback between servers, over an
//! aggregated stream, one per type, or by polling. The server serves the same to any number of clients, whose
//! views of the resources differ. Both speak the state-of-the-world and the incremental variant. The crate is
//! `no_std` with `alloc`, has no features that a user needs and no unsafe code.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;

mod cache_control;
pub mod client;
mod cost_probe;
mod frame;
mod id;
mod index;
pub mod proto;
pub mod references;
mod rng;
mod room;
pub mod server;
pub mod service;
mod slab;
mod text;
mod time;
pub mod types;
mod wire;
pub mod xdstp;
#[cfg(not(feature = "zoo"))]
mod zoo;
#[cfg(feature = "zoo")]
#[doc(hidden)]
pub mod zoo;

pub use cache_control::CacheControl;
pub use client::Client;
pub use frame::Frame;
pub use id::{ChannelId, StreamId, UpdateId, WatchId};
pub use server::Server;
pub use text::{Nonce, ResourceName, TypeUrl, Version, VersionPrefix, ViewName};
pub use time::{Deadline, Time, Timer};
pub use wire::Malformed;
