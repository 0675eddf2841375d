//! Client status discovery service for a management server's clients.

use core::{
    convert::Infallible,
    task::{Context, Poll},
};
use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use tonic::{Response, Status, body::Body, server::NamedService};
use xds_core::{
    client::Contents,
    proto::{
        ClientConfig, ClientStatusRequest, ClientStatusResponse, NodeMatcher, StringMatcher,
        envoy::r#type::matcher::v3::string_matcher::MatchPattern,
    },
    server::ClientStatus,
};

use super::{
    access::{CallAuthorization, CsdsAuthorizer, CsdsCaller, ReportedClient, StatusAccess},
    calls::{MAX_REQUEST, StatusHandler, serve},
};
use crate::{
    grpc::{CSDS_SERVICE, FETCH_CLIENT_STATUS},
    runtime::BoxFuture,
    server::{RequestCount, ServerEnded, ServerHandle},
};

/// Service `envoy.service.status.v3.ClientStatusDiscoveryService` for the clients of a management
/// server.
///
/// For each stream of each client it reports the subscribed resources, and whether the client has
/// received and accepted their current versions.
///
/// If the server shares a source with other servers, the metadata of a unary response contains the
/// state of the source: [`SourceReport::from_metadata`](crate::server::SourceReport::from_metadata).
///
/// A request may select clients by node id; without node matchers it selects all. Matchers by
/// regular expression or node metadata are rejected with `INVALID_ARGUMENT`, because the server
/// keeps only the id of a node.
///
/// The service exposes the complete configuration of clients. All calls are rejected with
/// `PERMISSION_DENIED` until an [authorizer](Self::with_authorizer) is set or access is
/// [unrestricted](Self::with_unrestricted_access). The contents of secrets are omitted unless they
/// are [enabled](Self::with_secrets). Secrets are resources of type `Secret`, and those that a
/// [check](Self::with_secret_check) finds.
///
/// A request may have up to 64 matchers and 64 KiB. The first one of a call has to arrive within the
/// server's [time for requests](crate::server::ServerOptions::with_request_timeout). Incomplete requests
/// count towards the [budgets of the server](crate::server::ServerOptions::max_incomplete_bytes).
// M234, M235
#[derive(Clone, Debug)]
pub struct ServerCsdsService {
    server: ServerHandle,
    contents: Contents,
    access: StatusAccess,
    secret_check: Option<SecretCheck>,
}

impl ServerCsdsService {
    /// Creates a service that rejects all calls and omits the contents of secrets.
    #[must_use]
    pub fn new(server: ServerHandle) -> Self {
        let (contents, access) = (Contents::default(), StatusAccess::Nobody);
        Self { server, contents, access, secret_check: None }
    }

    /// Sets the authorizer that decides which clients' status a caller can read.
    // M235
    #[must_use]
    pub fn with_authorizer(mut self, authorizer: impl CsdsAuthorizer + 'static) -> Self {
        self.access = StatusAccess::Authorizer(Arc::new(authorizer));
        self
    }

    /// Allows every caller to read the status of all clients. Use this only if the address, or the
    /// gRPC server, is accessible to operators only.
    #[must_use]
    pub fn with_unrestricted_access(mut self) -> Self {
        self.access = StatusAccess::Everyone;
        self
    }

    /// Omits the contents of further resources: those for which `is_secret` returns `true`. Its
    /// arguments are the type URL and the encoded message. By default, only resources of type
    /// `Secret` are secret, although a listener or a cluster may contain a private key too.
    /// `xds_format::has_sensitive_fields` finds such resources.
    #[must_use]
    pub fn with_secret_check(
        mut self,
        is_secret: impl Fn(&str, &[u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.secret_check = Some(SecretCheck(Arc::new(is_secret)));
        self
    }

    /// Includes the contents of secrets, even private keys.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        self.contents = Contents::All;
        self
    }
}

/// Check for resources with secret contents.
#[derive(Clone)]
struct SecretCheck(Arc<IsSecret>);

type IsSecret = dyn Fn(&str, &[u8]) -> bool + Send + Sync;

impl fmt::Debug for SecretCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretCheck")
    }
}

impl SecretCheck {
    /// Removes the contents of secret resources. Clients share most contents, which are checked once.
    fn remove_from(&self, configs: &mut [ClientConfig]) {
        let mut known = BTreeMap::new();
        for config in configs.iter_mut().flat_map(|it| &mut it.generic_xds_configs) {
            let Some(any) = &config.xds_config else { continue };
            let place = (any.value.as_ptr() as usize, any.value.len());
            let is_secret =
                *known.entry(place).or_insert_with(|| self.0(&any.type_url, &any.value));
            if is_secret {
                config.xds_config = None;
                if let Some(error) = &mut config.error_state {
                    error.failed_configuration = None;
                }
            }
        }
    }
}

/// Maximum number of node matchers of a request. Each is compared with all clients.
const MAX_MATCHERS: usize = 64;

/// One call of the service.
#[derive(Clone, Debug)]
struct StatusCall {
    service: ServerCsdsService,
    authorization: CallAuthorization,
}

