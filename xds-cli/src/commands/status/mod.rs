//! `xds status`: the resources that clients have.
//!
//! | file | contents |
//! |---|---|
//! | `endpoint.rs` | requests to a client status service or to Envoy's admin interface |
//! | `table.rs` | output for people |
//! | `fold.rs` | colours and folding of the output for people |
//! | `documents.rs` | output formats `json`, `ndjson` and `yaml` |
//! | `follow.rs` | `--watch` |
//! | `compare.rs`, `differences.rs` | comparison of two endpoints, and its output |

mod compare;
mod differences;
mod documents;
mod endpoint;
mod fold;
mod follow;
mod table;

use std::io;

use clap::ColorChoice;
use tokio::select;

use self::{
    endpoint::{Endpoint, Wanted},
    fold::View,
};
use crate::{
    args::{StatusArgs, StatusOutput},
    client_status::Filter,
    failure::Failure,
    output,
    stop::Stop,
    style::Style,
    text::escaped,
    upstream::{
        address::{self, ConfiguredAddress},
        servers::credentials,
    },
};

pub(crate) async fn run(args: StatusArgs, color: ColorChoice) -> Result<(), Failure> {
    args.check()?;
    let mut stop = Stop::after(args.lifetime)?;
    let work = async {
        let addresses: Vec<_> = args.addresses().collect();
        let credentials = credentials(&args.channel)?.unwrap_or_default();
        for address in &addresses {
            let address = ConfiguredAddress { address, place: None };
            address::check(&[address]).await?;
        }
        for address in &addresses {
            let named = |why| Failure::Credentials { field: args.channel.flag_of(&why), why };
            credentials.check_for(address).await.map_err(named)?;
        }
        let endpoint = |address: &&str| Endpoint::new(address, credentials.clone());
        Ok::<_, Failure>(addresses.iter().map(endpoint).collect::<Vec<_>>())
    };
    let endpoints = select! {
        () = stop.requested() => return Err(Failure::Interrupted),
        endpoints = work => endpoints?,
    };
    let filter = Filter { node: args.node.clone(), resources: args.resources().cloned().collect() };
    let view = View::of_stdout(Style::of(color, &io::stdout()));
    match (endpoints.as_slice(), args.watch) {
        ([first, second], _) => {
            let reports = async {
                let first = first.report(Wanted::Contents, &filter).await?;
                Ok::<_, Failure>([first, second.report(Wanted::Contents, &filter).await?])
            };
            let reports = select! {
                () = stop.requested() => return Err(Failure::Interrupted),
                reports = reports => reports?,
            };
            let names = args.addresses().map(escaped).collect::<Vec<_>>();
            differences::print(&names, &reports, args.output, view)
        }
        ([endpoint, ..], Some(interval)) => {
            follow::run(endpoint, interval, &filter, args.output, view, stop).await
        }
        ([endpoint, ..], None) => {
            let report = select! {
                () = stop.requested() => return Err(Failure::Interrupted),
                report = endpoint.report(Wanted::of(args.output), &filter) => report?,
            };
            let text = match args.output {
                StatusOutput::Table => table::table(&report, view),
                StatusOutput::Json => documents::json(&report),
                StatusOutput::Ndjson => documents::ndjson(&report),
                StatusOutput::Yaml => documents::yaml(&report),
            };
            if text.is_empty() { Ok(()) } else { output::print(&text) }
        }
        ([], _) => Ok(()),
    }
}
