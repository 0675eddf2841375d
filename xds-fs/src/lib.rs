//! xDS from files, without a runtime of its own.
//!
//! A file of resources is the simplest management server there is: it says what there is of a type, and
//! says it again when it changes (S0.010-S0.018). This crate reads such files and notices that they have
//! changed, and has no rule of the protocol:
//!
//! - [`FileSubscription`] is the transport of a client of one type in one file: `xds-core` decides when the
//!   file is asked for and what its content means, see
//!   [`ManagementServer::with_files`](xds_core::client::ManagementServer::with_files).
//! - [`Watch`] tells that something happened to a file or to a directory of files, and [`list`] reads the
//!   files of a directory, for whoever serves them.
//! - [`Export`] is the other way round: what a server has, as files from which proxies subscribe.
//!
//! The first two work in a thread of their own for each file or directory, so that a disk that hangs holds nobody
//! up, and have a watcher of the operating system each. Where there are no more of those to be had, they look
//! every two seconds.
//!
//! # What is noticed
//!
//! Another file that is renamed over the old one, saving in place, deleting and creating again, a swap of
//! any symbolic link on the way to the file (as of `..data` in a mounted ConfigMap), a directory that
//! comes to be, or is put in the place of another. What happened is not asked: the file is read again. Where the
//! operating system notices nothing, as on many file systems over a network, the file is looked at every
//! [`look_anyway`](xds_core::client::FilePolicy::look_anyway). On Linux that is inotify; elsewhere it is what the
//! `notify` package chooses, kqueue on macOS, which is not tested here.
//!
//! | file | what it does |
//! |---|---|
//! | `subscription.rs` | one type in one file, as contents that are polled |
//! | `content.rs` | a file into a `DiscoveryResponse` |
//! | `files.rs` | what is in files at one moment |
//! | `export.rs`, `access.rs` | a file of each type, for others to read; who may |
//! | `watch.rs` | the thread that waits until something happened, and then nothing more for a moment |
//! | `watcher.rs`, `links.rs` | which changes count, and where they are looked for |

#![deny(missing_docs)]

mod access;
mod content;
mod export;
mod files;
mod links;
mod subscription;
mod watch;
mod watcher;

pub use export::{Export, ExportFormat, Exported, FileState, Unprintable};
pub use files::{File, list, list_saved};
pub use subscription::{Content, FileSubscription};
pub use watch::{Cause, Place, Watch};
