//! State of rollouts in a cluster, which the servers that follow it share.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the state, and the resources that it names |
//! | `objects.rs` | names of the objects, their labels and annotations |
//! | `replica.rs` | Lease of this server |
//! | `news.rs` | watch of the state and of the other servers |

mod news;
mod objects;
mod replica;

use core::fmt;
use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use xds_core::rollout::{CohortReport, RolloutId, RolloutState, StoreResult};
use xds_source::{
    ContentsManifest, EndedRollout, MAX_ENDED, ReportedProgress, RolloutStore, SourceError,
    StoreFuture, StoreWatch, StoredResource,
};

use self::{
    objects::{
        HISTORY, ID_LABEL, MANIFEST, PART, PROGRESS, RolloutObjects, STATE, parse_state, time_now,
    },
    replica::{Annotations, ReplicaLease},
};
use crate::{
    api::{KubeClient, KubeError, KubeErrorKind},
    objects::{ConfigMap, KubeLease, Metadata},
};

/// State of rollouts in a namespace of a cluster: a [`RolloutStore`] shared by the servers that
/// follow its objects.
///
/// | object | content |
/// |---|---|
/// | Lease `NAME` | the [`RolloutState`] and the ended rollouts as annotations; the holder is the server that stored the state |
/// | Lease `NAME-SERVER` | client counts and progress of a server as annotations, while the server renews the Lease |
/// | ConfigMaps `NAME-N` and `NAME-N-SERVER-PART` | all resources of the rollout with id N |
///
/// All of them have the label `xds-rollout` with the name. A state is only replaced if the Lease
/// has not changed since it was read, so servers agree without an election.
pub struct KubeRollouts {
    client: KubeClient,
    objects: RolloutObjects,
    /// Name of this server.
    server: String,
    own: Mutex<Participation>,
    /// Servers whose existence was reported.
    known: Arc<Mutex<BTreeSet<Arc<str>>>>,
}

/// Whether this server takes part in the rollouts.
enum Participation {
    /// The server does not take part yet. These annotations are written once it does.
    Planned(Annotations),
    Leased(Box<ReplicaLease>),
}

impl Default for Participation {
    fn default() -> Self {
        Self::Planned(Annotations::default())
    }
}

impl fmt::Debug for KubeRollouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeRollouts")
            .field("client", &self.client)
            .field("objects", &self.objects)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Maximum size of a part in bytes. Kubernetes limits a ConfigMap to 1 MiB.
const PART_BYTES: usize = 900 << 10;
/// Maximum size of the history in bytes. Kubernetes limits all annotations of an object together to
/// 256 KiB.
const HISTORY_BYTES: usize = 128 << 10;
/// Number of attempts to replace a state that other servers replace concurrently.
const ATTEMPTS: u32 = 5;

impl KubeRollouts {
    /// Returns the store with this name, such as `xds-rollout`, in a namespace. `server` identifies
    /// this server among those that share the store. In a Pod, use the name of the Pod.
    #[must_use]
    pub fn new(client: KubeClient, namespace: &str, name: &str, server: &str) -> Self {
        let objects = RolloutObjects::new(namespace, name);
        let server = objects::dns_name(server);
        Self { client, objects, server, own: Mutex::default(), known: Arc::default() }
    }

