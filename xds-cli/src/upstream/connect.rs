//! The client of a command, from the arguments.

use std::collections::BTreeSet;

use xds_core::{
    TypeUrl,
    client::{ClientConfig, ConnectivityErrors, Profile},
};
use xds_tokio::{
    ClientHandle, ClientOptions,
    client::{self, Sources},
};

use super::{
    flags, proxy,
    servers::{Origin, Servers, StaticResource, Upstream},
};
use crate::{
    args::{ClientArgs, Subscription},
    failure::Failure,
    output::logging,
    resource_types::{JsonPayloads, Validation},
    schema::schema,
};

/// Reads all files and checks all addresses, so that errors are reported before connecting.
///
/// `node` is the node id if neither the flags nor a bootstrap state one.
pub(crate) async fn upstream(
    args: &ClientArgs,
    subscriptions: &[Subscription],
    node: &str,
) -> Result<Upstream, Failure> {
    match &args.source.proxy_bootstrap {
        Some(file) => proxy::of_bootstrap(file, args),
        None => flags::of(args, subscriptions, node).await,
    }
}

/// Running client of a command.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) client: ClientHandle,
    /// Sources of a proxy bootstrap, which the client belongs to.
    pub(crate) sources: Option<Sources>,
    /// Types and names of the static resources that the client has.
    pub(crate) static_resources: BTreeSet<(TypeUrl, String)>,
}

/// Starts the client, and adds static resources of the watched types to it.
///
/// `followed` are further types to register, and `adjust` changes the profile of each server.
pub(crate) async fn connect(
    upstream: Upstream,
    watched: &BTreeSet<TypeUrl>,
    followed: Vec<TypeUrl>,
    adjust: impl Fn(&mut Profile) + Send + Sync + 'static,
) -> Result<Connected, Failure> {
    let Upstream { origin, static_resources, is_grpc, time_limit, .. } = upstream;
    // gRPC clients do not check the constraints (X39).
    let validation = Validation::from(!is_grpc);
    let types: BTreeSet<_> = watched.iter().cloned().chain(followed).collect();
    let register = move |mut config: ClientConfig| {
        adjust(&mut config.profile);
        if reports_all_failures(&config) {
            logging::omit_client_failures();
        }
        types.iter().cloned().fold(config, |config, it| validation.register(config, it))
    };
    let (client, sources) = match origin {
        Origin::Servers(servers) => {
            let Servers { config, options, .. } = *servers;
            let options = Upstream::limited(time_limit, config.servers.len(), options);
            let options = options.with_payload_printer(JsonPayloads).with_schema(schema());
            (client::connect(register(config), options), None)
        }
        Origin::Proxy { place, bootstrap, credentials } => {
            let sources = {
                let options = Upstream::limited(time_limit, 1, ClientOptions::default());
                proxy::sources(place, *bootstrap, credentials, options, register)?
            };
            (sources.main().clone(), Some(sources))
        }
    };
    let mut of_bootstrap = BTreeSet::new();
    for resource in static_resources.into_iter().filter(|it| watched.contains(&it.type_url)) {
        let StaticResource { place, type_url, bytes } = resource;
        let added = client.add_static_resource(type_url.clone(), bytes).await;
        let name = added.map_err(|why| Failure::ProxyBootstrap { place, why: why.to_string() })?;
        of_bootstrap.insert((type_url, name.as_str().to_owned()));
    }
    Ok(Connected { client, sources, static_resources: of_bootstrap })
}

/// Whether the client reports every failure to its watchers. It does not report that of a server for
/// which there is a fallback.
fn reports_all_failures(config: &ClientConfig) -> bool {
    let lists = [&config.servers, &config.other_authorities].into_iter();
    let lists = lists.chain(config.authorities.iter().map(|it| &it.servers));
    let lists = lists.chain(config.sources.values());
    config.profile.connectivity_errors == ConnectivityErrors::Reported
        && lists.map(Vec::len).all(|servers| servers <= 1)
}
