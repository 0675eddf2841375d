//! Serves what is in the files of a directory, and follows them, on async-std:
//! `cargo run -p xds-asyncstd --example serve_directory -- DIR 127.0.0.1:18000`
//!
//! A directory in which something is wrong changes nothing: what was served before stays. Clients are let in once there
//! is something to serve: they would take an empty first answer for the truth.

use std::{env, error::Error, io, path::Path};

use async_std::{
    net::TcpListener,
    task::{block_on, spawn_blocking},
};
use xds_asyncstd::{ServerHandle, ServerOptions, async_std::ManagementServer};
use xds_core::{
    ViewName,
    client::FilePolicy,
    server::{Readiness, ServerConfig, Snapshot},
};
use xds_format::Schema;
use xds_fs::{Place, Watch};

/// All that the files have. A name may occur once per type.
fn read(directory: &Path) -> Result<Snapshot, Box<dyn Error>> {
    let mut snapshot = Snapshot::new();
    for file in xds_fs::list_saved(directory)? {
        let source = file.path.display().to_string();
        let content = file.content.map_err(|why| format!("{source}: {why}"))?;
        let document = xds_format::parse(Schema::envoy(), &source, file.format, &content)?;
        for resource in document.resources {
            snapshot.insert(resource.type_url, resource.name, resource.bytes);
        }
    }
    Ok(snapshot)
}

/// Called in a thread of the watch's own, which may wait.
fn reload(directory: &Path, handle: &ServerHandle) {
    match read(directory) {
        Ok(snapshot) => block_on(async {
            match handle.set_snapshot(ViewName::default(), snapshot).await {
                Ok(applied) => println!("{applied:?}"),
                Err(why) => return eprintln!("nothing changes: {why}"),
            }
            // Only the first time it is news. The server has ended if it is not taken, and so does this.
            let _ = handle.set_ready().await;
        }),
        Err(why) => eprintln!("nothing changes: {why}"),
    }
}

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:18000".to_owned());
    block_on(async {
        let listener = TcpListener::bind(address).await?;
        let mut config = ServerConfig::default();
        config.readiness = Readiness::NotReady;
        let server = ManagementServer::start(config, ServerOptions::default());
        let handle = server.handle();
        println!("serving on {}", listener.local_addr()?);
        let directory = Path::new(&directory).to_owned();
        // It lasts as long as the server does.
        let _watch = spawn_blocking(move || {
            let place = Place::Directory(directory.clone());
            Watch::start(place, &FilePolicy::default(), move |_| reload(&directory, &handle))
        })
        .await?;
        server.serve(listener).await
    })
}
