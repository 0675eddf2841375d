//! Servers and static resources of a proxy bootstrap.

use std::{fs, net::SocketAddr, path::Path};

use tracing::warn;
use xds_bootstrap::{
    BootstrapError,
    envoy::{EnvoyBootstrap, GrpcTarget, Target, TransportSocket, UpstreamCluster},
};
use xds_core::client::ClientConfig;
use xds_format::{Format, Leniency, YamlFile, encode_message_with};
use xds_tokio::{
    ClientOptions, Credentials, TcpProbes,
    client::{Service, Sources},
};

use super::servers::{Origin, StaticResource, Upstream, credentials};
use crate::{
    args::ClientArgs,
    bootstrap_kind::{self, BootstrapKind},
    failure::Failure,
    resource_types::JsonPayloads,
    schema::{FILES, schema},
};

/// Reads the file as JSON or YAML, whatever its name is.
pub(super) fn of_bootstrap(file: &Path, args: &ClientArgs) -> Result<Upstream, Failure> {
    let place = file.display().to_string();
    let fail = |why: String| Failure::ProxyBootstrap { place: place.clone(), why };
    let bytes = fs::read(file).map_err(|why| Failure::Unreadable { file: file.to_owned(), why })?;
    let yaml = YamlFile::parse(&place, &bytes, Leniency::Envoy)?;
    match BootstrapKind::of(&yaml.to_json()) {
        BootstrapKind::Grpc => {
            return Err(fail("this is a bootstrap of gRPC, which --bootstrap reads".to_owned()));
        }
        BootstrapKind::Neither => return Err(fail(bootstrap_kind::neither(&yaml.to_json()).1)),
        BootstrapKind::Envoy | BootstrapKind::IncompleteGrpc => {}
    }
    let in_file = |why: BootstrapError| Failure::ProxyBootstrap {
        place: place_of(&place, &yaml, why.path()),
        why: why.to_string(),
    };
    let mut bootstrap = EnvoyBootstrap::from_json(&yaml.to_json().to_string()).map_err(in_file)?;
    for warning in &bootstrap.warnings {
        warn!("{}: {warning}", place_of(&place, &yaml, warning.path()));
    }
    args.node.apply(&mut bootstrap.node);
    let config = bootstrap.client_config().map_err(|why| fail(why.to_string()))?;
    let server = config.servers.first().map(|server| server.uri.to_string());
    // Report errors now that would otherwise only occur while connecting.
    for (_, targets) in bootstrap.transports() {
        for target in targets {
            bootstrap.upstream_cluster(target.name()).map_err(in_file)?;
            service(&bootstrap, target, credentials(&args.channel)?.as_ref()).map_err(&fail)?;
        }
    }
    let static_resources = static_resources(&bootstrap, &place, &yaml)?;
    let credentials = credentials(&args.channel)?;
    let origin = Origin::Proxy { place, bootstrap: Box::new(bootstrap), credentials };
    let server = server.unwrap_or_default();
    Ok(Upstream { origin, server, is_grpc: false, static_resources, time_limit: None })
}

/// Returns the file with line and column of a field, or of the closest parent if the
/// field is missing.
fn place_of(file: &str, yaml: &YamlFile<'_>, path: &str) -> String {
    match yaml.position(path) {
        Some(position) if !path.is_empty() => format!("{file}:{position}"),
        _ => file.to_owned(),
    }
}

/// Starts the clients that a proxy would use. Errors name the file `place`.
pub(super) fn sources(
    place: String,
    bootstrap: EnvoyBootstrap,
    credentials: Option<Credentials>,
    options: ClientOptions,
    types: impl Fn(ClientConfig) -> ClientConfig + Send + Sync + 'static,
) -> Result<Sources, Failure> {
    let options = options.with_payload_printer(JsonPayloads).with_schema(schema());
    let places = bootstrap.clone();
    let places = move |target: Target<'_>| service(&places, target, credentials.as_ref());
    Sources::connect(bootstrap, options, types, places)
        .map_err(|why| Failure::ProxyBootstrap { place, why: why.to_string() })
}

