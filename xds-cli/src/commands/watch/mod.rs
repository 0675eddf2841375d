//! `xds watch`: a client that prints changes.
//!
//! | file | contents |
//! |---|---|
//! | `watches.rs` | all watches as one stream of events |
//! | `events.rs` | events |
//! | `text.rs`, `ndjson.rs`, `yaml.rs` | output formats |
//! | `servers.rs` | servers to watch, and their credentials |
//! | `upstream.rs` | servers given by the flags or by a gRPC bootstrap |
//! | `proxy.rs` | servers and static resources of a proxy bootstrap |
//! | `follow.rs` | references of listeners and clusters |
//! | `address.rs` | check of server addresses |

mod address;
mod events;
mod follow;
mod ndjson;
mod proxy;
mod servers;
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
use xds_core::client::{ClientConfig, FlowControl};
use xds_tokio::client;

use self::{
    events::WatchPrinter,
    follow::Following,
    ndjson::WatchNdjson,
    servers::{Origin, Servers, StaticResource, Upstream},
    text::Text,
    watches::Watches,
    yaml::Yaml,
};
use crate::{
    args::{Subscription, WatchArgs, WatchOutput},
    failure::Failure,
    output,
    resource_types::{JsonPayloads, Validation},
    schema::schema,
    stop::Stop,
    style::Style,
};

pub(crate) async fn run(args: WatchArgs, color: ColorChoice) -> Result<(), Failure> {
    let mut stop = Stop::after(args.lifetime)?;
    let upstream = select! {
        () = stop.requested() => return Ok(()),
        upstream = upstream::of(&args) => upstream?,
    };
    let subscriptions: BTreeSet<Subscription> = args.subscriptions.iter().cloned().collect();
    output::queue_stdout(output::not_printed, output::ReaderLoss::Ends);
    let mut printer: Box<dyn WatchPrinter> = match args.output {
        WatchOutput::Text => Box::new(Text::new(Style::of(color, &io::stdout()))),
        WatchOutput::Ndjson => Box::new(WatchNdjson),
        WatchOutput::Yaml => Box::new(Yaml),
    };
    printer.begin(&upstream.server, upstream.node_id(), &subscriptions)?;
    let Upstream { origin, static_resources, .. } = upstream;

    // gRPC clients do not check the constraints (X39).
    let validation = Validation::from(args.bootstrap.is_none());
    let mut types: BTreeSet<_> = subscriptions.iter().map(|it| it.type_url.clone()).collect();
    if args.follow {
        types.extend(follow::types_behind(&subscriptions));
    }
    let register = move |mut config: ClientConfig| {
        // All watches are polled, and every notification is printed.
        config.profile.flow_control = FlowControl::On;
        types.iter().cloned().fold(config, |config, it| validation.register(config, it))
    };
    let (client, following) = match origin {
        Origin::Servers(servers) => {
            let Servers { config, options, .. } = *servers;
            (
                client::connect(
                    register(config),
                    options.with_payload_printer(JsonPayloads).with_schema(schema()),
                ),
                None,
            )
        }
        Origin::Proxy(bootstrap, credentials) => {
            let sources = proxy::sources(*bootstrap, credentials, register, &args)?;
            (sources.main().clone(), args.follow.then(|| Following::new(sources)))
        }
    };
    let mut of_bootstrap = BTreeSet::new();
    let watched: BTreeSet<_> = subscriptions.iter().map(|it| &it.type_url).collect();
    for resource in static_resources.into_iter().filter(|it| watched.contains(&it.type_url)) {
        let StaticResource { place, type_url, bytes } = resource;
        let added = client.add_static_resource(type_url.clone(), bytes).await;
        let name = added.map_err(|why| Failure::ProxyBootstrap { place, why: why.to_string() })?;
        of_bootstrap.insert((type_url, name.as_str().to_owned()));
    }
    let mut watches = Watches::new(&client, subscriptions, following);
    loop {
        // No change is lost: a resource that changes while output is blocked is printed with its
        // newest value.
        select! {
            () = stop.requested() => break,
            room = output::room() => room?,
        }
        select! {
            () = stop.requested() => break,
            gone = output::reader_gone() => return Err(gone),
            event = watches.next() => match event {
                Some(event) => printer.print(&event.with_static(&of_bootstrap))?,
                None => break,
            },
        }
    }
    if let Ok(stats) = client.stats().await {
        printer.end(&stats)?;
    }
    watches.shut_down();
    client.shut_down();
    let _ = timeout(SHUTDOWN_LIMIT, client.ended()).await;
    Ok(())
}

/// Time limit for closing the stream.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(500);
