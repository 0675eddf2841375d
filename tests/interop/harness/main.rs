//! A management server for the conformance suite `ii/xds-test-harness`, with the adapter through which
//! the suite sets its resources.
//!
//! `cargo run -p xds-tests --example interop-harness -- 127.0.0.1:17000 127.0.0.1:18000`: the first
//! address is the adapter's, the second the server's; port 0 takes a free one, and both are printed.
//! Every node has a view of its own. It ends with Ctrl-C.

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
