//! State of rollouts in the cluster, which the servers that follow it share.
//!
//! | file | content |
//! |---|---|
//! | `mod.rs` | the state, and the resources that it names |
//! | `keys.rs` | names of keys, and their values |
//! | `news.rs` | watch of the state and of the other servers |

mod keys;
mod news;

use core::{fmt, time::Duration};
use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use xds_core::rollout::{CohortReport, RolloutId, RolloutState, StoreResult};
use xds_source::{
    ContentsManifest, EndedRollout, MAX_ENDED, ReportedProgress, RolloutStore, SourceError,
    StoreFuture, StoreWatch, StoredResource,
};

use self::keys::RolloutKeys;
use crate::{
    client::{EtcdClient, EtcdError},
    lease::{LeasedKeys, Values},
    proto::{RequestOp, TxnRequest, mvccpb::KeyValue},
    range::KeyRange,
    store::{delete, delete_range, put, unchanged},
};

/// State of rollouts below a prefix of an etcd cluster: a [`RolloutStore`] shared by the servers
/// that follow the resources of this prefix.
///
/// | key below `PREFIX/@rollout/` | value |
/// |---|---|
/// | `state` | the [`RolloutState`], a line of text |
/// | `writer` | name of the server that stored the state |
/// | `contents/N` and `parts/N/..` | all resources of the rollout with id N, in parts |
/// | `history/N` | ended rollout: seconds since 1970, and its last state |
/// | `replicas/NAME` | client counts of a server, under its lease |
/// | `progress/NAME` | progress that a server has reported, under its lease |
///
/// A state is replaced in a transaction that compares the revision of the key, so servers agree
/// without an election. The other servers know a server as long as it renews its lease.
pub struct EtcdRollouts {
    client: EtcdClient,
    keys: RolloutKeys,
    /// Name of this server.
    name: String,
    own: Mutex<OwnKeys>,
    /// Servers whose existence was reported.
    known: Arc<Mutex<BTreeSet<Arc<str>>>>,
}

/// Keys of this server.
enum OwnKeys {
    /// Values that are written once the server takes part.
    Planned(Values),
    Leased(LeasedKeys),
}

impl Default for OwnKeys {
    fn default() -> Self {
        Self::Planned(Values::default())
    }
}

impl fmt::Debug for EtcdRollouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdRollouts")
            .field("client", &self.client)
            .field("keys", &self.keys)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Time after which a server that has ended no longer counts.
const TTL: Duration = Duration::from_secs(10);
/// Maximum size of a part in bytes. etcd limits a request to 1.5 MiB by default.
const PART: usize = 1 << 20;
/// Maximum number of operations in a transaction (`--max-txn-ops` of etcd).
const OPERATIONS: usize = 128;
/// Number of attempts to replace a state that other servers replace concurrently.
const ATTEMPTS: u32 = 5;

impl EtcdRollouts {
    /// Returns the store below a prefix, such as `/xds`. `name` identifies this server.
    #[must_use]
    pub fn new(client: EtcdClient, prefix: &str, name: &str) -> Self {
        let (keys, name) = (RolloutKeys::new(prefix), name.replace(['/', ' '], "-"));
        Self { client, keys, name, own: Mutex::default(), known: Arc::default() }
    }

