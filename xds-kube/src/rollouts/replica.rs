//! Lease of this server.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use xds_core::rollout::CohortReport;

use super::objects::{REPORT, RolloutObjects, time_now};
use crate::{
    api::{KubeClient, KubeError, KubeErrorKind},
    objects::{KubeLease, Metadata},
};

/// Annotations by name.
pub(super) type Annotations = BTreeMap<&'static str, String>;

/// Time after which a server that does not renew its Lease counts as ended.
pub(super) const DURATION: Duration = Duration::from_secs(15);
/// Time between two renewals.
const RENEWAL: Duration = Duration::from_secs(4);
/// Minimum time between two writes.
const PAUSE: Duration = Duration::from_millis(300);

/// Lease that is renewed until this value is [ended](Self::end) or dropped.
#[derive(Debug)]
pub(super) struct ReplicaLease {
    lease: OwnLease,
    annotations: watch::Sender<Annotations>,
    task: JoinHandle<()>,
}

#[derive(Clone, Debug)]
struct OwnLease {
    client: KubeClient,
    objects: RolloutObjects,
    /// Name of the Lease.
    name: String,
    server: String,
}

impl ReplicaLease {
    /// Creates the Lease as soon as the cluster can be reached, and renews it.
    pub(super) fn start(
        client: KubeClient,
        objects: RolloutObjects,
        server: &str,
        mut annotations: Annotations,
    ) -> Self {
        let name = objects.replica(server);
        let lease = OwnLease { client, objects, name, server: server.to_owned() };
        annotations.entry(REPORT).or_insert_with(|| CohortReport::default().to_string());
        let (annotations, wanted) = watch::channel(annotations);
        let task = tokio::spawn(lease.clone().renew(wanted));
        Self { lease, annotations, task }
    }

    /// Sets an annotation. It is written soon; if it is set several times, only the last value is
    /// written.
    pub(super) fn set(&self, name: &'static str, value: String) {
        self.annotations.send_modify(|it| {
            it.insert(name, value);
        });
    }

    /// Deletes the Lease.
    pub(super) async fn end(self) -> Result<(), KubeError> {
        self.task.abort();
        let OwnLease { client, objects, name, .. } = &self.lease;
        let metadata = Metadata { name: name.clone(), ..Metadata::default() };
        client.delete(&objects.leases(), &metadata, &objects.said("delete", "lease", name)).await
    }
}

impl Drop for ReplicaLease {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OwnLease {
    async fn renew(self, mut wanted: watch::Receiver<Annotations>) {
        let mut last_failure = None;
        loop {
            let annotations = wanted.borrow_and_update().clone();
            match self.write(&annotations).await {
                Ok(()) => last_failure = None,
                Err(why) if last_failure.as_ref() == Some(&why) => {}
                Err(why) => {
                    tracing::warn!(%why, "cannot renew the Lease of this server");
                    last_failure = Some(why);
                }
            }
            sleep(PAUSE).await;
            if let Ok(Err(_)) = timeout(RENEWAL, wanted.changed()).await {
                return;
            }
        }
    }

    async fn write(&self, annotations: &Annotations) -> Result<(), KubeError> {
        let Self { client, objects, name, server } = self;
        let (path, seconds) = (objects.leases(), DURATION.as_secs());
        let spec = json!({
            "holderIdentity": server,
            "leaseDurationSeconds": seconds,
            "renewTime": time_now(),
        });
        let patch = json!({"metadata": {"annotations": annotations}, "spec": spec});
        match client.patch(&path, name, &objects.said("patch", "lease", name), &patch).await {
            Err(error) if error.kind() == KubeErrorKind::NotFound => {}
            patched => return patched,
        }
        let metadata = objects.metadata(name, &json!(annotations));
        let object = json!({"metadata": metadata, "spec": spec});
        client.create(&path, &objects.said("create", "lease", name), &object).await
    }
}

/// Result of checking whether the server of an expired Lease has ended.
pub(super) enum LeaseEnd {
    Ended,
    /// The server has renewed the Lease, but the watch did not report it.
    Renewed,
    /// The cluster cannot be reached.
    Unknown,
}

/// Deletes a Lease that was not renewed. The deletion fails if the Lease was renewed meanwhile.
pub(super) async fn delete_ended(
    client: &KubeClient,
    objects: &RolloutObjects,
    lease: &KubeLease,
) -> LeaseEnd {
    let said = objects.said("delete", "lease", &lease.metadata.name);
    let Err(why) = client.delete(&objects.leases(), &lease.metadata, &said).await else {
        return LeaseEnd::Ended;
    };
    match why.kind() {
        // Another server has deleted it.
        KubeErrorKind::NotFound => return LeaseEnd::Ended,
        KubeErrorKind::Conflict => return LeaseEnd::Renewed,
        _ => tracing::warn!(%why, "cannot delete the Lease of a server that does not renew it"),
    }
    if why.kind() == KubeErrorKind::Unavailable {
        return LeaseEnd::Unknown;
    }
    // Without the permission to delete, whether it was renewed can still be read.
    let Metadata { name, resource_version, .. } = &lease.metadata;
    let said = objects.said("get", "lease", name);
    match client.get::<KubeLease>(&objects.leases(), name, &said).await {
        Ok(now) if now.metadata.resource_version == *resource_version => LeaseEnd::Ended,
        Ok(_) => LeaseEnd::Renewed,
        Err(why) if why.kind() == KubeErrorKind::NotFound => LeaseEnd::Ended,
        Err(_) => LeaseEnd::Unknown,
    }
}
