//! `xds get`: a client that fetches resources once.
//!
//! | file | contents |
//! |---|---|
//! | `fetch.rs` | the first answer to a subscription |
//! | `formats.rs` | output formats |

mod fetch;
mod formats;

use std::collections::BTreeSet;

use clap::ColorChoice;
use futures_util::future::join_all;
use tokio::time::{Duration, Instant, timeout};
use xds_core::client::{ConnectivityErrors, Profile};

use self::{
    fetch::{Fetched, Limit, fetch},
    formats::Selection,
};
use crate::{
    args::{GetArgs, Subscription},
    failure::Failure,
    output,
    resource_events::WatchEvent,
    text::escaped,
    upstream::{self, Connected},
};

pub(crate) async fn run(args: GetArgs, color: ColorChoice) -> Result<(), Failure> {
    let mut subscriptions: Vec<Subscription> = Vec::new();
    for subscription in &args.subscriptions {
        if !subscriptions.contains(subscription) {
            subscriptions.push(subscription.clone());
        }
    }
    let fetched = fetch_all(&args, &subscriptions).await?;
    let selection = Selection::of(&subscriptions, &fetched);
    selection.print(args.output, color)?;
    let problems = fetched.iter().flat_map(|it| &it.problems);
    for problem in problems.filter_map(WatchEvent::problem) {
        output::print_to_stderr(&format!("xds: {}", escaped(&problem.text)));
    }
    match fetched.iter().flat_map(|it| it.shortfall).max() {
        None => Ok(()),
        Some(shortfall) => Err(Failure::NotFetched(shortfall)),
    }
}

/// Fetches all subscriptions in parallel.
async fn fetch_all(
    args: &GetArgs,
    subscriptions: &[Subscription],
) -> Result<Vec<Fetched>, Failure> {
    let longest = subscriptions.iter().map(|it| args.time_limit(it)).max().unwrap_or_default();
    let upstream = upstream::upstream(&args.client, subscriptions, NODE).await?;
    let upstream = upstream.connecting_within(longest);
    let server = upstream.server.clone();
    let types: BTreeSet<_> = subscriptions.iter().map(|it| it.type_url.clone()).collect();
    // A proxy does not report these errors, and waits.
    let adjust = |profile: &mut Profile| {
        profile.connectivity_errors = ConnectivityErrors::Reported;
    };
    let Connected { client, static_resources, .. } =
        upstream::connect(upstream, &types, Vec::new(), adjust).await?;
    let start = Instant::now();
    let limited = subscriptions.iter().map(|it| {
        let length = args.time_limit(it);
        let limit = Limit {
            end: start.checked_add(length),
            length,
            server: server.clone(),
            is_file: args.client.source.file.is_some(),
            is_polled: args.client.source.poll.is_some(),
            may_be_unanswered: args.may_be_unanswered(it),
            may_be_split: args.may_be_split(it),
        };
        fetch(&client, it, limit)
    });
    let mut fetched = join_all(limited).await;
    client.shut_down();
    let _ = timeout(SHUTDOWN_LIMIT, client.ended()).await;
    for fetched in &mut fetched {
        let resources = core::mem::take(&mut fetched.resources);
        fetched.resources =
            resources.into_iter().map(|event| event.with_static(&static_resources)).collect();
    }
    Ok(fetched)
}

/// Default node id.
const NODE: &str = "xds-get";
/// Time limit for closing the stream.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(500);
