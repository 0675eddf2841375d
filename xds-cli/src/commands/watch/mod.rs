//! `xds watch`: a client that prints what changes.
//!
//! | file | what it does |
//! |---|---|
//! | `watches.rs` | everything that is watched, as one stream of events |
//! | `events.rs` | what there is to say |
//! | `text.rs`, `ndjson.rs`, `yaml.rs` | the three ways to say it |
//! | `upstream.rs` | where to watch: the flags' servers, or a bootstrap's |
//! | `address.rs` | whether the server's address is one |

mod address;
mod events;
mod ndjson;
mod text;
mod upstream;
mod watches;
mod yaml;

use std::{collections::BTreeSet, io};

use clap::ColorChoice;
use tokio::{
    select,
    time::{Duration, timeout},
};
use xds_core::client::ClientConfig;
use xds_tokio::Client;

use self::{
    events::Event, ndjson::Ndjson, text::Text, upstream::Upstream, watches::Watches, yaml::Yaml,
};
use crate::{
    args::{Subscription, WatchArgs, WatchOutput},
    failure::Failure,
    resource_types::{JsonPayloads, Validation},
    stop::Stop,
    style::Style,
};

pub(crate) async fn run(args: WatchArgs, color: ColorChoice) -> Result<(), Failure> {
    let mut stop = Stop::after(args.lifetime)?;
    let Upstream { config, options, server } = select! {
        () = stop.requested() => return Ok(()),
        upstream = upstream::of(&args) => upstream?,
    };
    let subscriptions: BTreeSet<Subscription> = args.subscriptions.iter().cloned().collect();
    let mut printer: Box<dyn Printer> = match args.output {
        WatchOutput::Text => Box::new(Text::new(Style::of(color, &io::stdout()))),
        WatchOutput::Ndjson => Box::new(Ndjson),
        WatchOutput::Yaml => Box::new(Yaml),
    };

    // gRPC's clients leave constraints alone (X39).
    let validation = Validation::from(args.bootstrap.is_none());
    let config = with_types(config, &subscriptions, validation);
    printer.begin(&server, config.node.id(), &subscriptions)?;
    let client = Client::connect(config, options.with_payload_printer(JsonPayloads));
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

fn with_types(
    config: ClientConfig,
    subscriptions: &BTreeSet<Subscription>,
    validation: Validation,
) -> ClientConfig {
    let mut types: Vec<_> = subscriptions.iter().map(|it| it.type_url.clone()).collect();
    types.dedup();
    types.into_iter().fold(config, |config, type_url| validation.register(config, type_url))
}

/// How long closing the stream may take.
const FAREWELL: Duration = Duration::from_millis(500);

/// A way to print what changes.
trait Printer {
    fn begin(
        &mut self,
        _server: &str,
        _node: &str,
        _: &BTreeSet<Subscription>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    fn print(&mut self, event: &Event) -> Result<(), Failure>;

    fn end(&mut self, _stats: &xds_core::client::ClientStats) -> Result<(), Failure> {
        Ok(())
    }
}
