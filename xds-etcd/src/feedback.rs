//! Rejections by clients, refusals by guards and errors in values, written next to the keys with the
//! rejected resources.

use core::time::Duration;
use std::time::Instant;

use futures_util::stream;
use serde_json::json;
use tonic::Status;
use xds_source::{FeedbackPlan, FeedbackWrite, ObjectId, RejectedBy, Rejection};

use crate::{
    client::{EtcdClient, EtcdError, decode},
    layout::Layout,
    proto::{
        DeleteRangeRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, PutRequest, RequestOp,
        TxnRequest, request_op::Request,
    },
};

/// Writer of rejections by clients, of refusals by guards and of errors in values, for the authors
/// of the resources.
///
/// The key `PREFIX/@rejected/VIEW/TYPE/NAME/REPORTER` contains a JSON object. For a rejection by
/// clients, it has the fields `clients`, `count` and `message`, the error that one of the clients
/// has reported. For a change that guards refuse, which may be a deletion, it has the id of the
/// change in `refused` and the violated rules in `message`. For an invalid value, it has the field
/// `invalid` and the errors in `message`. The key is removed when the value is valid and the clients of
/// this process accept the resource. All keys of a process are attached to one lease, so they
/// disappear when the process ends.
///
/// Keys under `@rejected` are not served as resources. Each key is written at most once in 30
/// seconds, and there are at most five writes per second.
#[derive(Debug)]
pub struct Feedback {
    client: EtcdClient,
    layout: Layout,
    /// Name of this process, which distinguishes replicas.
    reporter: String,
    plan: FeedbackPlan,
    lease: Option<Lease>,
    started: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: i64,
    renewed: Instant,
}

/// Time after the end of a process until its keys are removed.
const TTL: Duration = Duration::from_secs(60);
/// Interval at which the lease is renewed.
const RENEWAL: Duration = Duration::from_secs(20);
/// Longest message in bytes.
const MESSAGE: usize = 4_096;

impl Feedback {
    /// Creates a writer for the resources below a prefix, such as `/xds`. `reporter` identifies
    /// this replica, for example by its host name.
    #[must_use]
    pub fn new(client: EtcdClient, prefix: &str, reporter: &str) -> Self {
        Self {
            client,
            layout: Layout::new(prefix),
            reporter: reporter.replace('/', "-"),
            plan: FeedbackPlan::default(),
            lease: None,
            started: Instant::now(),
        }
    }

    /// Replaces the set of current rejections, and performs the writes that are due. Call it every
    /// few seconds.
    ///
    /// # Errors
    ///
    /// Returns the first error of a write. The write is retried by a later call.
    pub async fn report(
        &mut self,
        rejections: impl IntoIterator<Item = Rejection> + Send,
    ) -> Result<(), EtcdError> {
        self.renew().await?;
        self.plan.update(rejections);
        while let Some(write) = self.plan.next(self.started.elapsed()) {
            let written = match &write {
                FeedbackWrite::Report(rejection) => self.write(rejection).await,
                FeedbackWrite::Clear(id) => self.clear(id).await,
            };
            if let Err(error) = written {
                self.plan.failed(&write);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Renews the lease. If it has ended, everything is written again.
    async fn renew(&mut self) -> Result<(), EtcdError> {
        let Some(lease) = self.lease.filter(|it| it.renewed.elapsed() >= RENEWAL) else {
            return Ok(());
        };
        let request = LeaseKeepAliveRequest { id: lease.id };
        let (member, mut responses) = self.client.keep_alive(stream::iter([request])).await?;
        let response = self.client.limited(&member, responses.message()).await?;
        let ended = || EtcdError::of_status(&member.address, Status::unavailable("no answer"));
        let response: LeaseKeepAliveResponse =
            decode(&member.address, response.ok_or_else(ended)?)?;
        self.lease = match response.ttl {
            ..=0 => {
                self.plan = FeedbackPlan::default();
                None
            }
            _ => Some(Lease { renewed: Instant::now(), ..lease }),
        };
        Ok(())
    }

    async fn write(&mut self, rejection: &Rejection) -> Result<(), EtcdError> {
        let Some(key) = self.key_of(&rejection.object) else { return Ok(()) };
        let lease = match self.lease {
            Some(lease) => lease.id,
            None => {
                let seconds = i64::try_from(TTL.as_secs()).unwrap_or(i64::MAX);
                let id = self.client.grant(seconds).await?.id;
                self.lease = Some(Lease { id, renewed: Instant::now() });
                id
            }
        };
        let message = rejection.message_within(MESSAGE);
        let value = match rejection.by {
            RejectedBy::Clients { clients, count } => {
                json!({"clients": clients, "count": count, "message": message})
            }
            RejectedBy::Guards(change) => {
                json!({"refused": change.to_string(), "message": message})
            }
            RejectedBy::Validity => json!({"invalid": true, "message": message}),
            _ => json!({"message": message}),
        };
        let put = PutRequest { key: key.into(), value: value.to_string().into(), lease };
        self.perform(Request::RequestPut(put)).await
    }

    async fn clear(&self, id: &ObjectId) -> Result<(), EtcdError> {
        let Some(key) = self.key_of(id) else { return Ok(()) };
        let delete = DeleteRangeRequest { key: key.into(), ..DeleteRangeRequest::default() };
        self.perform(Request::RequestDeleteRange(delete)).await
    }

    async fn perform(&self, request: Request) -> Result<(), EtcdError> {
        let success = vec![RequestOp { request: Some(request) }];
        self.client.txn(&TxnRequest { success, ..TxnRequest::default() }).await.map(drop)
    }

    /// Returns the key for the rejections of a resource by the clients of this process; `None` for
    /// an object that is not a single key.
    fn key_of(&self, id: &ObjectId) -> Option<String> {
        let resource = self.layout.resource_of(id.as_str())?;
        Some(format!("{}{resource}/{}", self.layout.rejected(), self.reporter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_are_beside_the_keys_of_all_generations() {
        let layout = Layout::new("/xds");
        for key in ["/xds/default/clusters/a/b", "/xds/@generations/7/default/clusters/a/b"] {
            assert_eq!(layout.resource_of(key), Some("default/clusters/a/b"));
        }
        for key in ["default/endpoints/web (registrations)", "/xds/@current", "/other/a"] {
            assert_eq!(layout.resource_of(key), None, "{key}");
        }
        // They are no resources.
        assert_eq!(layout.of_generation(None, b"/xds/@rejected/default/clusters/a/b/host"), None);
    }
}
