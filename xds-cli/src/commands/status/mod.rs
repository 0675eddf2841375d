//! `xds status`: the resources that clients have.
//!
//! | file | contents |
//! |---|---|
//! | `endpoint.rs` | requests to a client status service or to Envoy's admin interface |
//! | `table.rs` | output for people |
//! | `fold.rs` | colours and folding of the output for people |
//! | `documents.rs` | output formats `json`, `ndjson` and `yaml` |
//! | `source.rs` | state of the source of a management server |
//! | `follow.rs`, `changes.rs` | `--watch`, and the changes of one endpoint |
//! | `compare.rs`, `differences.rs` | comparison of two endpoints, and its output |
//! | `replicas/` | several replicas as one status |

mod changes;
mod compare;
mod differences;
mod documents;
mod endpoint;
mod fold;
mod follow;
mod replicas;
mod source;
mod table;

use std::io;

use clap::ColorChoice;
use futures_util::future::join;

use self::{
    changes::changed_lines,
    endpoint::{Endpoint, Wanted},
    fold::View,
    follow::Followed,
    replicas::Replicas,
};
use crate::{
    args::{StatusArgs, StatusOutput},
    client_status::{Filter, StatusReport},
    failure::Failure,
    output,
    stop::TimeLimit,
    style::Style,
    text::escaped,
    upstream::{
        address::{self, ConfiguredAddress},
        servers::credentials,
    },
};

pub(crate) async fn run(args: StatusArgs, color: ColorChoice) -> Result<(), Failure> {
    args.check()?;
    let limit = TimeLimit::after(args.lifetime);
    let endpoints = endpoints(&args).await?;
    let filter = Filter { node: args.node.clone(), resources: args.resources().cloned().collect() };
    let view = View::of_stdout(Style::of(color, &io::stdout()));
    if args.is_of_replicas() {
        let replicas = Replicas { endpoints: &endpoints, filter: &filter, format: args.output };
        return match args.watch {
            Some(interval) => follow::run(&replicas, interval, args.output, view, limit).await,
            None => replicas.print(view).await,
        };
    }
    match (endpoints.as_slice(), args.watch) {
        ([first, second], _) => {
            let first = first.report(Wanted::Contents, &filter);
            let (first, second) = join(first, second.report(Wanted::Contents, &filter)).await;
            let reports = [first?, second?];
            let names = args.addresses().map(escaped).collect::<Vec<_>>();
            differences::print(&names, &reports, args.output, view)
        }
        ([endpoint, ..], watch) => {
            let clients = Clients { endpoint, filter: &filter, format: args.output };
            if let Some(interval) = watch {
                return follow::run(&clients, interval, args.output, view, limit).await;
            }
            let report = clients.read().await?;
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

/// Checks the addresses and the credentials.
async fn endpoints(args: &StatusArgs) -> Result<Vec<Endpoint>, Failure> {
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
    let endpoint = |address: &&str| Endpoint::new(address, credentials.clone(), args.timeout);
    Ok(addresses.iter().map(endpoint).collect())
}

/// Clients that one endpoint reports.
#[derive(Debug)]
struct Clients<'a> {
    endpoint: &'a Endpoint,
    filter: &'a Filter,
    format: StatusOutput,
}

impl Followed for Clients<'_> {
    type Report = StatusReport;

    fn name(&self) -> String {
        self.endpoint.address().to_owned()
    }

    async fn read(&self) -> Result<StatusReport, Failure> {
        self.endpoint.report(Wanted::of(self.format), self.filter).await
    }

    fn table(&self, report: &StatusReport, view: View) -> String {
        table::table(report, view)
    }

    fn changes(
        &self,
        before: Option<&StatusReport>,
        report: &StatusReport,
        view: View,
    ) -> Vec<String> {
        changed_lines(before, report, self.format, view)
    }
}
