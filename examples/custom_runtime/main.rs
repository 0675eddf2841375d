//! Client and server without async and gRPC: `cargo run -p xds-examples --bin custom_runtime`.
//!
//! Each has a thread with a loop around its state machine: perform the outputs, permit reading where
//! it is wanted, wait for an event or the next deadline, and pass on both.

use std::{error::Error, net::TcpListener, thread};

mod client;
mod connection;
mod server;

fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        server::serve(listener).map_err(|error| println!("the server failed: {error}"))
    });
    client::follow(address)
}
