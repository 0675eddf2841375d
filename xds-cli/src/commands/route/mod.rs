//! `xds route explain`: which route a request takes, and why.
//!
//! | file | contents |
//! |---|---|
//! | `request.rs` | the request |
//! | `resources.rs`, `dump.rs`, `server.rs` | resources from files, a dump or a server |
//! | `explain.rs` | the explanation, with `listener.rs`, `action.rs` and `clusters.rs` |
//! | `criteria.rs` | criteria of routes in words |
//! | `report.rs`, `text.rs` | output |
//! | `expect.rs`, `expect_file.rs`, `router_check.rs`, `checked.rs` | expected routes of many requests |
//!
//! Matching is done by `xds-routing`.

mod action;
mod checked;
mod clusters;
mod criteria;
mod dump;
mod expect;
mod expect_file;
mod explain;
mod json;
mod listener;
mod report;
mod request;
mod resources;
mod router_check;
mod server;
mod text;

use std::io;

use clap::ColorChoice;

use self::{
    expect::Rows,
    explain::Explainer,
    report::{Action, Explanation},
    request::Request,
    resources::RouteResources,
};
use crate::{
    args::{ExplainArgs, RouteCommand, RouteOutput},
    failure::{Failure, judged},
    output,
    style::Style,
};

pub(crate) async fn run(command: RouteCommand, color: ColorChoice) -> Result<(), Failure> {
    let RouteCommand::Explain(args) = command;
    let style = Style::of(color, &io::stdout());
    if let Some(file) = &args.expect {
        let rows = Rows::read(file, &args)?;
        let resources = read(&args, &rows.requests()).await?;
        return expect::run(&mut Explainer::new(&resources), &rows, args.output, style);
    }
    let request = Request::from_args(&args)?;
    let resources = read(&args, &[&request]).await?;
    let report = Explainer::new(&resources).explain(&request).report;
    let printed = match args.output {
        RouteOutput::Text => {
            text::format(&report, style).iter().try_for_each(|line| output::print(line))
        }
        RouteOutput::Json => output::print(&to_json(&report)),
    };
    let verdict = match is_answered(&report) {
        true => Ok(()),
        false => Err(Failure::NotRouted),
    };
    judged(printed, verdict)
}

async fn read(args: &ExplainArgs, requests: &[&Request]) -> Result<RouteResources, Failure> {
    match (&args.directory, &args.dump, &args.server) {
        (Some(directory), _, _) => resources::of_directory(directory),
        (_, Some(file), _) => dump::read(file),
        (_, _, Some(server)) => server::fetch(args, server, requests).await,
        // Rejected by the definition of the arguments.
        (None, None, None) => Err(Failure::Usage("no resources are given".to_owned())),
    }
}

fn to_json(report: &Explanation) -> String {
    // A report has only texts, numbers and lists.
    serde_json::to_string_pretty(report).unwrap_or_default()
}

/// Whether every such request gets an answer from a cluster, or a response of the route.
fn is_answered(report: &Explanation) -> bool {
    let is_answered = |action: &Action| match action {
        Action::Forward { clusters, .. } => clusters.iter().all(|it| it.cluster.is_some()),
        Action::Redirect { .. } | Action::DirectResponse { .. } => true,
        Action::Fail { .. } => false,
    };
    !report.outcomes.is_empty() && report.outcomes.iter().all(|it| is_answered(&it.action))
}
