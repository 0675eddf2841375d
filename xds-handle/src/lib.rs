//! What an application holds of a running xDS client.
//!
//! The core, [`xds_core::Client`], is a state machine with one owner: the driver, a task of some
//! runtime that also owns the transports. This crate is what lies between that task and the rest of
//! the program. It knows no runtime and no transport, so every adapter crate uses the same one and
//! re-exports it.
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
//! [`watch_glob`](ClientHandle::watch_glob) give decoded resources to a program that knows its types; the untyped ones are for those that learn them at run time. For types whose resources
//! somebody outside has to judge, [`ClientHandle::reviews`] hands out what came.
//!
//! - **Nothing blocks a command.** Commands go into a queue that takes them all; the driver applies
//!   what is ready in one turn, so a hundred thousand watches become one request.
//! - **Nothing queues up on the way back.** A [`Watch`] has room for the newest value and the
//!   newest ambient error; a [`WatchAll`] pulls changes in batches when it is asked for them. A slow
//!   reader sees fewer steps, never old ones, and costs no memory.
//! - **A watch that is not polled delays only itself.** The client goes on reading, and a watch gives the newest
//!   state when it is polled next.
//! - **Asking for the next item says that the last one is handled**, as dropping the watch does. This matters with
//!   [`ReadGate::Notices`](xds_core::client::ReadGate) only, which is off unless the configuration asks for it: then
//!   the client reads the server's next response when every notice of the last one has been handled. A task that
//!   keeps a notice and waits for another watch meanwhile calls [`Watch::handled`] first.
//! - **The client lives as long as somebody can reach it.** When the last handle and the last watch
//!   are gone, the driver ends. Who only looks on holds a [`WeakClientHandle`].
//!
//! # Writing an adapter
//!
//! [`channel`] makes both ends. The driver's loop, in which only the lines about I/O differ from
//! one runtime to the next:
//!
//! ```
//! use xds_core::{Client, Time, client::Output};
//! use xds_handle::{DriverSide, Turn};
//!
//! # trait Io { fn now(&self) -> Time; fn obey(&mut self, client: &mut Client, output: Output); }
//! fn turn(client: &mut Client, side: &mut DriverSide, io: &mut impl Io) -> Turn {
//!     let turn = side.apply(client, io.now());
//!     while let Some(output) = side.poll_output(client, io.now()) {
//!         io.obey(client, output); // open, close, writable
//!     }
//!     turn
//! }
//! ```
//!
//! Before it makes the client it [prepares](prepare) the configuration: a type of the application that panics rejects a
//! resource and does not end the driver, and watches that are not polled do not hold back reading. Then it waits, for [`DriverSide::poll_ready`], for its transports and for
//! [`Client::poll_timeout`](xds_core::Client::poll_timeout), and starts over.
#![deny(missing_docs)]

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
    driver::{DriverSide, Turn},
    guarded::{guard_types, prepare},
    handle::{ClientEnded, ClientHandle, NotAdded, WeakClientHandle},
    review::{NotInUpdate, Review, Reviews},
    snapshot::{FailedSnapshot, ResourceSnapshot},
    typed::{
        InvalidTypedWatch, TypedChange, TypedNotice, TypedResource, TypedWatch, TypedWatchAll,
    },
    watch::{Watch, WatchAll},
};

/// Makes the application's end and the driver's end of a client.
#[must_use]
pub fn channel() -> (ClientHandle, DriverSide) {
    let (sender, receiver) = futures_channel::mpsc::unbounded();
    let desk = Arc::default();
    let side = DriverSide::new(receiver, Arc::clone(&desk));
    (ClientHandle::new(Arc::new(sender), desk), side)
}
