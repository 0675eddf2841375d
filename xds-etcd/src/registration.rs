//! Registration of an endpoint under a lease.

use core::time::Duration;

use xds_core::{ViewName, types};

use crate::{
    client::{EtcdClient, EtcdError},
    endpoint::Endpoint,
    layout::{Layout, ResourceKey},
    lease::LeasedKeys,
};

/// Endpoint that is registered until this value is [ended](Self::end) or dropped, or until the
/// process can no longer renew its lease.
///
/// ```no_run
/// use std::time::Duration;
/// use xds_etcd::{Endpoint, EtcdClient, EtcdOptions, Registration};
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = xds_tokio::Tokio;
/// let client = EtcdClient::new(runtime, EtcdOptions::new(["10.0.0.7:2379"]))?;
/// let endpoint = Endpoint::new("10.0.0.1", 8080).in_zone("eu", "eu-1");
/// let ttl = Duration::from_secs(10);
/// let registration =
///     Registration::start(&client, "/xds", "", "greeter", "host-1", endpoint, ttl).await?;
/// // ... serve ...
/// registration.end().await?;
/// # Ok(())
/// # }
/// ```
///
/// If the lease is lost, for example because the cluster was unreachable for longer than its time
/// to live, the endpoint is registered again under a new lease.
#[derive(Debug)]
pub struct Registration(LeasedKeys);

impl Registration {
    /// Registers an endpoint of a cluster in a view. `id` must be unique among the endpoints of the
    /// cluster. The lease expires `ttl`, at least two seconds, after its last renewal. It is
    /// renewed three times as often.
    ///
    /// # Errors
    ///
    /// Returns an error if the first registration fails.
    pub async fn start(
        client: &EtcdClient,
        prefix: &str,
        view: impl Into<ViewName>,
        cluster: &str,
        id: &str,
        endpoint: Endpoint,
        ttl: Duration,
    ) -> Result<Self, EtcdError> {
        let key = ResourceKey {
            view: view.into(),
            type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(),
            name: format!("{cluster}/{id}").as_str().into(),
        };
        let key = Layout::new(prefix).key(None, &key);
        LeasedKeys::start(client, [(key, endpoint.to_value())].into(), ttl).await.map(Self)
    }

    /// Ends the registration: the endpoint is removed at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster cannot be reached. The endpoint is then removed when the
    /// lease expires.
    pub async fn end(self) -> Result<(), EtcdError> {
        self.0.end().await
    }
}
