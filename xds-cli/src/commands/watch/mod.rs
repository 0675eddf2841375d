//! `xds watch`: a client that prints what changes.
//!
//! | file | what it does |
//! |---|---|
//! | `watches.rs` | everything that is watched, as one stream of events |
//! | `events.rs` | what there is to say |
//! | `text.rs`, `ndjson.rs`, `yaml.rs` | the three ways to say it |
//! | `address.rs` | whether the server's address is one |

mod address;
mod events;
mod ndjson;
mod text;
mod watches;
mod yaml;

use std::{collections::BTreeSet, io};

use clap::ColorChoice;
use tokio::{
    select,
    time::{Duration, timeout},
};
use xds_core::{
    client::{ClientConfig, ConnectivityErrors, ManagementServer, Node, Profile, Streams},
    service::Variant,
};
use xds_tokio::{Client, ClientOptions};

use self::{events::Event, ndjson::Ndjson, text::Text, watches::Watches, yaml::Yaml};
use crate::{
    args::{Subscription, WatchArgs, WatchOutput},
    failure::Failure,
    resource_types::{EnvoyType, JsonPayloads},
    stop::Stop,
    style::Style,
};

pub(crate) async fn run(args: WatchArgs, color: ColorChoice) -> Result<(), Failure> {
    let mut stop = Stop::after(args.lifetime)?;
    select! {
        () = stop.requested() => return Ok(()),
        checked = check_addresses(&args) => checked?,
    }
    let subscriptions: BTreeSet<Subscription> = args.subscriptions.iter().cloned().collect();
    let mut printer: Box<dyn Printer> = match args.output {
        WatchOutput::Text => Box::new(Text::new(Style::of(color, &io::stdout()))),
        WatchOutput::Ndjson => Box::new(Ndjson),
        WatchOutput::Yaml => Box::new(Yaml),
    };

    let options = ClientOptions::default().with_payload_printer(JsonPayloads);
    let client = Client::connect(config(&args, &subscriptions), options);
    printer.begin(&args, &subscriptions)?;
    let mut watches = Watches::new(&client, subscriptions);
    loop {
        select! {
            () = stop.requested() => break,
            event = watches.next() => match event {
                Some(event) => printer.print(&event)?,
                None => break,
            },
        }
    }
    if let Ok(stats) = client.stats().await {
        printer.end(&stats)?;
    }
    client.shut_down();
    let _ = timeout(FAREWELL, client.ended()).await;
    Ok(())
}

async fn check_addresses(args: &WatchArgs) -> Result<(), Failure> {
    address::check(&args.server).await?;
    for fallback in &args.fallback {
        address::check(fallback).await?;
    }
    Ok(())
}

/// How long closing the stream may take.
const FAREWELL: Duration = Duration::from_millis(500);

/// A way to print what changes.
trait Printer {
    fn begin(&mut self, _args: &WatchArgs, _: &BTreeSet<Subscription>) -> Result<(), Failure> {
        Ok(())
    }

    fn print(&mut self, event: &Event) -> Result<(), Failure>;

    fn end(&mut self, _stats: &xds_core::client::ClientStats) -> Result<(), Failure> {
        Ok(())
    }
}

/// A client that does what a proxy does, except that it tells of connection trouble.
fn config(args: &WatchArgs, subscriptions: &BTreeSet<Subscription>) -> ClientConfig {
    let mut profile = Profile::envoy();
    profile.connectivity_errors = ConnectivityErrors::Reported;
    let node = Node::new(args.node.as_str());
    let variant = if args.delta { Variant::Incremental } else { Variant::StateOfTheWorld };
    let streams = if args.per_type { Streams::PerType } else { Streams::Aggregated };
    let server = |address: &String| {
        ManagementServer::new(address.as_str()).with_variant(variant).with_streams(streams)
    };
    let config = ClientConfig::new(node, server(&args.server));
    let config = args.fallback.iter().map(server).fold(config, ClientConfig::with_fallback);
    let mut types: Vec<_> = subscriptions.iter().map(|it| it.type_url.clone()).collect();
    types.dedup();
    types
        .into_iter()
        .fold(config, |config, type_url| config.with_type(EnvoyType::new(type_url)))
        .with_profile(profile)
}
