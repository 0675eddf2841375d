//! A management server for the conformance suite `ii/xds-test-harness`, with the adapter through
//! which the suite sets resources.
//!
//! `cargo run -p xds-tests --example interop-harness -- 127.0.0.1:17000 127.0.0.1:18000`: the first
//! address is the adapter's, the second the server's. Port 0 selects a free port; both addresses
//! are printed. Each node has its own view. The server runs until Ctrl-C.

#[path = "../../harness/adapter.rs"]
mod adapter;
mod service;

use std::{env, error::Error};

use tokio::{net::TcpListener, select, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address =
        |position, default: &str| env::args().nth(position).unwrap_or_else(|| default.to_owned());
    let adapter = TcpListener::bind(address(1, "127.0.0.1:17000")).await?;
    let listener = TcpListener::bind(address(2, "127.0.0.1:18000")).await?;
    println!("adapter on {}", adapter.local_addr()?);
    println!("serving on {}", listener.local_addr()?);
    select! {
        result = service::serve(adapter, listener) => result,
        result = signal::ctrl_c() => Ok(result?),
    }
}
