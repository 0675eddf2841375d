//! Settings of the server, from the arguments.

use core::time::Duration;
use std::sync::Arc;

use xds_bootstrap::IdentityFiles;
use xds_core::{
    rollout::Sharing,
    server::{
        Confirmation, DrainPlan, MakeBeforeBreakPolicy, OrderingPolicy, Readiness, ServerConfig,
        SourcePolicy,
    },
};
use xds_tokio::{
    ServerOptions,
    credentials::{ClientCertificates, ServerCredentials},
    server::{AllowSans, LoadCollector, NodeFromSan},
};

use super::{admission::Admission, open_files};
use crate::{
    args::{Ordering, ServeArgs, ServerTlsArgs},
    directory::ViewSelection,
    failure::Failure,
    resource_types::JsonPayloads,
    rollouts::RolloutSettings,
};

/// Returns the configuration that the flags select.
pub(super) fn server_config(args: &ServeArgs) -> ServerConfig {
    let mut config = ServerConfig::default()
        .with_ordering(ordering(args.ordering))
        .with_readiness(Readiness::HoldRequests)
        .with_source(source_policy(args));
    config.limits.decision = Some(MAX_HOLD);
    config.limits.names_per_stream = args.limits.max_names.get();
    config.limits.names_per_connection = args.limits.max_names.get();
    config.limits.names = args.limits.max_total_names.get();
    config
}

/// Returns the policy for a source that other servers may follow too.
fn source_policy(args: &ServeArgs) -> SourcePolicy {
    let mut policy = SourcePolicy::default();
    if args.source.directory().is_none() {
        policy = policy.with_confirmation(Confirmation::EachStream);
    }
    if let Some(staleness) = args.max_staleness {
        policy = policy.with_max_staleness(staleness);
    }
    policy
}

/// Time for which requests are held while files have yet to become valid.
///
/// The sum of this and the waits of the ordering policy is less than 15 s, after which Envoy and
/// gRPC conclude that a resource does not exist.
const MAX_HOLD: Duration = Duration::from_secs(8);

/// Returns the plan by which streams are ended within this time. The end of it is left for the last
/// clients, which answer the response in flight and then close the connection.
pub(super) fn drain_plan(limit: Duration) -> DrainPlan {
    let answer_time = (limit / 4).clamp(ANSWER_TIME.min(limit), MAX_ANSWER_TIME);
    DrainPlan::new(answer_time).with_period(limit.saturating_sub(2 * answer_time))
}

/// Time that clients have at least to answer the last responses when the server shuts down.
const ANSWER_TIME: Duration = Duration::from_millis(250);
/// Limit of that time: a stream that waits for an answer gets no response to its requests.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(5);

fn ordering(chosen: Ordering) -> OrderingPolicy {
    match chosen {
        Ordering::Off => OrderingPolicy::Off,
        Ordering::Order => OrderingPolicy::OrderOnly,
        Ordering::MakeBeforeBreak => {
            OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default())
        }
    }
}

/// Returns the transport options that the flags select.
pub(super) async fn server_options(
    args: &ServeArgs,
    views: Option<Arc<ViewSelection>>,
    rollouts: Option<&RolloutSettings>,
    load_reports: Option<LoadCollector>,
    credentials: Option<ServerCredentials>,
) -> Result<ServerOptions, Failure> {
    let limits = &args.limits;
    let connections =
        open_files::connections_for(args.source.directory(), limits.max_connections.get()).await;
    let (incomplete, unread) = (limits.max_incomplete_bytes.get(), limits.max_unread_bytes.get());
    let mut options = ServerOptions::default()
        .with_payload_printer(JsonPayloads)
        .with_max_connections(connections)
        .with_max_request_bytes(limits.max_request_bytes.get())
        .with_max_incomplete_bytes(
            // A single request fits.
            (incomplete / 4).max(limits.max_request_bytes.get()),
            incomplete,
        )
        .with_max_unread_bytes(unread / 4, unread)
        .with_request_limit_advice("xds serve --max-request-bytes sets the limit")
        .with_name_limit_advice(
            "xds serve --max-names sets the limit",
            "xds serve --max-total-names sets the limit",
        );
    if let Some(connections) = limits.max_connections_per_address {
        options = options.with_max_connections_per_address(connections.get());
    }
    if let Some(collector) = load_reports {
        options = options.with_load_reports(collector);
    }
    if let Some(credentials) = credentials {
        options = options.with_credentials(credentials);
    }
    if let Some(rollouts) = rollouts {
        options = options.with_node_detail(rollouts.node_detail());
        options = options.with_rollout_sharing(Sharing::Replicas);
    }
    let node = args.tls.node_from_san.then_some(NodeFromSan);
    let admission = Admission { allowed: allowed_sans(&args.tls)?, node, views };
    Ok(match admission.is_needed() {
        true => options.with_authorizer(admission),
        false => options,
    })
}

/// Returns the names of client certificates that the flags allow; `None` for all.
pub(super) fn allowed_sans(flags: &ServerTlsArgs) -> Result<Option<AllowSans>, Failure> {
    if flags.allow_san.is_empty() {
        return Ok(None);
    }
    let allowed = AllowSans::new(&flags.allow_san);
    allowed.map(Some).map_err(|why| Failure::Usage(format!("--allow-san: {why}")))
}

/// Returns the credentials that the flags select; `None` without TLS.
pub(super) async fn credentials(
    flags: &ServerTlsArgs,
) -> Result<Option<ServerCredentials>, Failure> {
    let (Some(certificate), Some(private_key)) = (&flags.tls_cert, &flags.tls_key) else {
        return Ok(None);
    };
    let (certificate, private_key) = (certificate.clone(), private_key.clone());
    let mut credentials = ServerCredentials::tls(IdentityFiles { certificate, private_key });
    if let Some(authority) = &flags.client_ca {
        credentials = credentials.with_client_authority(authority, ClientCertificates::Required);
        credentials = credentials.with_revocation_lists(&flags.crl);
    }
    let wrong = |why| Failure::Credentials { field: flags.flag_of(&why), why };
    credentials.check().await.map_err(wrong)?;
    Ok(Some(credentials))
}
