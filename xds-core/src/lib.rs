//! Sans-IO protocol cores for both ends of xDS, the protocol that configures Envoy, gRPC and
//! service meshes.
//!
//! A [`Client`] and a [`Server`] are state machines. They take events (a stream was opened, a
//! message arrived, a timer expired) and return actions (open a channel, send a message, notify a
//! watcher, call again at a time). They never use a socket, a clock or a random source, so a run
//! can be replayed byte for byte, and any runtime can drive them. Adapters for tokio and other
//! runtimes are separate crates.
//!
//! # Overview
//!
//! ```text
//!        commands              ┌───────────────┐   poll_output    open or close a channel,
//!   watch, unwatch, handled ─▶ │               │ ───────────────▶ notify a watcher,
//!                              │               │                  channel has something to send
//!   events of transports       │  Client       │   poll_transmit
//!   handle_event(..., now)  ─▶ │  (or Server)  │ ───────────────▶ one rendered message
//!                              │               │   poll_timeout
//!   handle_timeout(now)     ─▶ │               │ ───────────────▶ time to call handle_timeout
//!                              └───────────────┘   wants_read
//!                                                ───────────────▶ whether to read the next message
//! ```
//!
//! Inputs do the work, and polls return what is ready. The exception is `poll_transmit`: it renders
//! a message at the moment the transport has room for it, so that a thousand `watch` calls become
//! one request.
//!
//! # The loop
//!
//! The following example is one exchange from end to end. Function calls take the place of the
//! network; there are no timers and no failures. Its dependencies are this crate and `bytes`.
//!
//! ```
//! use bytes::Bytes;
//! use xds_core::client::{ChannelEvent, Client, ClientConfig, Interest, ServerAddress};
//! use xds_core::client::{Node, Notice, OpaqueType, Output};
//! use xds_core::server::{Server, ServerConfig, ServerOutput, StreamEvent};
//! use xds_core::server::{StreamKind, Transaction, Variant};
//! use xds_core::{Frame, Time, TypeUrl, types};
//!
//! let node = Node::new("node-1");
//! let config = ClientConfig::new(node, ServerAddress::new("in-process"))
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
//!                 let kind = StreamKind::Aggregated(Variant::StateOfTheWorld);
//!                 stream = Some(server.accept(kind, now)?);
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
//! A driver with a network also does the following, in each iteration of its loop:
//!
//! - It waits until the time that `poll_timeout` returns or an event, and calls `handle_timeout` in
//!   both cases, because deadlines also pass while messages keep arriving.
//! - It reports the end of every call ([`client::ChannelEvent::Closed`],
//!   [`server::StreamEvent`]), and ends a call on request ([`client::Output::Close`],
//!   [`server::ServerOutput::Close`]).
//! - It limits the time of an attempt to connect, and detects a peer that has fallen silent, for
//!   example by keepalive pings. The machines have no timer for either.
//! - It calls `poll_transmit` only while the transport has room for a message. A channel or stream
//!   stays writable until `poll_transmit` returns `None`, and is not announced again before.
//! - It reads the next message only while `wants_read` is true. No output signals a change of this
//!   value. Inputs, `poll_output` and `poll_transmit` can all change it, so the driver checks it
//!   before each wait.
//! - It calls [`Client::handled`](client::Client::handled) once a watcher has finished with a notice,
//!   unless flow control is [off](client::FlowControl::Off).
//!
//! `examples/custom_runtime` in the repository does this with threads and blocking sockets, except
//! keepalive. For futures use the crate `xds-grpc`, which requires a runtime that can spawn, sleep and connect.
//! `xds-handle` provides handles, and watches as streams. `xds-conformance` tests a finished
//! adapter against the rules below.
//!
//! # Rules of the interface
//!
//! Each rule has a test (`tests/it/client_contract.rs`, and `tests/server/model.rs` for the server).
//!
//! 1. `now` never goes back; if it does, the latest time is used.
//! 2. The same config, seed and calls give the same outputs, byte for byte, in every process.
//! 3. Inputs may follow each other without draining the outputs; nothing is lost. The time at which
//!    outputs are drained affects how messages are merged, never the final state. Times that start
//!    with a request start when it is rendered.
//! 4. While an output is queued, `poll_timeout` is due now, so a driver that sleeps exactly until
//!    then misses nothing. A message that waits for room in a transport does not count as a queued
//!    output.
//! 5. `poll_output` and `poll_timeout` take constant time, and a poll that returned `None`
//!    continues to do so until the next input.
//! 6. No input causes a panic, which would be a bug in this crate. No input makes memory exceed the
//!    configured limits if the driver drains the outputs. If a driver keeps reading while
//!    `wants_read` is false, the call is ended once a limit would be exceeded.
//! 7. Ids are never reused; events for closed or unknown ids are ignored and counted.
//!
//! # Errors
//!
//! Errors are of three separate kinds. An error of the *peer* ends a channel or stream
//! ([`client::ChannelError`], [`server::CloseReason`]). An invalid *resource* causes a NACK and a
//! notice to its watchers ([`client::Rejection`], [`client::WatchError`]). An error of the *caller*
//! is returned at once ([`client::InvalidWatch`], [`server::TransactionError`]).
//!
//! # Scope
//!
//! To both machines a resource is a name and bytes. The module [`references`] is for applications
//! that fill a server: it finds the references between resources and checks whether a set of
//! resources is consistent.
//!
//! The client follows any number of servers, with authorities and fallback between servers, over an
//! aggregated stream, one stream per type, or by polling. The server serves any number of clients,
//! which can have different views of the resources. Both support the state-of-the-world and the
//! incremental variant. [`load_reports`] has the streams on which clients report their load. The crate is `no_std` with `alloc`, has no features that a user needs, and
//! contains no unsafe code.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// Code that may panic states why it cannot. clippy.toml lists methods that panic.
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_methods,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

extern crate alloc;

mod cache_control;
pub mod client;
mod cost_probe;
mod debounce;
#[doc(hidden)]
pub mod error_causes;
mod frame;
mod glob_depths;
pub mod guards;
mod id;
mod index;
pub mod load_reports;
pub mod proto;
pub mod references;
mod rng;
pub mod rollout;
mod room;
pub mod selector;
pub mod server;
pub mod service;
mod slab;
mod slot_table;
mod source_version;
mod status_code;
mod text;
mod time;
mod token_bucket;
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
pub use debounce::Debounce;
pub use frame::Frame;
pub use id::{ChannelId, StreamId, UpdateId, WatchId};
pub use server::Server;
pub use status_code::StatusCode;
pub use text::{Nonce, ResourceName, TypeUrl, Version, VersionPrefix, ViewName};
pub use time::{Deadline, Time, Timer};
pub use wire::Malformed;
