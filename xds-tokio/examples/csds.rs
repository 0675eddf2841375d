//! Watches all resources of one type and serves client status discovery (CSDS) on another port,
//! until Ctrl-C.
//!
//! `cargo run -p xds-tokio --example csds -- 127.0.0.1:18000 cds 127.0.0.1:50051`, then for example
//! `grpcdebug 127.0.0.1:50051 xds status`

use std::{env, error::Error};

use tokio::{net::TcpListener, select, signal};
use tonic::transport::{Server, server::TcpIncoming};
use xds_core::{
    client::{ClientConfig, Node, OpaqueType, ServerAddress},
    types,
};
use xds_tokio::{ClientOptions, client, csds::CsdsService};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let server = arguments.next().unwrap_or_else(|| "127.0.0.1:18000".into());
    let short = arguments.next().unwrap_or_else(|| "cds".into());
    let admin = arguments.next().unwrap_or_else(|| "127.0.0.1:50051".into());
    let type_url = types::by_short_name(&short).ok_or("unknown type")?;
    client::check_address(&server)?;

    let config = ClientConfig::new(Node::new("example"), ServerAddress::new(server))
        .with_type(OpaqueType::new(type_url));
    let client = client::connect(config, ClientOptions::default());
    let mut everything = client.watch_all_untyped(type_url);

    let csds = CsdsService::new();
    csds.register("xds:///example", &client);
    let admin = TcpListener::bind(admin).await?;
    println!("serving the client status of {short} on {}", admin.local_addr()?);
    let serving = Server::builder().add_service(csds).serve_with_incoming(TcpIncoming::from(admin));
    select! {
        served = serving => Ok(served?),
        _ = signal::ctrl_c() => Ok(()),
        () = async { while everything.next().await.is_some() {} } => Err("the client ended".into()),
    }
}
