//! `xds watch`: a client that prints changes.
//!
//! | file | contents |
//! |---|---|
//! | `watches.rs` | all watches as one stream of events |
//! | `follow.rs` | references of listeners and clusters |
//! | `printer.rs` | the trait of the output formats |
//! | `text.rs`, `ndjson.rs`, `yaml.rs` | output formats |

mod follow;
mod ndjson;
mod printer;
mod text;
mod watches;
mod yaml;

use std::{collections::BTreeSet, io};

use clap::ColorChoice;
use tokio::{
    select,
    time::{Duration, timeout},
};
use xds_core::client::{FlowControl, Profile};

use self::{
    follow::Following, ndjson::WatchNdjson, printer::WatchPrinter, text::Text, watches::Watches,
    yaml::Yaml,
};
use crate::{
    args::{Subscription, WatchArgs, WatchOutput},
    failure::Failure,
    output::{self, Layout},
    stop::Stop,
    style::Style,
    upstream::{self, Connected},
};

pub(crate) async fn run(args: WatchArgs, color: ColorChoice) -> Result<(), Failure> {
    let upstream = upstream::upstream(&args.client, &args.subscriptions, NODE).await?;
    let mut stop = Stop::after(args.lifetime)?;
    let subscriptions: BTreeSet<Subscription> = args.subscriptions.iter().cloned().collect();
    output::queue_stdout(output::not_printed, output::ReaderLoss::Ends);
    let mut printer: Box<dyn WatchPrinter> = match args.output {
        WatchOutput::Text => {
            Box::new(Text::new(Style::of(color, &io::stdout()), Layout::of_stdout()))
        }
        WatchOutput::Ndjson => Box::new(WatchNdjson),
        WatchOutput::Yaml => Box::new(Yaml),
    };
    printer.begin(&upstream.server, upstream.node_id(), &subscriptions)?;
    let types: BTreeSet<_> = subscriptions.iter().map(|it| it.type_url.clone()).collect();
    let followed = if args.follow { follow::types_behind(&subscriptions) } else { Vec::new() };
    // All watches are polled, and every notification is printed.
    let adjust = |profile: &mut Profile| profile.flow_control = FlowControl::On;
    let Connected { client, sources, static_resources } =
        upstream::connect(upstream, &types, followed, adjust).await?;
    let following = sources.filter(|_| args.follow).map(Following::new);
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
                Some(event) => printer.print(&event.with_static(&static_resources))?,
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

/// Default node id.
const NODE: &str = "xds-watch";
/// Time limit for closing the stream.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(500);