    fn own(&self) -> MutexGuard<'_, Participation> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read_lease(&self) -> Result<Option<KubeLease>, KubeError> {
        let RolloutObjects { name, .. } = &self.objects;
        let said = self.objects.said("get", "lease", name);
        found(self.client.get(&self.objects.leases(), name, &said).await)
    }

    async fn replace_state(&self, state: &RolloutState) -> Result<StoreResult, SourceError> {
        for _ in 0..ATTEMPTS {
            let lease = self.read_lease().await?;
            let stored = lease.as_ref().and_then(parse_state).transpose()?;
            if let Some(result) = StoreResult::without_write(stored, state) {
                return Ok(result);
            }
            match self.write_state(lease, state).await {
                Ok(()) => return Ok(StoreResult::Stored),
                Err(why) if why.kind() == KubeErrorKind::Conflict => {}
                Err(why) => return Err(why.into()),
            }
        }
        Ok(StoreResult::Unavailable)
    }

    /// Writes the state, unless the Lease has changed.
    async fn write_state(
        &self,
        lease: Option<KubeLease>,
        state: &RolloutState,
    ) -> Result<(), KubeError> {
        let history = lease.as_ref().and_then(|it| it.annotation(HISTORY)).unwrap_or_default();
        let ended = EndedRollout::now(state).map(|it| it.to_string());
        let lines: Vec<_> = history.lines().chain(ended.as_deref()).collect();
        let mut lines = lines.get(lines.len().saturating_sub(MAX_ENDED)..).unwrap_or_default();
        while let [_, rest @ ..] = lines
            && lines.iter().map(|it| it.len() + 1).sum::<usize>() > HISTORY_BYTES
        {
            lines = rest;
        }
        let annotations = json!({STATE: state.to_string(), HISTORY: lines.join("\n")});
        let spec = json!({"holderIdentity": self.server, "renewTime": time_now()});
        let RolloutObjects { name, .. } = &self.objects;
        let path = self.objects.leases();
        match lease {
            Some(lease) => {
                let patch = json!({
                    "metadata": {
                        "resourceVersion": lease.metadata.resource_version,
                        "annotations": annotations,
                    },
                    "spec": spec,
                });
                let said = self.objects.said("patch", "lease", name);
                self.client.patch(&path, name, &said, &patch).await
            }
            None => {
                let metadata = self.objects.metadata(name, &annotations);
                let said = self.objects.said("create", "lease", name);
                self.client.create(&path, &said, &json!({"metadata": metadata, "spec": spec})).await
            }
        }
    }

    async fn read_config_map(&self, name: &str) -> Result<Option<ConfigMap>, KubeError> {
        let said = self.objects.said("get", "configmap", name);
        found(self.client.get(&self.objects.config_maps(), name, &said).await)
    }

    #[expect(clippy::indexing_slicing, reason = "the metadata and the labels are objects")]
    async fn create_config_map(
        &self,
        name: &str,
        id: RolloutId,
        field: &str,
        data: &Value,
    ) -> Result<(), KubeError> {
        let mut metadata = self.objects.metadata(name, &json!({}));
        metadata["labels"][ID_LABEL] = id.0.to_string().into();
        let object = json!({"metadata": metadata, field: data});
        let said = self.objects.said("create", "configmap", name);
        self.client.create(&self.objects.config_maps(), &said, &object).await
    }

    async fn read_contents(
        &self,
        id: RolloutId,
    ) -> Result<Option<Vec<StoredResource>>, SourceError> {
        if id == RolloutId::default() {
            return Ok(Some(Vec::new()));
        }
        let name = self.objects.contents(id);
        let Some(manifest) = self.read_config_map(&name).await? else { return Ok(None) };
        let damaged = |why: &dyn fmt::Display| {
            SourceError::Failed(format!("{}: {why}", self.objects.said("read", "configmap", &name)))
        };
        let text = manifest.data.get(MANIFEST).map(String::as_str).unwrap_or_default();
        let manifest: ContentsManifest = text.parse().map_err(|it| damaged(&it))?;
        let mut parts = Vec::new();
        for number in 0..manifest.parts {
            let part = self.objects.part(id, &manifest.writer, number);
            // A newer state no longer refers to these resources, and they were deleted meanwhile.
            let Some(part) = self.read_config_map(&part).await? else { return Ok(None) };
            let text = part.binary_data.get(PART).map(String::as_str).unwrap_or_default();
            parts.push(STANDARD.decode(text).map_err(|it| damaged(&it))?.into());
        }
        manifest.join(parts).map_err(|it| damaged(&it))
    }

    async fn write_contents(
        &self,
        id: RolloutId,
        resources: &[StoredResource],
    ) -> Result<(), SourceError> {
        let name = self.objects.contents(id);
        if self.read_config_map(&name).await?.is_some() {
            return Ok(());
        }
        let (manifest, parts) = ContentsManifest::split(&self.server, resources, PART_BYTES);
        for (number, part) in parts.iter().enumerate() {
            let name = self.objects.part(id, &self.server, number);
            let data = json!({PART: STANDARD.encode(part)});
            match self.create_config_map(&name, id, "binaryData", &data).await {
                // Left over from an earlier attempt, before this server restarted in its Pod.
                Err(why) if why.kind() == KubeErrorKind::Conflict => {
                    let metadata = Metadata { name: name.clone(), ..Metadata::default() };
                    let said = self.objects.said("delete", "configmap", &name);
                    found(self.client.delete(&self.objects.config_maps(), &metadata, &said).await)?;
                    self.create_config_map(&name, id, "binaryData", &data).await?;
                }
                created => created?,
            }
        }
        let data = json!({MANIFEST: manifest.to_string()});
        match self.create_config_map(&name, id, "data", &data).await {
            // Another server created the manifest first. The parts of this one are deleted later.
            Err(why) if why.kind() == KubeErrorKind::Conflict => Ok(()),
            created => Ok(created?),
        }
    }

    async fn delete_old(&self, state: &RolloutState) -> Result<(), SourceError> {
        let place = self.objects.place(self.objects.config_maps());
        let said = self.objects.said("list", "configmaps", "");
        for metadata in self.client.list_metadata(&place, &said).await? {
            let id = metadata.labels.get(ID_LABEL).and_then(|it| it.parse().ok());
            let is_old = id.is_some_and(|it: u64| it < state.id.0 && it != state.stable.0);
            if is_old {
                let said = self.objects.said("delete", "configmap", &metadata.name);
                let deleted =
                    self.client.delete(&self.objects.config_maps(), &metadata, &said).await;
                found(deleted)?;
            }
        }
        Ok(())
    }

    async fn read_leases(&self) -> Result<Vec<KubeLease>, KubeError> {
        let place = self.objects.place(self.objects.leases());
        let said = self.objects.said("list", "leases", "");
        Ok(self.client.list_all(&place, &said).await?.0)
    }

    async fn read_progress(&self) -> Result<Vec<ReportedProgress>, SourceError> {
        let leases = self.read_leases().await?;
        let reported = leases.iter().filter_map(|lease| {
            let server = self.objects.server_of(&lease.metadata.name)?.to_owned();
            Some(ReportedProgress { server, json: lease.annotation(PROGRESS)?.to_owned() })
        });
        Ok(reported.collect())
    }

    /// Sets an annotation of this server's Lease, as soon as it takes part.
    fn set(&self, annotation: &'static str, value: String) {
        match &mut *self.own() {
            Participation::Planned(annotations) => drop(annotations.insert(annotation, value)),
            Participation::Leased(lease) => lease.set(annotation, value),
        }
    }
}

