//! Servers that a command connects to as a client.
//!
//! | file | contents |
//! |---|---|
//! | `connect.rs` | the client, from the arguments |
//! | `servers.rs` | servers and their credentials |
//! | `flags.rs` | servers given by flags, and those of a gRPC bootstrap |
//! | `proxy.rs` | servers and static resources of a proxy bootstrap |
//! | `address.rs` | check of server addresses |

pub(crate) mod address;
mod connect;
mod flags;
mod proxy;
pub(crate) mod servers;

pub(crate) use self::connect::{Connected, connect, upstream};
