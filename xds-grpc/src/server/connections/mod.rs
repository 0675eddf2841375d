//! Listeners, and the connections that they accept.
//!
//! | file | content |
//! |---|---|
//! | `listener.rs` | listeners |
//! | `socket_file.rs` | socket files |
//! | `limit.rs`, `handshakes.rs` | limits of connections and of handshakes |
//! | `preface.rs` | detection of the client's protocol |
//! | `connection.rs` | a connection, from the handshake to its end |
//! | `fair_io.rs` | yields of a connection that always has data |
//! | `go_away.rs`, `frame_position.rs` | closing of a connection with a reason |

pub(crate) mod connection;
mod fair_io;
mod frame_position;
mod go_away;
mod handshakes;
pub(crate) mod limit;
pub(crate) mod listener;
mod preface;
#[cfg(unix)]
mod socket_file;
