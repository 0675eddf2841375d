//! Client status discovery service for a management server's clients.

use core::{
    convert::Infallible,
    task::{Context, Poll},
};
use std::sync::Arc;

use tonic::{Response, Status, body::Body, server::NamedService};
use xds_core::{
    client::Contents,
    proto::{
        ClientStatusRequest, ClientStatusResponse, NodeMatcher, StringMatcher,
        envoy::r#type::matcher::v3::string_matcher::MatchPattern,
    },
    server::ClientStatus,
};

use super::{
    access::{CallAuthorization, CsdsAuthorizer, CsdsCaller, ReportedClient, StatusAccess},
    calls::{StatusHandler, serve},
};
use crate::{
    grpc::CSDS_SERVICE,
    runtime::BoxFuture,
    server::{ServerEnded, ServerHandle},
};

/// Service `envoy.service.status.v3.ClientStatusDiscoveryService` for the clients of a management
/// server.
///
/// For each stream of each client it reports the subscribed resources, and whether the client has
/// received and accepted their current versions.
///
/// If the server follows a source that other servers follow too, the metadata of a unary response has
/// the state of the source: [`SourceReport::of_metadata`](crate::server::SourceReport::of_metadata).
///
/// A request may select clients by node id; without node matchers it selects all. Matchers by
/// regular expression or node metadata are rejected with `INVALID_ARGUMENT`, because the server
/// keeps only the id of a node.
///
/// The service exposes the complete configuration of clients. All calls are rejected with
/// `PERMISSION_DENIED` until an [authorizer](Self::with_authorizer) is set or the service is [open
/// to everybody](Self::with_unrestricted_access). Contents of secrets are omitted unless
/// [enabled](Self::with_secrets).
// M234, M235
#[derive(Clone, Debug)]
pub struct ServerCsdsService {
    server: ServerHandle,
    contents: Contents,
    access: StatusAccess,
}

impl ServerCsdsService {
    /// Creates a service that rejects all calls and omits the contents of secrets.
    #[must_use]
    pub fn new(server: ServerHandle) -> Self {
        Self { server, contents: Contents::default(), access: StatusAccess::Nobody }
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

    /// Includes the contents of secrets, even private keys.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        self.contents = Contents::All;
        self
    }
}

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
        let ServerCsdsService { server, contents, access } = &self.service;
        let visible = self.authorization.decision(access).await?;
        let contents = match request.exclude_resource_contents {
            true => Contents::None,
            false => *contents,
        };
        let ids: Vec<IdMatcher> =
            request.node_matchers.into_iter().map(IdMatcher::of).collect::<Result<_, _>>()?;
        let is_selected = move |client: ClientStatus<'_>| {
            let (node_id, view) = (client.node_id(), client.view());
            let is_requested = ids.is_empty() || ids.iter().any(|matcher| matcher.matches(node_id));
            is_requested && visible.contains(ReportedClient { node_id, view })
        };
        let config = server.client_configs(is_selected, contents).await;
        let ended = |ended: ServerEnded| Status::unavailable(ended.to_string());
        let mut response = Response::new(ClientStatusResponse { config: config.map_err(ended)? });
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
        serve(StatusCall { service: self.clone(), authorization }, request)
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
    fn of(self, text: &str) -> String {
        match self {
            Self::Matters => text.to_owned(),
            Self::Ignored => text.to_lowercase(),
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
            Some(MatchPattern::Exact(text)) => Some(MatchPattern::Exact(case.of(&text))),
            Some(MatchPattern::Prefix(text)) => Some(MatchPattern::Prefix(case.of(&text))),
            Some(MatchPattern::Suffix(text)) => Some(MatchPattern::Suffix(case.of(&text))),
            Some(MatchPattern::Contains(text)) => Some(MatchPattern::Contains(case.of(&text))),
            None => None,
        };
        Ok(Self { pattern, case })
    }

    fn matches(&self, id: &str) -> bool {
        let id = self.case.of(id);
        match &self.pattern {
            None => true,
            Some(MatchPattern::Exact(text)) => id == *text,
            Some(MatchPattern::Prefix(text)) => id.starts_with(text),
            Some(MatchPattern::Suffix(text)) => id.ends_with(text),
            Some(MatchPattern::Contains(text)) => id.contains(text),
            Some(MatchPattern::SafeRegex(_) | MatchPattern::Custom(_)) => false,
        }
    }
}
