//! xDS from files, for any async runtime.
//!
//! A resource file is the simplest management server: it contains the resources of a type, and
//! clients read it again when it changes. This crate reads such files and detects changes. The
//! rules of the protocol are in `xds-core`.
//!
//! - [`FileSubscription`] is the transport of a client for one type in one file. `xds-core` decides
//!   when to read the file and interprets its content; see
//!   [`ServerAddress::with_file`](xds_core::client::ServerAddress::with_file).
//! - [`Watch`] reports changes of a file or of a directory of files, and [`list`] reads the files
//!   of a directory, for a management server that serves them.
//! - [`Export`] writes the resources of a server to files that proxies can subscribe to.
//!
//! Each subscription or watch has its own thread and its own operating system watcher, so that a
//! disk that hangs blocks nothing else. If no watcher is available, or a directory cannot be
//! watched, the files are read every 2 seconds. A [`WatchTask`] needs no thread and works with any
//! clock.
//!
//! # Detected changes
//!
//! A watch detects a rename over the old file, saving in place, deletion and
//! re-creation, a swap of any symbolic link on the path (such as `..data` in a mounted ConfigMap),
//! and a directory that is created or replaced. The kind of change does not matter: the file is
//! read again. On file systems without change notification, such as many network file systems, the
//! file is read every [`poll_interval`](xds_core::client::FilePolicy::poll_interval). Linux uses
//! inotify. Other systems use the backend that the `notify` crate chooses, such as kqueue on macOS,
//! which is not tested here.
//!
//! | file | content |
//! |---|---|
//! | `subscription.rs` | transport for one type in one file |
//! | `content.rs` | conversion of a file to a `DiscoveryResponse` |
//! | `files.rs` | consistent reads of files |
//! | `export.rs`, `access.rs` | export of resources to files, and their permissions |
//! | `watch.rs`, `signals.rs` | task that reads after changes; its signals |
//! | `settling.rs` | waits for a quiet period |
//! | `watcher.rs`, `links.rs` | relevant changes, and the directories to watch |
// S0.010, S0.011, S0.012, S0.013, S0.014, S0.015, S0.016, S0.017, S0.018

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

mod access;
mod content;
mod export;
mod files;
mod links;
mod settling;
mod signals;
mod subscription;
mod watch;
mod watcher;

pub use export::{Export, ExportFormat, Exported, FileState, Unprintable};
pub use files::{File, list, list_saved};
pub use subscription::{Content, FileSubscription};
pub use watch::{Cause, ChangeReporter, Place, Watch, WatchTask};
