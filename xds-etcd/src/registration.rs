//! Registration of an endpoint under a lease.

use core::time::Duration;

use futures_util::stream;
use tokio::sync::{mpsc, watch};
use xds_core::{ViewName, types};
use xds_grpc::runtime::{SharedRuntime, Task};

use crate::{
    client::{EtcdClient, EtcdError, decode},
    endpoint::Endpoint,
    layout::{Layout, ResourceKey},
    proto::{
        LeaseKeepAliveRequest, LeaseKeepAliveResponse, PutRequest, RequestOp, TxnRequest,
        request_op::Request,
    },
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
/// If the lease is lost, for example because the cluster could not be reached for longer than its
/// time to live, the endpoint is registered again under a new one.
#[derive(Debug)]
pub struct Registration {
    client: EtcdClient,
    lease: watch::Receiver<i64>,
    _renewal: Task,
}

/// Registered endpoint with its key.
#[derive(Clone, Debug)]
struct Entry {
    client: EtcdClient,
    key: String,
    value: Endpoint,
    seconds: i64,
}

impl Registration {
    /// Registers an endpoint of a cluster in a view, under an id that is unique in the cluster. The
    /// lease ends after `ttl`, at least two seconds, unless it is renewed, which this does three
    /// times as often.
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
        let entry = Entry {
            client: client.clone(),
            key: Layout::new(prefix).key(None, &key),
            value: endpoint,
            seconds: i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX).max(2),
        };
        let (sender, lease) = watch::channel(entry.register().await?);
        let runtime = client.runtime().clone();
        let renewal = runtime.start(renew(entry, sender, runtime.clone()));
        Ok(Self { client: client.clone(), lease, _renewal: renewal })
    }

    /// Ends the registration: the endpoint is removed at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster cannot be reached. The endpoint is then removed when the lease
    /// ends.
    pub async fn end(self) -> Result<(), EtcdError> {
        let lease = *self.lease.borrow();
        self.client.revoke(lease).await
    }
}

impl Entry {
    /// Registers the endpoint under a new lease.
    async fn register(&self) -> Result<i64, EtcdError> {
        let lease = self.client.grant(self.seconds).await?.id;
        let put = PutRequest { key: self.key.clone().into(), value: self.value.to_value(), lease };
        let success = vec![RequestOp { request: Some(Request::RequestPut(put)) }];
        self.client.txn(&TxnRequest { success, ..TxnRequest::default() }).await?;
        Ok(lease)
    }

    /// Renews a lease until it is lost or a renewal fails.
    async fn keep_alive(&self, lease: i64, runtime: &SharedRuntime) -> Result<(), EtcdError> {
        let (sender, receiver) = mpsc::channel(1);
        let requests = stream::unfold(receiver, |mut receiver| async {
            let request = receiver.recv().await?;
            Some((request, receiver))
        });
        let renewal = || LeaseKeepAliveRequest { id: lease };
        // The channel has room for it. Members respond to the call only after a request.
        let _ = sender.try_send(renewal());
        let (member, mut responses) = self.client.keep_alive(requests).await?;
        let interval = Duration::from_secs(u64::try_from(self.seconds).unwrap_or(1)) / 3;
        loop {
            let answer = runtime.timeout(interval, responses.message()).await;
            let failed = |status| EtcdError::of_status(&member.address, status);
            let Some(Some(response)) = answer.transpose().map_err(failed)? else {
                self.client.leave(&member).await;
                let status = tonic::Status::unavailable("a lease is not renewed in time");
                return Err(failed(status));
            };
            let response: LeaseKeepAliveResponse = decode(&member.address, response)?;
            if response.ttl <= 0 {
                return Ok(());
            }
            wait(runtime, interval).await;
            if sender.send(renewal()).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn wait(runtime: &SharedRuntime, duration: Duration) {
    let pending = core::future::pending::<()>();
    let _ = runtime.timeout(duration, pending).await;
}

/// Renews the lease, and registers the endpoint again when it is lost.
async fn renew(entry: Entry, lease: watch::Sender<i64>, runtime: SharedRuntime) {
    let retry = Duration::from_secs(1);
    loop {
        let current = *lease.borrow();
        match entry.keep_alive(current, &runtime).await {
            Ok(()) => match entry.register().await {
                Ok(new) => {
                    lease.send_replace(new);
                    continue;
                }
                Err(why) => tracing::warn!(key = entry.key, %why, "cannot register an endpoint"),
            },
            Err(why) => tracing::warn!(key = entry.key, %why, "cannot renew a lease"),
        }
        wait(&runtime, retry).await;
    }
}
