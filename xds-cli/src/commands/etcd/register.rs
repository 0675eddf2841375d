//! `xds register`: an endpoint in etcd for as long as the command runs.

use xds_etcd::{Endpoint, Registration};

use super::{client, etcd_address, failed};
use crate::{args::RegisterArgs, failure::Failure, output, stop::Stop, text::escaped};

pub(crate) async fn register(args: &RegisterArgs) -> Result<(), Failure> {
    let address = etcd_address(&args.to)?;
    let client = client(address, &args.etcd)?;
    let endpoint = Endpoint::new(args.endpoint.ip().to_string(), args.endpoint.port())
        .in_zone(&args.region, &args.zone)
        .with_weight(args.weight);
    let id = args.id.clone().unwrap_or_else(|| args.endpoint.to_string());
    let registering = Registration::start(
        &client,
        &address.prefix,
        args.view.as_str(),
        &args.cluster,
        &id,
        endpoint,
        args.ttl,
    );
    let registration = registering.await.map_err(|why| failed(&args.to, &why))?;
    let mut stop = Stop::after(None)?;
    output::print(&format!("registered {id} in cluster {}\n", escaped(&args.cluster)))?;
    stop.requested().await;
    registration.end().await.map_err(|why| failed(&args.to, &why))
}