    fn own(&self) -> MutexGuard<'_, OwnKeys> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read_key(&self, key: String) -> Result<Option<KeyValue>, EtcdError> {
        let range = KeyRange { first: key.into(), end: Bytes::new() };
        Ok(self.client.read(&range, None).await?.keys.pop())
    }

    async fn read_prefix(&self, prefix: &str) -> Result<Vec<KeyValue>, EtcdError> {
        Ok(self.client.read(&KeyRange::of_prefix(prefix), None).await?.keys)
    }

    async fn commit(&self, request: TxnRequest) -> Result<bool, EtcdError> {
        Ok(self.client.txn(&request).await?.succeeded)
    }

    async fn perform(&self, success: Vec<RequestOp>) -> Result<(), EtcdError> {
        for operations in success.chunks(OPERATIONS) {
            let success = operations.to_vec();
            self.commit(TxnRequest { success, ..TxnRequest::default() }).await?;
        }
        Ok(())
    }

    async fn read_state(&self) -> Result<Option<(RolloutState, i64)>, SourceError> {
        let Some(kv) = self.read_key(self.keys.state()).await? else { return Ok(None) };
        Ok(Some((self.keys.parse_state(&kv)?, kv.mod_revision)))
    }

    async fn replace_state(&self, state: &RolloutState) -> Result<StoreResult, SourceError> {
        for _ in 0..ATTEMPTS {
            let (stored, revision) = self.read_state().await?.unzip();
            if let Some(result) = StoreResult::without_write(stored, state) {
                return Ok(result);
            }
            let mut success = vec![
                put(self.keys.state(), state.to_string().into()),
                put(self.keys.writer(), self.name.clone().into()),
            ];
            if let Some(ended) = EndedRollout::now(state) {
                success.push(put(self.keys.history(state.id), ended.to_string().into()));
            }
            let compare = vec![unchanged(self.keys.state(), revision.unwrap_or(0))];
            if self.commit(TxnRequest { compare, success, ..TxnRequest::default() }).await? {
                return Ok(StoreResult::Stored);
            }
        }
        Ok(StoreResult::Unavailable)
    }

    async fn read_contents(
        &self,
        id: RolloutId,
    ) -> Result<Option<Vec<StoredResource>>, SourceError> {
        if id == RolloutId::default() {
            return Ok(Some(Vec::new()));
        }
        let key = self.keys.contents(id);
        let Some(manifest) = self.read_key(key.clone()).await? else { return Ok(None) };
        let damaged = |why: &dyn fmt::Display| SourceError::Failed(format!("{key}: {why}"));
        let text = String::from_utf8_lossy(&manifest.value);
        let manifest: ContentsManifest = text.parse().map_err(|it| damaged(&it))?;
        let parts = self.read_prefix(&self.keys.parts_of(id, &manifest.writer)).await?;
        // Parts are missing if a newer state no longer refers to them, and they were deleted
        // meanwhile.
        manifest.join(parts.into_iter().map(|it| it.value)).map_err(|it| damaged(&it))
    }

    async fn write_contents(
        &self,
        id: RolloutId,
        resources: &[StoredResource],
    ) -> Result<(), SourceError> {
        if self.read_key(self.keys.contents(id)).await?.is_some() {
            return Ok(());
        }
        let (manifest, parts) = ContentsManifest::split(&self.name, resources, PART);
        for (number, part) in parts.into_iter().enumerate() {
            let key = self.keys.part(id, &self.name, number);
            self.perform(vec![put(key, part)]).await?;
        }
        let compare = vec![unchanged(self.keys.contents(id), 0)];
        let success = vec![put(self.keys.contents(id), manifest.to_string().into())];
        if !self.commit(TxnRequest { compare, success, ..TxnRequest::default() }).await? {
            // Another server created the manifest first.
            let own = KeyRange::of_prefix(&self.keys.parts_of(id, &self.name));
            self.perform(vec![delete_range(&own)]).await?;
        }
        Ok(())
    }

    async fn delete_old(&self, state: &RolloutState) -> Result<(), SourceError> {
        let is_old = |id: RolloutId| id < state.id && id != state.stable;
        let old = self.read_names(&self.keys.all_contents()).await?;
        let old: BTreeSet<_> = old.iter().filter_map(|key| self.keys.id_of(key)).collect();
        // Includes the parts of a server that ended before it could write a manifest.
        let parts = self.read_names(&self.keys.all_parts()).await?;
        let parts = parts.iter().filter_map(|key| self.keys.id_of(key));
        let old: BTreeSet<_> = old.into_iter().chain(parts).filter(|id| is_old(*id)).collect();
        let mut operations = Vec::new();
        for id in old {
            operations.push(delete(self.keys.contents(id)));
            operations.push(delete_range(&KeyRange::of_prefix(&self.keys.parts(id))));
        }
        let ended = self.read_names(&self.keys.all_history()).await?;
        let dropped = ended.len().saturating_sub(MAX_ENDED);
        operations.extend(ended.into_iter().take(dropped).map(delete));
        Ok(self.perform(operations).await?)
    }

    /// Returns the keys with a prefix.
    async fn read_names(&self, prefix: &str) -> Result<Vec<String>, EtcdError> {
        let keys = self.client.read_names(&KeyRange::of_prefix(prefix)).await?;
        Ok(keys.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect())
    }

    async fn read_history(&self) -> Result<Vec<EndedRollout>, SourceError> {
        let ended = self.read_prefix(&self.keys.all_history()).await?;
        let ended = ended.iter().filter_map(|kv| String::from_utf8_lossy(&kv.value).parse().ok());
        Ok(ended.collect())
    }

    async fn read_progress(&self) -> Result<Vec<ReportedProgress>, SourceError> {
        let prefix = self.keys.all_progress();
        let reported = self.read_prefix(&prefix).await?;
        let reported = reported.iter().map(|kv| ReportedProgress {
            server: String::from_utf8_lossy(&kv.key).replacen(&prefix, "", 1),
            json: String::from_utf8_lossy(&kv.value).into_owned(),
        });
        Ok(reported.collect())
    }

    /// Sets a key of this server, as soon as it takes part.
    fn set(&self, key: String, value: String) {
        match &mut *self.own() {
            OwnKeys::Planned(values) => drop(values.insert(key, value.into())),
            OwnKeys::Leased(keys) => keys.set(key, value.into()),
        }
    }
}

impl RolloutStore for EtcdRollouts {
    fn is_shared(&self) -> bool {
        true
    }

    fn state(&self) -> StoreFuture<'_, Option<RolloutState>> {
        Box::pin(async { Ok(self.read_state().await?.map(|(state, _)| state)) })
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
        Box::pin(self.read_history())
    }

    fn progress(&self) -> StoreFuture<'_, Vec<ReportedProgress>> {
        Box::pin(self.read_progress())
    }

    fn report_progress<'s>(&'s self, json: &'s str) -> StoreFuture<'s, ()> {
        Box::pin(async {
            self.set(self.keys.progress(&self.name), json.to_owned());
            Ok(())
        })
    }

    fn report(&self, report: CohortReport) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            self.set(self.keys.replica(&self.name), report.to_string());
            Ok(())
        })
    }

    fn join(&self) {
        let mut own = self.own();
        if let OwnKeys::Planned(values) = &mut *own {
            let mut values = mem::take(values);
            let none = || CohortReport::default().to_string().into();
            values.entry(self.keys.replica(&self.name)).or_insert_with(none);
            *own = OwnKeys::Leased(LeasedKeys::start_later(&self.client, values, TTL));
        }
    }

    fn leave(&self) -> StoreFuture<'_, ()> {
        let own = mem::take(&mut *self.own());
        Box::pin(async {
            match own {
                OwnKeys::Leased(keys) => Ok(keys.end().await?),
                OwnKeys::Planned(_) => Ok(()),
            }
        })
    }

    fn watch(&self) -> StoreWatch {
        let (keys, known) = (self.keys.clone(), Arc::clone(&self.known));
        news::watch(self.client.clone(), keys, self.name.as_str().into(), known).boxed()
    }
}
