//! Application's side of a running xDS client: handles and watches.
//!
//! The core, [`xds_core::Client`], is a state machine with one owner: the driver, a task that also
//! owns the transports. This crate connects that task with the rest of the program. It depends on
//! no runtime or transport, so all adapter crates use and re-export it.
//!
//! ```text
//!   application                                        driver task
//!   ───────────                                        ───────────
//!   ClientHandle ── watch, shut_down, status ─┐
//!                                             ├─ queue ─▶ DriverSide ──▶ xds_core::Client
//!   Watch, WatchAll ── next, handled, drop ───┘              │
//!        ▲                                                   │
//!        └───────────── slot: the newest notice ◀────────────┘
//! ```
//!
//! [`ClientHandle::watch`], [`watch_all`](ClientHandle::watch_all) and
//! [`watch_glob`](ClientHandle::watch_glob) return decoded resources. The untyped variants are for
//! programs that learn the types at run time. For types that need an external verdict,
//! [`ClientHandle::reviews`] returns the updates to review.
//!
//! - **Commands never block.** They go into an unbounded queue, and the driver applies all
//!   available commands at once. A hundred thousand watches become one request.
//! - **Notices do not accumulate.** A [`Watch`] holds the newest value and the newest ambient
//!   error; a [`WatchAll`] fetches changes in batches on demand. A slow reader skips intermediate
//!   states and costs no memory.
//! - **A watch that is not polled delays only itself.** The client continues to read, and the watch
//!   returns the newest state when it is polled again.
//! - **Polling for the next item, or dropping the watch, marks the last item as handled.** This
//!   matters only with [`FlowControl::On`](xds_core::client::FlowControl), which is off by default:
//!   then the client reads the server's next response only after all notices of the last one are
//!   handled. A task that keeps a notice while it waits for another watch must call
//!   [`Watch::handled`] first.
//! - **The client lives while it is reachable.** The driver ends when the last handle and the last
//!   watch are dropped. Observers can hold a [`WeakClientHandle`].
//!
//! # Writing an adapter
//!
//! [`channel`] creates both sides. An iteration of the driver's loop, in which only the I/O depends
//! on the runtime:
//!
//! ```
//! use xds_core::{Client, Time, client::Output};
//! use xds_handle::{ApplyOutcome, DriverSide};
//!
//! # trait Io { fn now(&self) -> Time; fn obey(&mut self, client: &mut Client, output: Output); }
//! fn iterate(client: &mut Client, side: &mut DriverSide, io: &mut impl Io) -> ApplyOutcome {
//!     let outcome = side.apply(client, io.now());
//!     while let Some(output) = side.poll_output(client, io.now()) {
//!         io.obey(client, output); // open, close, writable
//!     }
//!     outcome
//! }
//! ```
//!
//! Before the driver creates the client, it [prepares](prepare) the configuration: a panic in an
//! application's resource type then rejects a resource instead of ending the driver, and watches
//! that are not polled do not block reading. After each iteration the driver waits for
//! [`DriverSide::poll_ready`], its transports and
//! [`Client::poll_timeout`](xds_core::Client::poll_timeout).
#![deny(missing_docs)]
// Code that may panic states why it cannot.
#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod command;
mod decode;
mod driver;
mod guarded;
mod handle;
mod review;
mod slot;
mod snapshot;
mod typed;
#[cfg(feature = "validation")]
mod validated;
mod wall_clock;
mod watch;

use std::sync::Arc;

#[cfg(feature = "validation")]
pub use self::validated::{Deprecations, Validated, ValidatedTypes};
pub use self::{
    decode::{Decode, Typed},
    driver::{ApplyOutcome, DriverSide},
    guarded::{guard_types, prepare},
    handle::{AddStaticResourceError, ClientEnded, ClientHandle, WeakClientHandle},
    review::{NotInUpdate, Review, Reviews},
    snapshot::{FailedSnapshot, ResourceSnapshot},
    typed::{
        InvalidTypedWatch, TypedChange, TypedNotice, TypedResource, TypedWatch, TypedWatchAll,
    },
    watch::{Watch, WatchAll},
};

/// Creates the application's side and the driver's side of a client.
#[must_use]
pub fn channel() -> (ClientHandle, DriverSide) {
    let (sender, receiver) = futures_channel::mpsc::unbounded();
    let review_queue = Arc::default();
    let side = DriverSide::new(receiver, Arc::clone(&review_queue));
    (ClientHandle::new(Arc::new(sender), review_queue), side)
}