impl StatusHandler for StatusCall {
    async fn handle(
        &self,
        request: ClientStatusRequest,
    ) -> Result<Response<ClientStatusResponse>, Status> {
        let ServerCsdsService { server, contents, access, secret_check } = &self.service;
        let visible = self.authorization.decision(access).await?;
        let contents = match request.exclude_resource_contents {
            true => Contents::None,
            false => *contents,
        };
        let matchers = request.node_matchers.len();
        if matchers > MAX_MATCHERS {
            return Err(Status::invalid_argument(format!(
                "node_matchers: {matchers}, and at most {MAX_MATCHERS} are allowed"
            )));
        }
        let ids: Vec<IdMatcher> =
            request.node_matchers.into_iter().map(IdMatcher::of).collect::<Result<_, _>>()?;
        let is_requested = |node_id: &str| ids.is_empty() || IdMatcher::any_matches(&ids, node_id);
        let is_visible = move |client: ClientStatus<'_>| {
            let (node_id, view) = (client.node_id(), client.stable_view());
            visible.contains(ReportedClient { node_id, view })
        };
        let config = server.client_configs(is_requested, ids.len(), is_visible, contents).await;
        let ended = |ended: ServerEnded| Status::unavailable(ended.to_string());
        let mut config = config.map_err(ended)?;
        if let Some(check) = secret_check.as_ref().filter(|_| contents == Contents::WithoutSecrets)
        {
            check.remove_from(&mut config);
        }
        let mut response = Response::new(ClientStatusResponse { config });
        server.source_report().await.map_err(ended)?.add_to(response.metadata_mut());
        Ok(response)
    }
}

impl NamedService for ServerCsdsService {
    const NAME: &'static str = CSDS_SERVICE;
}

impl<B> tower_service::Service<http::Request<B>> for ServerCsdsService
where
    B: http_body::Body<Data: Send> + Send + 'static,
    B::Error: Into<Box<dyn core::error::Error + Send + Sync>> + Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let authorization = CallAuthorization::of(CsdsCaller::of(&request));
        let server = self.server.on_behalf_of(request.extensions());
        let service = Self { server, ..self.clone() };
        let count = match request.uri().path() {
            FETCH_CLIENT_STATUS => RequestCount::One,
            _ => RequestCount::Many,
        };
        let request = self.server.time_requests(request, count, MAX_REQUEST);
        serve(StatusCall { service, authorization }, request)
    }
}

/// Parsed node id matcher.
struct IdMatcher {
    /// Pattern; `None` matches every id.
    pattern: Option<MatchPattern>,
    case: Case,
}

#[derive(Clone, Copy)]
enum Case {
    Matters,
    Ignored,
}

impl Case {
    fn of(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Matters => text.into(),
            Self::Ignored => text.to_lowercase().into(),
        }
    }
}

impl IdMatcher {
    fn of(matcher: NodeMatcher) -> Result<Self, Status> {
        if !matcher.node_metadatas.is_empty() {
            return Err(Status::invalid_argument(
                "node_matchers: node_metadatas: not supported, because the server keeps no node metadata",
            ));
        }
        let StringMatcher { match_pattern, ignore_case } = matcher.node_id.unwrap_or_default();
        let case = if ignore_case { Case::Ignored } else { Case::Matters };
        let pattern = match match_pattern {
            Some(MatchPattern::SafeRegex(_) | MatchPattern::Custom(_)) => {
                return Err(Status::invalid_argument(
                    "node_matchers: node_id: only exact, prefix, suffix and contains are supported",
                ));
            }
            Some(MatchPattern::Exact(text)) => Some(MatchPattern::Exact(case.of(&text).into())),
            Some(MatchPattern::Prefix(text)) => Some(MatchPattern::Prefix(case.of(&text).into())),
            Some(MatchPattern::Suffix(text)) => Some(MatchPattern::Suffix(case.of(&text).into())),
            Some(MatchPattern::Contains(text)) => {
                Some(MatchPattern::Contains(case.of(&text).into()))
            }
            None => None,
        };
        Ok(Self { pattern, case })
    }

    fn any_matches(matchers: &[Self], id: &str) -> bool {
        // Computed once for all matchers.
        let needs_lowercase = matchers.iter().any(|it| matches!(it.case, Case::Ignored));
        let lowercase = if needs_lowercase { Case::Ignored.of(id) } else { id.into() };
        matchers.iter().any(|matcher| match matcher.case {
            Case::Matters => matcher.matches(id),
            Case::Ignored => matcher.matches(&lowercase),
        })
    }

    /// Returns whether the matcher matches an id, which is in lower case if the case is ignored.
    fn matches(&self, id: &str) -> bool {
        match &self.pattern {
            None => true,
            Some(MatchPattern::Exact(text)) => id == text,
            Some(MatchPattern::Prefix(text)) => id.starts_with(text.as_str()),
            Some(MatchPattern::Suffix(text)) => id.ends_with(text.as_str()),
            Some(MatchPattern::Contains(text)) => id.contains(text.as_str()),
            Some(MatchPattern::SafeRegex(_) | MatchPattern::Custom(_)) => false,
        }
    }
}
