//! Watches one resource and prints its changes, until Ctrl-C.
//!
//! Start `--bin control_plane`, then
//! `cargo run -p xds-examples --bin watch -- 127.0.0.1:18000 cds web`.

use std::{env, error::Error};

use tokio::{select, signal};
use xds_core::{
    client::{ClientConfig, Node, Notice, OpaqueType, ServerAddress},
    types,
};
use xds_tokio::{ClientOptions, client};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let server = arguments.next().unwrap_or_else(|| "127.0.0.1:18000".into());
    let short = arguments.next().unwrap_or_else(|| "cds".into());
    let name = arguments.next().unwrap_or_else(|| "web".into());
    let type_url = types::by_short_name(&short).ok_or("unknown type")?;
    client::check_address(&server)?;

    let config = ClientConfig::new(Node::new("watch"), ServerAddress::new(server))
        .with_type(OpaqueType::new(type_url));
    let client = client::connect(config, ClientOptions::default());
    let mut watch = client.watch_untyped(type_url, name.as_str());
    loop {
        select! {
            _ = signal::ctrl_c() => return Ok(()),
            Some(notice) = watch.next() => match notice? {
                Notice::Changed(Ok(resource)) => println!(
                    "{} version {}: {} bytes",
                    resource.name,
                    resource.version,
                    resource.bytes.len()
                ),
                Notice::Changed(Err(error)) => println!("removed: {error}"),
                Notice::Ambient(Some(error)) => println!("still in use, but has an error: {error}"),
                Notice::Ambient(None) => println!("error resolved"),
                _ => {}
            },
        }
    }
}