/// Returns the address, credentials and metadata of a target.
fn service(
    bootstrap: &EnvoyBootstrap,
    target: Target<'_>,
    flags: Option<&Credentials>,
) -> Result<Service, String> {
    let name = target.name();
    let (authority, metadata) = match target {
        Target::Service(service) => match &service.target {
            GrpcTarget::Envoy { authority, .. } => (&**authority, &*service.initial_metadata),
            _ => return Err(format!("{name:?}: google_grpc services are not supported")),
        },
        _ => ("", &[][..]),
    };
    let cluster =
        bootstrap.upstream_cluster(name).map_err(|why: BootstrapError| why.to_string())?;
    let cluster = cluster.ok_or_else(|| format!("static cluster {name:?} is not defined"))?;
    let credentials = match (cluster.transport_socket, flags) {
        (TransportSocket::None, _) => Credentials::insecure(),
        (TransportSocket::Configured, Some(credentials)) => credentials.clone(),
        (TransportSocket::Configured, None) => {
            return Err(format!(
                "the transport socket of cluster {name:?} is not read: specify its settings with \
                 --tls, --ca, --cert and --key"
            ));
        }
    };
    let mut service = Service::new(address(name, &cluster)?, credentials);
    if !authority.is_empty() {
        let authority =
            authority.parse().map_err(|_| format!("{authority:?} is not an authority"))?;
        service = service.with_authority(authority);
    }
    for header in metadata {
        let (name, value) = (header.key.parse(), header.value.parse());
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(format!("initial_metadata: {:?} is not a header", header.key));
        };
        service = service.with_metadata(name, value);
    }
    if let Some(probes) = cluster.tcp_keepalive {
        let probes = TcpProbes::new(probes.time, probes.interval, probes.probes);
        service = service.with_probes(probes);
    }
    Ok(service)
}

/// Returns all addresses of a cluster as one URI, tried in turn; only the first if they
/// cannot be combined.
fn address(name: &str, cluster: &UpstreamCluster) -> Result<String, String> {
    let [first, others @ ..] = &*cluster.addresses else {
        return Err(format!("cluster {name:?} has no endpoints"));
    };
    let numbers: Option<Vec<SocketAddr>> =
        cluster.addresses.iter().map(|address| address.parse().ok()).collect();
    let list = cluster.addresses.join(",");
    match numbers {
        Some(all) if all.iter().all(SocketAddr::is_ipv4) => return Ok(format!("ipv4:{list}")),
        Some(all) if all.iter().all(SocketAddr::is_ipv6) => return Ok(format!("ipv6:{list}")),
        _ => {}
    }
    if !others.is_empty() {
        warn!("cluster {name:?}: only the endpoint {first} is used");
    }
    Ok(first.clone())
}

fn static_resources(
    bootstrap: &EnvoyBootstrap,
    file: &str,
    yaml: &YamlFile<'_>,
) -> Result<Vec<StaticResource>, Failure> {
    let encode = |resource: &xds_bootstrap::envoy::StaticResource| {
        let (type_url, path) = (resource.type_url.clone(), resource.path.as_str());
        let message = resource.message.value();
        let bytes = if yaml.value(path).as_ref() == Some(message) {
            yaml.encode(schema(), type_url.message_name(), path, FILES)?
        } else {
            // Converted from API version 2: positions are those of the converted message.
            let text = message.to_string();
            let name = type_url.message_name();
            encode_message_with(schema(), "", name, Format::Json, text.as_bytes(), FILES).map_err(
                |why| {
                    let path =
                        [path, why.path()].join(if why.path().is_empty() { "" } else { "." });
                    let why = format!("{path}: {}", why.kind());
                    Failure::ProxyBootstrap { place: place_of(file, yaml, &path), why }
                },
            )?
        };
        let place = format!("{}: {path}", place_of(file, yaml, path));
        Ok(StaticResource { place, type_url, bytes: bytes.into() })
    };
    bootstrap.static_resources.iter().map(encode).collect()
}
