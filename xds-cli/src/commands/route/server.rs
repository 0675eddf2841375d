//! Resources of a management server, fetched as a client of it.

use std::{collections::BTreeSet, future::poll_fn, pin::Pin};

use futures_core::Stream;
use tokio::time::{Instant, timeout_at};
use xds_core::{
    client::{
        AuthorityConfig, Change, ClientConfig, Node, Notice, Profile, ServerAddress, TransportId,
        WatchErrorKind,
    },
    types,
    xdstp::Authority,
};
use xds_tokio::{ClientHandle, ClientOptions, client};

use super::{
    explain::Explainer,
    request::Request,
    resources::{RouteResources, TYPES, noun},
};
use crate::{
    args::ExplainArgs,
    failure::Failure,
    output::{self, logging},
    resource_events::Problem,
    resource_types::Validation,
    text::escaped,
    upstream::{
        address::{self, ConfiguredAddress},
        servers,
    },
};

/// Maximum number of resources that are fetched by name.
const MOST_RESOURCES: usize = 10_000;

/// Fetches the resources that the requests need: listeners, routes, clusters and endpoints.
pub(super) async fn fetch(
    args: &ExplainArgs,
    server: &str,
    requests: &[&Request],
) -> Result<RouteResources, Failure> {
    let deadline = Instant::now() + args.timeout;
    let client = connect(args, server, requests).await?;
    let unreached =
        |why: &str| Failure::Unreached { address: server.to_owned(), why: why.to_owned() };
    let mut resources = RouteResources::default();
    // A proxy subscribes to all listeners, a gRPC client to the one of its target.
    if requests.iter().any(|it| it.listener.is_none() && it.route_config.is_none()) {
        let fetching = all_listeners(&client, &mut resources);
        let fetched = timeout_at(deadline, fetching).await;
        fetched.map_err(|_| unreached("no answer in time"))?.map_err(|why| unreached(&why))?;
    }
    let mut asked = BTreeSet::new();
    loop {
        let mut needed = BTreeSet::new();
        {
            let mut explainer = Explainer::new(&resources);
            for request in requests {
                needed.extend(explainer.explain(request).missing);
            }
        }
        needed.retain(|it| !asked.contains(it));
        if needed.is_empty() || asked.len() > MOST_RESOURCES {
            return Ok(resources);
        }
        // All watches are started before the first is awaited.
        let watches: Vec<_> = needed
            .iter()
            .map(|(url, name)| (*url, name, client.watch_untyped(*url, name.as_str())))
            .collect();
        for (type_url, name, mut watch) in watches {
            // Without an answer the resource counts as missing: state of the world has no other.
            match timeout_at(deadline, first_answer(&mut watch)).await {
                Ok(Ok(bytes)) => resources.insert(type_url, name, bytes),
                Ok(Err(why)) if why.is_connection => return Err(unreached(&why.text)),
                Ok(Err(why)) => {
                    let text = format!("{} `{name}`: {}", noun(type_url), why.text);
                    output::print_to_stderr(&format!("xds: {}", escaped(&text)));
                }
                Err(_) => {}
            }
        }
        asked.extend(needed);
    }
}

/// Reason why a resource has no value.
struct NoValue {
    text: String,
    is_connection: bool,
}

async fn first_answer(watch: &mut xds_tokio::Watch) -> Result<bytes::Bytes, NoValue> {
    loop {
        match next(watch).await {
            Some(Ok(Notice::Changed(Ok(resource)))) => return Ok(resource.bytes),
            Some(Ok(Notice::Changed(Err(error)))) => {
                let is_connection = matches!(error.kind(), WatchErrorKind::Unavailable(_));
                return Err(NoValue { text: Problem::from(error).text, is_connection });
            }
            Some(Ok(_)) => {}
            Some(Err(invalid)) => {
                return Err(NoValue { text: invalid.to_string(), is_connection: false });
            }
            None => {
                let text = "the client has ended".to_owned();
                return Err(NoValue { text, is_connection: true });
            }
        }
    }
}

async fn all_listeners(
    client: &ClientHandle,
    resources: &mut RouteResources,
) -> Result<(), String> {
    let mut watch = client.watch_all_untyped(types::LISTENER);
    while let Some(change) = next(&mut watch).await {
        match change.map_err(|why| why.to_string())? {
            Change::Resource { name, result: Ok(resource) } => {
                resources.insert(types::LISTENER, name.as_str(), resource.bytes);
            }
            Change::Collection(result) => {
                return result.map_err(|why| Problem::from(why).text);
            }
            _ => {}
        }
    }
    Err("the client has ended".to_owned())
}

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

async fn connect(
    args: &ExplainArgs,
    server: &str,
    requests: &[&Request],
) -> Result<ClientHandle, Failure> {
    address::check(&[ConfiguredAddress { address: server, place: None }]).await?;
    logging::omit_client_failures();
    let mut options = servers::connecting_within(args.timeout, ClientOptions::default());
    if let Some(credentials) = servers::credentials(&args.channel)? {
        let named = |why| Failure::Credentials { field: args.channel.flag_of(&why), why };
        credentials.check_for(server).await.map_err(named)?;
        options = options.with_credentials(TransportId::default(), credentials);
    }
    let config = ClientConfig::new(Node::new(args.node.as_str()), ServerAddress::new(server));
    // The server is the only one that can answer for the names.
    let names = requests.iter().filter_map(|it| it.listener.as_deref());
    let authorities: BTreeSet<_> = names
        .filter_map(|name| match Authority::of(name) {
            Ok(Authority::Named(name)) => Some(name),
            _ => None,
        })
        .collect();
    let authorities = authorities.into_iter().map(AuthorityConfig::new);
    let config =
        authorities.fold(config.with_profile(Profile::grpc()), ClientConfig::with_authority);
    let config =
        TYPES.into_iter().fold(config, |config, it| Validation::Off.register(config, it.into()));
    Ok(client::connect(config, options))
}
