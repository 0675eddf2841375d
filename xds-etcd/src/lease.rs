//! Keys attached to a lease that is renewed.

use core::{convert::Infallible, future::pending, time::Duration};
use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{mpsc, watch};
use xds_grpc::runtime::{SharedRuntime, Task};

use crate::{
    client::{EtcdClient, EtcdError, decode},
    proto::{
        LeaseKeepAliveRequest, LeaseKeepAliveResponse, PutRequest, RequestOp, TxnRequest,
        request_op::Request,
    },
};

/// Values by key.
pub(crate) type Values = BTreeMap<String, Bytes>;

/// Keys that exist until this value is [ended](Self::end), or until the process can no longer renew
/// their lease. If the value is dropped instead, the keys stay until the lease expires.
///
/// If the lease is lost, for example because the cluster was unreachable for longer than its time
/// to live, the keys are written again under a new lease.
#[derive(Debug)]
pub(crate) struct LeasedKeys {
    client: EtcdClient,
    /// Lease, once there is one.
    lease: watch::Receiver<Option<i64>>,
    values: watch::Sender<Values>,
    renewal: Task,
}

/// Minimum time between two writes.
const PAUSE: Duration = Duration::from_millis(200);
/// Delay before another attempt to get a new lease.
const RETRY: Duration = Duration::from_secs(1);

impl LeasedKeys {
    /// Writes keys under a lease that expires `ttl`, at least two seconds, after its last renewal.
    /// The lease is renewed three times as often.
    ///
    /// # Errors
    ///
    /// Returns an error if the first writes fail.
    pub(crate) async fn start(
        client: &EtcdClient,
        values: Values,
        ttl: Duration,
    ) -> Result<Self, EtcdError> {
        let (values, mut renewal) = Renewal::new(client, values, ttl);
        let lease = renewal.write_all().await?;
        Ok(Self::run(values, renewal, Some(lease)))
    }

    /// Writes keys like [`start`](Self::start), once the cluster is reachable.
    pub(crate) fn start_later(client: &EtcdClient, values: Values, ttl: Duration) -> Self {
        let (values, renewal) = Renewal::new(client, values, ttl);
        Self::run(values, renewal, None)
    }

    fn run(values: watch::Sender<Values>, renewal: Renewal, lease: Option<i64>) -> Self {
        let client = renewal.client.clone();
        let (sender, lease) = watch::channel(lease);
        let runtime = client.runtime().clone();
        let task = runtime.start(renewal.run(sender, runtime.clone()));
        Self { client, lease, values, renewal: task }
    }

    /// Sets the value of a key. It is written soon; if it is set several times, only the last value
    /// is written.
    pub(crate) fn set(&self, key: String, value: Bytes) {
        self.values.send_modify(|values| {
            values.insert(key, value);
        });
    }

    /// Removes the keys.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster cannot be reached. The keys then stay until the lease
    /// expires.
    pub(crate) async fn end(self) -> Result<(), EtcdError> {
        let Self { client, lease, renewal, .. } = self;
        // Otherwise it would write the keys again, under a new lease, while the call waits.
        drop(renewal);
        let lease = *lease.borrow();
        match lease {
            Some(lease) => client.revoke(lease).await,
            None => Ok(()),
        }
    }
}

/// State of the task that renews the lease.
struct Renewal {
    client: EtcdClient,
    seconds: i64,
    wanted: watch::Receiver<Values>,
    /// Values under the current lease.
    written: Values,
}

impl Renewal {
    fn new(client: &EtcdClient, values: Values, ttl: Duration) -> (watch::Sender<Values>, Self) {
        let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX).max(2);
        let (values, wanted) = watch::channel(values);
        (values, Self { client: client.clone(), seconds, wanted, written: Values::new() })
    }

    /// Renews the lease, and writes the keys again when it is lost.
    async fn run(mut self, lease: watch::Sender<Option<i64>>, runtime: SharedRuntime) {
        loop {
            let current = *lease.borrow();
            let kept = match current {
                Some(current) => self.keep_alive(current, &runtime).await,
                None => Ok(()),
            };
            let failed = match kept {
                Ok(()) => match self.write_all().await {
                    Ok(new) => {
                        lease.send_replace(Some(new));
                        continue;
                    }
                    Err(why) => why,
                },
                Err(why) => why,
            };
            let keys: Vec<_> = self.wanted.borrow().keys().cloned().collect();
            tracing::warn!(why = %failed, ?keys, "cannot keep keys under a lease");
            wait(&runtime, RETRY).await;
        }
    }

    /// Writes all keys under a new lease.
    async fn write_all(&mut self) -> Result<i64, EtcdError> {
        let lease = self.client.grant(self.seconds).await?.id;
        self.written.clear();
        self.write(lease).await?;
        Ok(lease)
    }

    /// Writes the keys whose values have changed. Cancel safe: the next call repeats writes that
    /// may not have been completed.
    async fn write(&mut self, lease: i64) -> Result<(), EtcdError> {
        let wanted = self.wanted.borrow_and_update().clone();
        let changed = wanted.iter().filter(|(key, value)| self.written.get(*key) != Some(*value));
        let puts = changed.map(|(key, value)| {
            let put = PutRequest { key: key.clone().into(), value: value.clone(), lease };
            RequestOp { request: Some(Request::RequestPut(put)) }
        });
        let success: Vec<_> = puts.collect();
        if !success.is_empty() {
            self.client.txn(&TxnRequest { success, ..TxnRequest::default() }).await?;
            self.written = wanted;
        }
        Ok(())
    }

    /// Writes changed keys until an error. Cancel safe.
    async fn write_changes(
        &mut self,
        lease: i64,
        runtime: &SharedRuntime,
    ) -> Result<Infallible, EtcdError> {
        loop {
            self.write(lease).await?;
            wait(runtime, PAUSE).await;
            if self.wanted.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }

    /// Renews a lease until it is lost or a call fails.
    async fn keep_alive(&mut self, lease: i64, runtime: &SharedRuntime) -> Result<(), EtcdError> {
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
            if let Some(failed) =
                runtime.timeout(interval, self.write_changes(lease, runtime)).await
            {
                failed?;
            }
            if sender.send(renewal()).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn wait(runtime: &SharedRuntime, duration: Duration) {
    let _ = runtime.timeout(duration, pending::<()>()).await;
}
