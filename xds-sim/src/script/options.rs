//! Parser for the options of a script's `client` and `server` commands.

use std::{sync::Arc, time::Duration};

use xds_core::{
    client::{
        AuthorityConfig, ClientConfig, DataErrorPolicy, DoesNotExistTimeout, Duplicates, Fallback,
        FeatureWarning, Federation, FilePolicy, FlowControl, NackVersion, Node, PollPolicy,
        Profile, ReportedErrors, RequestRate, SendNode, ServerAddress, ServerFeatures, Streams,
        VerdictSource, WildcardForm,
    },
    server::{MakeBeforeBreakPolicy, OrderingPolicy, ServerConfig, StageTimeoutAction},
    service::Variant,
};

use super::response::type_url;
use crate::{ToyType, toy::ToyReferences};

/// Builds the client configuration; also returns warnings about server features.
pub(super) fn client_config(
    options: &[(String, String)],
) -> Result<(ClientConfig, Vec<FeatureWarning>), String> {
    let option = |key: &str| options.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
    let known = [
        "profile",
        "node",
        "types",
        "wildcard",
        "gate",
        "idle",
        "jitter",
        "data-errors",
        "features",
        "rate",
        "nack-interval",
        "external",
        "tombstones",
        "name-bytes",
        "response-bytes",
        "nack-bytes",
        "error-bytes",
        "token-bytes",
        "resources",
        "bytes",
        "servers",
        "authority",
        "source",
        "streams",
        "variant",
        "fallback",
        "federation",
        "reported-errors",
        "node-in",
        "nack-version",
        "duplicates",
        "waits",
        "polls",
        "exchange",
    ];
    let of_servers = ["features@", "variant@", "streams@"];
    let is_known =
        |key: &str| known.contains(&key) || of_servers.iter().any(|option| key.starts_with(option));
    if let Some((key, _)) = options.iter().find(|(key, _)| !is_known(key)) {
        return Err(format!("unknown client option `{key}`"));
    }
    for (key, value) in options {
        let name = key.split('@').next().unwrap_or_default();
        let values: &[&str] = match name {
            "streams" => &["per-type"],
            "variant" => &["delta"],
            _ => continue,
        };
        fixed_value(key, Some(value), values)?;
    }
    let number = |key: &str| match option(key).map(str::parse::<usize>) {
        None => Ok(None),
        Some(Ok(number)) => Ok(Some(number)),
        Some(Err(_)) => Err(format!("`{key}` takes a number")),
    };
    let fixed = |key: &str, values: &[&str]| fixed_value(key, option(key), values);
    let mut profile = match option("profile").unwrap_or("grpc") {
        "grpc" => Profile::grpc(),
        "envoy" => Profile::envoy(),
        other => return Err(format!("unknown profile `{other}`")),
    };
    profile.backoff.jitter_percent = number("jitter")?.unwrap_or(0) as u32;
    if fixed("wildcard", &["explicit"])?.is_some() {
        profile.wildcard = WildcardForm::Explicit;
    }
    if fixed("gate", &["off"])?.is_some() {
        profile.flow_control = FlowControl::Off;
    }
    if fixed("federation", &["off"])?.is_some() {
        profile.federation = Federation::Off;
    }
    match fixed("fallback", &["off", "failover"])? {
        Some("off") => profile.fallback = Fallback::Off,
        Some("failover") => profile.fallback = Fallback::Failover,
        _ => {}
    }
    if fixed("reported-errors", &["off"])?.is_some() {
        profile.reported_errors = ReportedErrors::Ignored;
    }
    if fixed("nack-version", &["newest"])?.is_some() {
        profile.nack_version = NackVersion::Newest;
    }
    if fixed("duplicates", &["last-wins"])?.is_some() {
        profile.duplicates = Duplicates::LastWins;
    }
    match fixed("data-errors", &["keep", "drop-deleted", "drop"])? {
        Some("drop") => profile.data_errors = DataErrorPolicy::DropCached,
        Some("drop-deleted") => profile.data_errors = DataErrorPolicy::DropDeleted,
        Some("keep") => profile.data_errors = DataErrorPolicy::KeepCached,
        _ => {}
    }
    match option("idle") {
        Some("never") => profile.idle_timeout = None,
        Some(_) => {
            let seconds = number("idle")?.unwrap_or_default() as u64;
            profile.idle_timeout = Some(Duration::from_secs(seconds));
        }
        None => {}
    }
    let node = Node::new(option("node").unwrap_or("test"));
    let rate = option("rate").map(request_rate).transpose()?;
    let send_node = match fixed("node-in", &["every"])? {
        Some("every") => SendNode::EveryRequest,
        _ => SendNode::FirstRequest,
    };
    let polls = option("polls").map(poll_policy).transpose()?;
    let is_of_files = fixed("exchange", &["files"])?.is_some();
    let features = option("features").unwrap_or_default();
    let (_, warnings) = ServerFeatures::parse(features.split(','));
    let server = |uri: &str| {
        let own = |key: &str| option(&format!("{key}@{uri}")).or_else(|| option(key));
        let streams = match own("streams") {
            Some("per-type") => Streams::PerType,
            _ => Streams::Aggregated,
        };
        let variant = match own("variant") {
            Some("delta") => Variant::Incremental,
            _ => Variant::StateOfTheWorld,
        };
        let own = own("features").unwrap_or_default();
        let (own, _) = ServerFeatures::parse(own.split(','));
        let mut server = ServerAddress::new(uri).with_features(own);
        server.request_rate = rate;
        let server = server.with_send_node(send_node);
        let server = server.with_streams(streams).with_variant(variant);
        match &polls {
            Some(policy) => server.with_polling(policy.clone()),
            None if is_of_files => server.with_file(FilePolicy::default()),
            None => server,
        }
    };
    let mut uris = option("servers").unwrap_or("sim").split(',');
    let first = server(uris.next().unwrap_or_default());
    let mut config = ClientConfig::new(node, first).with_profile(profile);
    config = uris.fold(config, |config, uri| config.with_server(server(uri)));
    for (_, value) in options.iter().filter(|(key, _)| key == "authority") {
        let (name, uris) = value.split_once(':').unwrap_or((value, ""));
        let uris = uris.split(',').filter(|uri| !uri.is_empty());
        // A duration after the name, as in `a~20`, is the authority's does-not-exist timeout in
        // seconds.
        let (name, after) = match name.split_once('~') {
            Some((name, seconds)) => {
                let seconds =
                    seconds.parse().map_err(|_| format!("`{seconds}` is not a time in seconds"))?;
                (name, DoesNotExistTimeout::After(Duration::from_secs(seconds)))
            }
            None => (name, DoesNotExistTimeout::TypeDefault),
        };
        if name == "*" {
            config.other_authorities_timeout = after;
            config = uris.fold(config, |config, uri| config.with_other_authorities(server(uri)));
            continue;
        }
        let named = AuthorityConfig::new(name).with_does_not_exist_timeout(after);
        let authority = uris.fold(named, |to, uri| to.with_server(server(uri)));
        config = config.with_authority(authority);
    }
    for (_, value) in options.iter().filter(|(key, _)| key == "source") {
        let (name, uris) =
            value.split_once(':').ok_or("a source must be a type and its servers")?;
        let add = |config: ClientConfig, uri| config.with_source(&*type_url(name), server(uri));
        config = uris.split(',').fold(config, add);
    }
    for name in option("types").unwrap_or("lds,cds,eds,rds").split(',') {
        let is_external =
            option("external").is_some_and(|names| names.split(',').any(|other| other == name));
        let verdict = if is_external { VerdictSource::External } else { VerdictSource::Validation };
        config = config.with_type(ToyType::new(&*type_url(name)).with_verdict(verdict));
    }
    for wait in option("waits").unwrap_or_default().split(',').filter(|wait| !wait.is_empty()) {
        let wrong = || format!("`{wait}` is not a type with seconds or `never`, such as cds:20");
        let (name, after) = wait.split_once(':').ok_or_else(wrong)?;
        let after = match after {
            "never" => None,
            seconds => Some(Duration::from_secs(seconds.parse().map_err(|_| wrong())?)),
        };
        config = config.with_does_not_exist_timeout(&*type_url(name), after);
    }
    // Most scripts test responses, not the pacing of NACKs.
    let seconds = number("nack-interval")?.unwrap_or_default();
    config.nack_interval = Duration::from_secs(seconds as u64);
    let limits = &mut config.limits;
    limits.tombstones_per_type = number("tombstones")?.unwrap_or(limits.tombstones_per_type);
    limits.name_bytes = number("name-bytes")?.unwrap_or(limits.name_bytes);
    limits.nack_message_bytes = number("nack-bytes")?.unwrap_or(limits.nack_message_bytes);
    limits.error_message_bytes = number("error-bytes")?.unwrap_or(limits.error_message_bytes);
    limits.token_bytes = number("token-bytes")?.unwrap_or(limits.token_bytes);
    limits.response_bytes = number("response-bytes")?.unwrap_or(limits.response_bytes);
    limits.resources_per_type = number("resources")?.unwrap_or(limits.resources_per_type);
    limits.bytes_per_type = number("bytes")?.unwrap_or(limits.bytes_per_type);
    Ok((config, warnings))
}

