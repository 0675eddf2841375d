//! Client configuration from the flags or from a gRPC bootstrap.

use core::time::Duration;
use std::{collections::BTreeSet, env, path::Path};

use tracing::warn;
use xds_bootstrap::{
    Bootstrap, BootstrapError, BootstrapSource, ChannelCredentials, FeatureSwitches, NodeIdentity,
    XdsServer,
};
use xds_core::{
    client::{
        AuthorityConfig, ClientConfig, DataErrorPolicy, FilePolicy, PollPolicy, Profile,
        ServerAddress, Streams, TransportId,
    },
    service::Variant,
};
use xds_format::{Leniency, Position, YamlFile};
use xds_tokio::{ClientOptions, Credentials, credentials::CredentialsError};

use super::{
    address::{self, ConfiguredAddress},
    servers::{Origin, Servers, Upstream, credentials},
};
use crate::{
    args::{ClientArgs, Subscription},
    bootstrap_kind::{self, BootstrapKind},
    failure::Failure,
    output,
    text::{escaped, shell_word},
};

/// Reads the bootstrap and checks all addresses.
pub(super) async fn of(
    args: &ClientArgs,
    subscriptions: &[Subscription],
    node: &str,
) -> Result<Upstream, Failure> {
    let source = &args.source;
    let mut servers = match (&source.bootstrap, &source.file) {
        (Some(file), _) => of_bootstrap(file, args).await?,
        (None, Some(file)) => of_file(file, config_of(args, subscriptions, node, file)),
        (None, None) => {
            let (server, note) = source.server(|name| env::var(name).ok());
            let config = config_of(args, subscriptions, node, &server);
            let place = source.server_place(|name| env::var(name).ok());
            let servers = of_flags(args, &server, place, config).await?;
            // Only now is it known that the address contains no password.
            if let Some(note) = note {
                output::print_to_stderr(&format!("xds: {}", escaped(&note)));
            }
            servers
        }
    };
    let config = &mut servers.config;
    let of_authorities = config.authorities.iter_mut().flat_map(|it| &mut it.servers);
    for server in config.servers.iter_mut().chain(of_authorities) {
        if source.delta {
            server.variant = Variant::Incremental;
        }
        if source.per_type {
            server.streams = Streams::PerType;
        }
        if let Some(pause) = source.poll {
            *server = server.clone().with_polling(PollPolicy::new(pause.max(SHORTEST_PAUSE)));
        }
    }
    let server = servers.first.clone();
    let origin = Origin::Servers(Box::new(servers));
    let is_grpc = source.bootstrap.is_some();
    Ok(Upstream { origin, server, is_grpc, static_resources: Vec::new(), time_limit: None })
}

/// Shortest pause between a response and the next poll, which a server that holds no requests needs.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Creates a client that behaves like gRPC: it uses the valid resources of a response, fails over
/// and back, and reports connection errors. Deleted resources are removed, as in a proxy, because
/// the user watches for such changes.
async fn of_flags(
    args: &ClientArgs,
    server: &str,
    place: Option<String>,
    config: ClientConfig,
) -> Result<Servers, Failure> {
    let fallback = &args.source.fallback;
    let addresses: Vec<&str> =
        [server].into_iter().chain(fallback.iter().map(String::as_str)).collect();
    let first = ConfiguredAddress { address: server, place };
    let fallbacks = fallback.iter().map(|address| ConfiguredAddress { address, place: None });
    let written: Vec<_> = [first].into_iter().chain(fallbacks).collect();
    address::check(&written).await?;
    let mut profile = Profile::grpc();
    profile.data_errors = DataErrorPolicy::DropDeleted;
    profile.idle_timeout = None;
    let fallback = fallback.iter().map(|address| ServerAddress::new(address.as_str()));
    let config = fallback.fold(config.with_profile(profile), ClientConfig::with_server);
    let mut options = ClientOptions::default();
    if let Some(credentials) = credentials(&args.channel)? {
        let named = |why| Failure::Credentials { field: args.channel.flag_of(&why), why };
        for address in addresses {
            credentials.check_for(address).await.map_err(named)?;
        }
        options = options.with_credentials(TransportId::default(), credentials);
    }
    Ok(Servers { config, options, first: server.to_owned() })
}

/// Creates a client that reads a file as a proxy does: one invalid resource rejects the whole file.
fn of_file(file: &str, config: ClientConfig) -> Servers {
    let mut config = config.with_profile(Profile::envoy());
    config.servers = vec![ServerAddress::new(file).with_file(FilePolicy::default())];
    Servers { config, options: ClientOptions::default(), first: file.to_owned() }
}

fn config_of(
    args: &ClientArgs,
    subscriptions: &[Subscription],
    node: &str,
    server: &str,
) -> ClientConfig {
    let mut identity = NodeIdentity::default();
    identity.id = node.to_owned();
    args.node.apply(&mut identity);
    let config = ClientConfig::new(identity.to_node(), ServerAddress::new(server));
    // The server is the only one that can answer for the names.
    let authorities: BTreeSet<_> =
        subscriptions.iter().filter_map(Subscription::authority).collect();
    let authorities = authorities.into_iter().map(AuthorityConfig::new);
    authorities.fold(config, ClientConfig::with_authority)
}

