//! The same service as a management server answers it: what each of its clients has been sent.

use core::{
    convert::Infallible,
    task::{Context, Poll},
};

use tonic::{Status, body::Body, server::NamedService};
use xds_core::{
    client::Contents,
    proto::{
        ClientStatusRequest, ClientStatusResponse, NodeMatcher, StringMatcher,
        envoy::r#type::matcher::v3::string_matcher::MatchPattern,
    },
};

use super::calls::{Answers, BoxFuture, serve};
use crate::{grpc::CSDS_SERVICE, server::ServerHandle};

/// The service `envoy.service.status.v3.ClientStatusDiscoveryService`, with both of its methods, as a
/// management server answers it (M234): for each stream of each client, which resources it subscribes to,
/// and whether it has been sent them as they are now and has accepted them.
///
/// A question may say which clients it is about, by their node ids; one that says nothing is about all of
/// them. Matchers by regular expression and by metadata are refused with `INVALID_ARGUMENT`: of a client's
/// node the server keeps the id alone.
///
/// Whoever can call it reads the whole configuration of everybody, so mount it where only operators come.
/// The contents of secrets are left out even so, unless [asked for](Self::with_secrets).
#[derive(Clone, Debug)]
pub struct ServerCsdsService {
    server: ServerHandle,
    contents: Contents,
}

impl ServerCsdsService {
    /// A service that tells of the clients of a server, and never of what is inside secrets.
    #[must_use]
    pub fn new(server: ServerHandle) -> Self {
        Self { server, contents: Contents::default() }
    }

    /// Tells what is inside secrets as well, private keys included.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        self.contents = Contents::All;
        self
    }
}

impl Answers for ServerCsdsService {
    async fn answer(&self, request: ClientStatusRequest) -> Result<ClientStatusResponse, Status> {
        let contents = match request.exclude_resource_contents {
            true => Contents::None,
            false => self.contents,
        };
        let ids: Vec<IdMatcher> =
            request.node_matchers.into_iter().map(IdMatcher::of).collect::<Result<_, _>>()?;
        let is_meant = move |id: &str| ids.is_empty() || ids.iter().any(|matcher| matcher.fits(id));
        let config = self.server.client_configs(is_meant, contents).await;
        let config = config.map_err(|ended| Status::unavailable(ended.to_string()))?;
        Ok(ClientStatusResponse { config })
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
    type Future = BoxFuture<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        serve(self.clone(), request)
    }
}

/// Which node ids are meant.
struct IdMatcher {
    /// `None` fits every id.
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
                "node_matchers: node_metadatas: the server keeps no metadata of nodes",
            ));
        }
        let StringMatcher { match_pattern, ignore_case } = matcher.node_id.unwrap_or_default();
        let case = if ignore_case { Case::Ignored } else { Case::Matters };
        let pattern = match match_pattern {
            Some(MatchPattern::SafeRegex(_) | MatchPattern::Custom(_)) => {
                return Err(Status::invalid_argument(
                    "node_matchers: node_id: only exact, prefix, suffix and contains are understood",
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

    fn fits(&self, id: &str) -> bool {
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