/// Builds the server configuration. Clusters refer to the endpoints of the same name.
pub(super) fn server_config(options: &[(String, String)]) -> Result<ServerConfig, String> {
    let mut gated = MakeBeforeBreakPolicy::default();
    gated.references = Some(Arc::new(ToyReferences));
    let mut config = ServerConfig::default();
    let mut ordering = "order";
    for (key, value) in options {
        match (key.as_str(), value.as_str()) {
            ("ordering", name) => ordering = name,
            ("on-stuck", "hold") => gated.on_stage_timeout = StageTimeoutAction::Hold,
            ("on-stuck", "continue") => gated.on_stage_timeout = StageTimeoutAction::Continue,
            _ => return Err(format!("unknown server option `{key}={value}`")),
        }
    }
    config.ordering = match ordering {
        "off" => OrderingPolicy::Off,
        "order" => OrderingPolicy::OrderOnly,
        "make-before-break" => OrderingPolicy::MakeBeforeBreak(gated),
        other => return Err(format!("unknown ordering `{other}`")),
    };
    Ok(config)
}

/// Returns the value of an option that has only these values, and an error for any other one.
fn fixed_value<'a>(
    key: &str,
    value: Option<&'a str>,
    values: &[&str],
) -> Result<Option<&'a str>, String> {
    match value {
        Some(other) if !values.contains(&other) => {
            Err(format!("`{key}` is {}, not `{other}`", values.join(" or ")))
        }
        value => Ok(value),
    }
}

/// Parses `SECONDS[:envoy]` as a poll policy without jitter.
fn poll_policy(text: &str) -> Result<PollPolicy, String> {
    let (seconds, make) = match text.strip_suffix(":envoy") {
        Some(seconds) => (seconds, PollPolicy::envoy as fn(Duration) -> PollPolicy),
        None => (text, PollPolicy::new as fn(Duration) -> PollPolicy),
    };
    let seconds = seconds.parse().map_err(|_| format!("`{text}` is not a delay such as 5"))?;
    let mut policy = make(Duration::from_secs(seconds));
    policy.jitter_percent = 0;
    Ok(policy)
}

/// Parses `BURST/PER_SECOND`.
fn request_rate(text: &str) -> Result<RequestRate, String> {
    let wrong = || format!("`{text}` is not a rate such as 100/10");
    let (burst, per_second) = text.split_once('/').ok_or_else(wrong)?;
    let burst = burst.parse().map_err(|_| wrong())?;
    let per_second = per_second.parse().map_err(|_| wrong())?;
    RequestRate::new(burst, per_second).map_err(|why| why.to_string())
}
