//! Routing of calls as in the xDS channel, without making the calls.

use core::task::{Context, Poll};

use serde::Deserialize;
use serde_json::{Value as Json, json};
use xds_routing::{
    Call, Random,
    dependencies::{Children, Configuration, DependencyManager, Endpoints, HandleDependencies},
    router::{CallTarget, Failure},
};
use xds_tokio::ClientHandle;

/// Call of an application.
#[derive(Debug, Deserialize)]
pub(crate) struct CallToMake {
    pub(crate) path: String,
    pub(crate) metadata: Vec<(String, String)>,
}

/// Resolved configuration of a target.
pub(crate) struct Routing {
    dependencies: HandleDependencies,
    configuration: Option<Configuration>,
    random: Random,
}

impl Routing {
    pub(crate) fn new(client: ClientHandle, authority: &str) -> Self {
        let manager = DependencyManager::new("svc", authority, "node-1");
        Self {
            dependencies: HandleDependencies::new(manager, client),
            configuration: None,
            random: Random::new(1),
        }
    }

    /// Updates the configuration.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(newest)) = self.dependencies.poll_next(cx) {
            self.configuration = newest.ok();
        }
    }

    /// Returns for each call the port that it is routed to, or its status code.
    pub(crate) fn route(&mut self, calls: &[CallToMake]) -> Vec<Json> {
        let outcomes = calls.iter().map(|call| match self.port_of(call) {
            Ok(port) => json!({ "port": port }),
            Err(code) => json!({ "code": code }),
        });
        outcomes.collect()
    }

    fn port_of(&mut self, call: &CallToMake) -> Result<u16, i32> {
        const UNAVAILABLE: i32 = 14;
        let Some(configuration) = &self.configuration else { return Err(UNAVAILABLE) };
        let code = |failure: Failure| failure.code().as_i32();
        let metadata: Vec<(&str, &str)> =
            call.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let router = configuration.router();
        let call = Call::new(&call.path, &metadata[..]);
        let decision = router.decide(&call, None, &mut self.random).map_err(code)?;
        let CallTarget::Cluster { name, .. } = decision.target else { return Err(UNAVAILABLE) };
        let cluster = configuration.cluster(name).map_err(code)?;
        let Children::Leaf(leaf) = &cluster.children else { return Err(UNAVAILABLE) };
        let Endpoints::Known(endpoints) = &leaf.endpoints else { return Err(UNAVAILABLE) };
        let first = endpoints.endpoints().next().and_then(|it| it.addresses.first());
        first.map(|address| address.port).ok_or(UNAVAILABLE)
    }
}