/// Returns `None` for an object that does not exist.
fn found<T>(result: Result<T, KubeError>) -> Result<Option<T>, KubeError> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.kind() == KubeErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl RolloutStore for KubeRollouts {
    fn is_shared(&self) -> bool {
        true
    }

    fn state(&self) -> StoreFuture<'_, Option<RolloutState>> {
        Box::pin(async { self.read_lease().await?.as_ref().and_then(parse_state).transpose() })
    }

    fn replace<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, StoreResult> {
        Box::pin(self.replace_state(state))
    }

    fn contents(&self, id: RolloutId) -> StoreFuture<'_, Option<Vec<StoredResource>>> {
        Box::pin(self.read_contents(id))
    }

    fn save_contents<'s>(
        &'s self,
        id: RolloutId,
        resources: &'s [StoredResource],
    ) -> StoreFuture<'s, ()> {
        Box::pin(self.write_contents(id, resources))
    }

    fn clean<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, ()> {
        Box::pin(self.delete_old(state))
    }

    fn history(&self) -> StoreFuture<'_, Vec<EndedRollout>> {
        Box::pin(async {
            let lease = self.read_lease().await?;
            let history = lease.as_ref().and_then(|it| it.annotation(HISTORY)).unwrap_or_default();
            Ok(history.lines().filter_map(|line| line.parse().ok()).collect())
        })
    }

    fn progress(&self) -> StoreFuture<'_, Vec<ReportedProgress>> {
        Box::pin(self.read_progress())
    }

    fn report_progress<'s>(&'s self, json: &'s str) -> StoreFuture<'s, ()> {
        Box::pin(async {
            self.set(PROGRESS, json.to_owned());
            Ok(())
        })
    }

    fn report(&self, report: CohortReport) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.set(objects::REPORT, report.to_string());
            Ok(())
        })
    }

    fn join(&self) {
        let mut own = self.own();
        if let Participation::Planned(annotations) = &mut *own {
            let annotations = mem::take(annotations);
            let (client, objects) = (self.client.clone(), self.objects.clone());
            let lease = ReplicaLease::start(client, objects, &self.server, annotations);
            *own = Participation::Leased(lease.into());
        }
    }

    fn leave(&self) -> StoreFuture<'_, ()> {
        let own = mem::take(&mut *self.own());
        Box::pin(async {
            match own {
                Participation::Leased(lease) => Ok(lease.end().await?),
                Participation::Planned(_) => Ok(()),
            }
        })
    }

    fn watch(&self) -> StoreWatch {
        let (objects, known) = (self.objects.clone(), Arc::clone(&self.known));
        news::watch(self.client.clone(), objects, self.server.as_str().into(), known).boxed()
    }
}
