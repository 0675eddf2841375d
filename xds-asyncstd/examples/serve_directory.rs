//! Serves the resources in the files of a directory and follows their changes, on async-std: `cargo
//! run -p xds-asyncstd --example serve_directory -- DIR 127.0.0.1:18000`
//!
//! If a file is invalid, the last valid state is still served. Clients are rejected until the first
//! valid state is loaded, because they would accept an empty first response.

use std::{env, error::Error, io, path::Path};

use async_std::{
    net::TcpListener,
    task::{block_on, spawn_blocking},
};
use xds_asyncstd::{ServerHandle, ServerOptions, async_std::ManagementServer};
use xds_core::{
    ViewName,
    client::FilePolicy,
    server::{Readiness, ServerConfig, Transaction},
};
use xds_format::Schema;
use xds_fs::{Place, Watch};

/// Reads all files. A name may occur once per type.
fn read(directory: &Path) -> Result<Transaction, Box<dyn Error>> {
    let mut snapshot = Transaction::snapshot(ViewName::default());
    for file in xds_fs::list_saved(directory)? {
        let source = file.path.display().to_string();
        let content = file.content.map_err(|why| format!("{source}: {why}"))?;
        let document = xds_format::parse(Schema::envoy(), &source, file.format, &content)?;
        for resource in document.resources {
            snapshot.set(resource.type_url, resource.name, resource.bytes);
        }
    }
    Ok(snapshot)
}

/// Loads the directory. Called on a thread of the watch, which may block.
fn reload(directory: &Path, handle: &ServerHandle) {
    match read(directory) {
        Ok(snapshot) => block_on(async {
            match handle.apply(snapshot).await {
                Ok(applied) => println!("{applied:?}"),
                Err(why) => return eprintln!("change rejected: {why}"),
            }
            // Only the first call has an effect. An error means that the server has ended.
            let _ = handle.set_ready().await;
        }),
        Err(why) => eprintln!("change rejected: {why}"),
    }
}

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:18000".to_owned());
    block_on(async {
        let listener = TcpListener::bind(address).await?;
        let config = ServerConfig::default().with_readiness(Readiness::NotReady);
        let server = ManagementServer::start(config, ServerOptions::default());
        let handle = server.handle();
        println!("serving on {}", listener.local_addr()?);
        let directory = Path::new(&directory).to_owned();
        // Kept until the server ends.
        let _watch = spawn_blocking(move || {
            let place = Place::Directory(directory.clone());
            Watch::start(place, &FilePolicy::default(), move |_| reload(&directory, &handle))
        })
        .await?;
        server.serve(listener).await
    })
}