/// Creates a client that behaves like gRPC with this bootstrap.
async fn of_bootstrap(file: &Path, args: &ClientArgs) -> Result<Servers, Failure> {
    let switches = FeatureSwitches::from_variables(|name| env::var(name).ok());
    let loaded = BootstrapSource::File(file.to_owned()).load(switches);
    let mut bootstrap =
        loaded.map_err(|why| kind_error(file).unwrap_or_else(|| located(file, why)))?;
    for warning in &bootstrap.warnings {
        warn!("{}: {warning}", file.display());
    }
    args.node.apply(&mut bootstrap.node);
    let place = |field: &str| format!("{}: {field}", file.display());
    let servers: Vec<_> = fields(&bootstrap).collect();
    let addresses = servers.iter().map(|(field, server)| ConfiguredAddress {
        address: &server.uri,
        place: Some(format!("{}.server_uri", place(field))),
    });
    address::check(&addresses.collect::<Vec<_>>()).await?;
    for (field, server) in servers {
        let place = place(&field);
        Credentials::from(server).check_for(&server.uri).await.map_err(|why| {
            Failure::Credentials { field: format!("{place}: {}", field_of(server, &why)), why }
        })?;
    }
    let options = ClientOptions::default().with_bootstrap(&bootstrap);
    let server = bootstrap.servers.first().map(|server| server.uri.to_string());
    let config = bootstrap.client_config();
    Ok(Servers { config, options, first: server.unwrap_or_default() })
}

/// Returns the error about a file that is not a bootstrap of gRPC; `None` if it may be one.
fn kind_error(file: &Path) -> Option<Failure> {
    let place = file.display().to_string();
    let bytes = std::fs::read(file).ok()?;
    let json = YamlFile::parse(&place, &bytes, Leniency::Envoy).ok()?.to_json();
    let why = match BootstrapKind::of(&json) {
        BootstrapKind::Envoy => {
            "this is a bootstrap of Envoy, which --proxy-bootstrap reads; a bootstrap of gRPC has \
             `xds_servers`"
                .to_owned()
        }
        BootstrapKind::Neither => bootstrap_kind::neither(&json).1,
        BootstrapKind::Grpc | BootstrapKind::IncompleteGrpc => return None,
    };
    Some(Failure::ProxyBootstrap { place, why })
}

/// Returns an error of a bootstrap of gRPC with its position in the file.
fn located(file: &Path, why: BootstrapError) -> Failure {
    let place = file.display().to_string();
    let Ok(bytes) = std::fs::read(file) else { return why.into() };
    let (position, text) = match YamlFile::parse_json(&place, &bytes, Leniency::Strict) {
        Ok(yaml) => {
            let path = why.path();
            let field = if path.is_empty() { String::new() } else { format!("{path}: ") };
            (yaml.position(path), format!("{field}{}", why.kind()))
        }
        // It begins with the place.
        Err(not_json) => {
            let text = not_json.to_string();
            let text = text.split_once(": ").map_or(&*text, |(_, text)| text).to_owned();
            (not_json.position(), text)
        }
    };
    let place = match position {
        Some(Position { line, column }) => format!("{place}:{line}:{column}"),
        None => place,
    };
    let command = format!("xds check --bootstrap {}", shell_word(&file.display().to_string()));
    Failure::ProxyBootstrap { place, why: format!("{text}; `{command}` reports all errors") }
}

/// Returns the servers of a bootstrap with the paths of their entries.
fn fields(bootstrap: &Bootstrap) -> impl Iterator<Item = (String, &XdsServer)> {
    let own = bootstrap.servers.iter().enumerate();
    let own = own.map(|(at, server)| (format!("xds_servers[{at}]"), server));
    let of_authorities = bootstrap.authorities.iter().flat_map(|(name, entry)| {
        let servers = entry.servers.iter().enumerate();
        servers.map(move |(at, it)| (format!("authorities[{name:?}].xds_servers[{at}]"), it))
    });
    own.chain(of_authorities)
}

/// Returns the field that names the file with the fault.
fn field_of(server: &XdsServer, why: &CredentialsError) -> &'static str {
    let Some(path) = why.path() else { return "" };
    let ChannelCredentials::Tls(files) = &server.channel_credentials else { return "" };
    let identity = files.identity.as_ref();
    let is = |file: Option<&std::path::PathBuf>| file.is_some_and(|file| file == path);
    if is(files.ca_certificate.as_ref()) {
        "ca_certificate_file: "
    } else if is(identity.map(|own| &own.certificate)) {
        "certificate_file: "
    } else if is(identity.map(|own| &own.private_key)) {
        "private_key_file: "
    } else {
        "jwt_token_file: "
    }
}
