//! Listeners, and the connections that they accept.
//!
//! | file | content |
//! |---|---|
//! | `listener.rs` | listeners |
//! | `socket_file.rs` | socket files |
//! | `limit.rs`, `handshakes.rs` | limits of connections and of handshakes |
//! | `preface.rs` | detection of the client's protocol |
//! | `connection.rs` | a connection, from the handshake to its end |
//! | `http2_server.rs` | a server for any service, whose connections are configured one by one |
//! | `fair_io.rs` | yields of a connection that always has data |
//! | `go_away.rs`, `frame_position.rs` | closing of a connection with a reason |

pub(crate) mod connection;
mod fair_io;
mod frame_position;
mod go_away;
mod handshakes;
pub(crate) mod http2_server;
pub(crate) mod limit;
pub(crate) mod listener;
mod preface;
#[cfg(unix)]
mod socket_file;
