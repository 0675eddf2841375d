//! Reading and writing of all resources below a prefix.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use thiserror::Error;
use xds_core::{ResourceName, TypeUrl, ViewName, guards::ChangeId};

use crate::{
    client::{EtcdClient, EtcdError},
    layout::{Layout, ResourceKey},
    proto::{
        Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
        compare::{CompareResult, CompareTarget, TargetUnion},
        mvccpb::KeyValue,
        request_op::Request,
    },
    range::KeyRange,
};

/// Resources below a prefix of an etcd cluster, to be read and written as a whole.
#[derive(Clone, Debug)]
pub struct EtcdStore {
    client: EtcdClient,
    layout: Layout,
    limits: TransactionLimits,
}

/// Limits of one transaction, which the members of the cluster enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionLimits {
    /// Operations in a transaction; 128 by default (`--max-txn-ops` of etcd).
    pub operations: usize,
    /// Bytes of a request; 1.5 MiB by default (`--max-request-bytes` of etcd).
    pub bytes: usize,
}

impl Default for TransactionLimits {
    fn default() -> Self {
        Self { operations: 128, bytes: 3 << 19 }
    }
}

impl TransactionLimits {
    /// Sets the number of operations in a transaction.
    #[must_use]
    pub const fn with_operations(mut self, operations: usize) -> Self {
        self.operations = operations;
        self
    }

    /// Sets the bytes of a request.
    #[must_use]
    pub const fn with_bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }
}

/// View, type and name of a resource.
pub type StoredName = (ViewName, TypeUrl, ResourceName);

/// Resources as they were at one revision.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stored {
    /// Revision at which they were read.
    pub revision: u64,
    /// Values of the resources. Registrations under leases are not included.
    pub resources: BTreeMap<StoredName, Bytes>,
    /// Keys that are not resources, with the reason.
    pub faults: Vec<(String, String)>,
    /// Resources that [`retain`](Self::retain) excluded.
    others: BTreeMap<StoredName, Bytes>,
    generation: Option<String>,
    /// Revision of the last change of each key, and of the key that names the generation.
    revisions: BTreeMap<StoredName, i64>,
    pointer: i64,
}

/// Differences between the stored resources and those to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diff {
    /// Resources that are not stored.
    pub added: Vec<StoredName>,
    /// Resources with another value.
    pub changed: Vec<StoredName>,
    /// Stored resources that are to be removed.
    pub removed: Vec<StoredName>,
}

impl Diff {
    /// Whether there are no differences.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Whether to remove stored resources that are not among the written ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prune {
    /// Stored resources stay.
    #[default]
    No,
    /// Stored resources are removed.
    Yes,
}

/// Reason why a change was not made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A resource was changed by another writer since it was read. Nothing was written.
    #[error("another writer has changed the resources meanwhile; read them again")]
    Conflict,
    /// A value exceeds the limit of a request. Nothing was written.
    #[error(
        "the value of {key} has {bytes} bytes, and a request to etcd may have {limit} \
         (--max-request-bytes of etcd)"
    )]
    TooLarge {
        /// Key of the value.
        key: String,
        /// Size of the value.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The cluster failed.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
}

/// Bytes that a request needs in addition to the keys and values of its operations.
const OVERHEAD: usize = 1_024;
/// Bytes that an operation needs in addition to its key and value, and the key in its condition.
const OPERATION_OVERHEAD: usize = 64;

impl EtcdStore {
    /// Creates a store of the resources below a prefix, such as `/xds`.
    #[must_use]
    pub fn new(client: EtcdClient, prefix: &str) -> Self {
        Self { client, layout: Layout::new(prefix), limits: TransactionLimits::default() }
    }

    /// Sets the limits of a transaction, if the cluster has others than the default.
    #[must_use]
    pub const fn with_limits(mut self, limits: TransactionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Reads all resources.
    ///
    /// # Errors
    ///
    /// Returns the error of the cluster.
    pub async fn read(&self) -> Result<Stored, EtcdError> {
        let pointer = KeyRange { first: self.layout.current().into(), end: Bytes::new() };
        let pointer = self.client.read(&pointer, None).await?;
        let current = pointer.keys.first();
        let generation = current.map(|it| String::from_utf8_lossy(&it.value).into_owned());
        let ranges = self.layout.ranges(generation.as_deref());
        let keys = self.client.read_all(&ranges, pointer.revision).await?;
        let mut stored = Stored {
            revision: pointer.revision,
            pointer: current.map_or(0, |it| it.mod_revision),
            generation,
            ..Stored::default()
        };
        for KeyValue { key, value, lease, mod_revision, .. } in keys {
            let generation = stored.generation.as_deref();
            let Some(rest) = self.layout.of_generation(generation, &key) else { continue };
            match ResourceKey::parse(rest) {
                Ok(key) if lease != 0 && key.registration().is_some() => {}
                Ok(ResourceKey { view, type_url, name }) => {
                    let name = (view, type_url, name);
                    stored.revisions.insert(name.clone(), mod_revision);
                    stored.resources.insert(name, value);
                }
                Err(fault) => {
                    let key = String::from_utf8_lossy(&key).into_owned();
                    stored.faults.push((key, fault.to_string()));
                }
            }
        }
        Ok(stored)
    }

    /// Writes the differences between `stored` and the given resources, all of them or none.
    ///
    /// A change within the [limits](TransactionLimits) is one transaction. A larger change is
    /// written in batches as a new generation, which clients do not see until a last transaction
    /// makes it current. In both cases the write fails if a resource has changed since it was read.
    /// This check has one gap: a key that another program deletes just before a generation becomes
    /// current comes back.
    ///
    /// # Errors
    ///
    /// Returns an error, and leaves the served resources unchanged, if another writer has changed a
    /// resource, if a value is too large, or if the cluster fails. If the cluster fails during the
    /// last transaction, it is unknown whether the change was applied.
    pub async fn write(
        &self,
        stored: &Stored,
        resources: &BTreeMap<StoredName, Bytes>,
        prune: Prune,
    ) -> Result<Diff, WriteError> {
        let diff = stored.diff(resources, prune);
        if diff.is_empty() {
            return Ok(diff);
        }
        for (name, value) in resources {
            let key = self.key_of(stored.generation.as_deref(), name);
            let (bytes, limit) = (value.len(), self.limits.bytes);
            if bytes + key.len() * 2 + OVERHEAD + OPERATION_OVERHEAD > limit {
                return Err(WriteError::TooLarge { key, bytes, limit });
            }
        }
        let request = self.transaction(stored, resources, &diff);
        match self.fits(&request) {
            true => self.commit(request).await?,
            false => self.write_generation(stored, resources, prune).await?,
        }
        Ok(diff)
    }

    /// Sets the refused changes to apply anyway, in the key `PREFIX/@force`. An empty list removes
    /// the key.
    ///
    /// # Errors
    ///
    /// Returns the error of the cluster.
    pub async fn force(&self, changes: &[ChangeId]) -> Result<(), EtcdError> {
        let ids: Vec<_> = changes.iter().map(ToString::to_string).collect();
        let success = vec![match ids.is_empty() {
            true => delete(self.layout.force()),
            false => put(self.layout.force(), ids.join(" ").into()),
        }];
        self.client.txn(&TxnRequest { success, ..TxnRequest::default() }).await.map(drop)
    }

    /// Returns a transaction that writes the differences, unless anything has changed since the
    /// read.
    fn transaction(
        &self,
        stored: &Stored,
        resources: &BTreeMap<StoredName, Bytes>,
        diff: &Diff,
    ) -> TxnRequest {
        let mut request = TxnRequest::default();
        request.compare.push(unchanged(self.layout.current(), stored.pointer));
        for name in diff.added.iter().chain(&diff.changed).chain(&diff.removed) {
            let key = self.key_of(stored.generation.as_deref(), name);
            let revision = stored.revisions.get(name).copied().unwrap_or(0);
            request.compare.push(unchanged(key.clone(), revision));
            request.success.push(match resources.get(name) {
                Some(value) if !diff.removed.contains(name) => put(key, value.clone()),
                _ => delete(key),
            });
        }
        if !diff.removed.is_empty() {
            // A condition on a range does not notice that a key is gone.
            request.success.push(put(self.layout.writer(), Bytes::new()));
        }
        request
    }

    fn fits(&self, request: &TxnRequest) -> bool {
        let bytes = prost::Message::encoded_len(request);
        // The pointer is a condition without an operation.
        request.compare.len() <= self.limits.operations
            && request.success.len() <= self.limits.operations
            && bytes + OVERHEAD <= self.limits.bytes
    }

    async fn commit(&self, request: TxnRequest) -> Result<(), WriteError> {
        match self.client.txn(&request).await?.succeeded {
            true => Ok(()),
            false => Err(WriteError::Conflict),
        }
    }

    /// Writes all resources as a new generation and makes it current.
    async fn write_generation(
        &self,
        stored: &Stored,
        resources: &BTreeMap<StoredName, Bytes>,
        prune: Prune,
    ) -> Result<(), WriteError> {
        let mut all = stored.others.clone();
        if prune == Prune::No {
            all.extend(stored.resources.clone());
        }
        all.extend(resources.iter().map(|(name, value)| (name.clone(), value.clone())));
        let mark = self.mark(stored).await?;
        // The revision of a change is unique, so no other writer writes the same generation.
        let generation = format!("{mark:016x}");
        let (mut batch, mut bytes) = (Vec::new(), OVERHEAD);
        for (name, value) in &all {
            let key = self.key_of(Some(&generation), name);
            let size = key.len() + value.len() + OPERATION_OVERHEAD;
            if batch.len() >= self.limits.operations || bytes + size > self.limits.bytes {
                self.write_batch(core::mem::take(&mut batch)).await?;
                bytes = OVERHEAD;
            }
            bytes += size;
            batch.push(put(key, value.clone()));
        }
        self.write_batch(batch).await?;
        let ranges = self.layout.ranges(stored.generation.as_deref());
        if self.has_lost_keys(stored, &ranges).await? {
            return Err(WriteError::Conflict);
        }
        let mut compare = vec![
            unchanged(self.layout.current(), stored.pointer),
            unchanged(self.layout.writer(), mark),
        ];
        compare.extend(ranges.into_iter().map(|range| not_newer(range, stored.revision)));
        let success = vec![put(self.layout.current(), generation.clone().into())];
        self.commit(TxnRequest { compare, success, ..TxnRequest::default() }).await?;
        if let Err(why) = self.clean_up(stored, &generation).await {
            tracing::warn!(%why, "cannot remove resources that are no longer current");
        }
        Ok(())
    }

    /// Marks this writer as the newest one, unless another writer has removed resources since they
    /// were read. Returns the revision of the mark.
    async fn mark(&self, stored: &Stored) -> Result<i64, WriteError> {
        let writer = KeyRange { first: self.layout.writer().into(), end: Bytes::new() };
        let request = TxnRequest {
            compare: vec![not_newer(writer, stored.revision)],
            success: vec![put(self.layout.writer(), Bytes::new())],
            ..TxnRequest::default()
        };
        let marked = self.client.txn(&request).await?;
        match marked.succeeded {
            true => Ok(marked.header.map_or(0, |header| header.revision)),
            false => Err(WriteError::Conflict),
        }
    }

    /// Whether keys that were read are gone. Other programs may remove keys without setting the
    /// mark.
    async fn has_lost_keys(&self, stored: &Stored, ranges: &[KeyRange]) -> Result<bool, EtcdError> {
        let mut left = BTreeSet::new();
        for range in ranges {
            left.extend(self.client.read_names(range).await?);
        }
        let generation = stored.generation.as_deref();
        let mut names = stored.resources.keys().chain(stored.others.keys());
        Ok(names.any(|name| !left.contains(self.key_of(generation, name).as_bytes())))
    }

    /// Performs operations without a condition. Returns the revision of the change.
    async fn write_batch(&self, success: Vec<RequestOp>) -> Result<i64, EtcdError> {
        let written = self.client.txn(&TxnRequest { success, ..TxnRequest::default() }).await?;
        Ok(written.header.map_or(0, |header| header.revision))
    }

    /// Removes the resources below the prefix itself, and the generations except the current one and
    /// the one before, which replicas may still be reading.
    async fn clean_up(&self, stored: &Stored, current: &str) -> Result<(), EtcdError> {
        if stored.generation.is_none() {
            let keys: Vec<_> =
                stored.resources.keys().map(|name| self.key_of(None, name)).collect();
            for keys in keys.chunks(self.limits.operations) {
                self.write_batch(keys.iter().cloned().map(delete).collect()).await?;
            }
        }
        let prefix = self.layout.generations();
        let mut names = BTreeSet::new();
        let mut range = KeyRange::of_prefix(&prefix);
        // One key of each generation is enough to find its name.
        while let Some(name) = self.first_generation(&range, &prefix).await? {
            range.first = KeyRange::of_prefix(&self.layout.resources(Some(&name))).end;
            names.insert(name);
        }
        // A generation with a greater name is being written.
        names.retain(|name| name.as_str() < current);
        if let Some(before) = &stored.generation {
            names.remove(before);
        }
        for name in &names {
            let range = KeyRange::of_prefix(&self.layout.resources(Some(name)));
            self.write_batch(vec![delete_range(&range)]).await?;
        }
        Ok(())
    }

    async fn first_generation(
        &self,
        range: &KeyRange,
        prefix: &str,
    ) -> Result<Option<String>, EtcdError> {
        let request = RangeRequest {
            key: range.first.clone(),
            range_end: range.end.clone(),
            limit: 1,
            keys_only: true,
            ..RangeRequest::default()
        };
        let found = self.client.range(request).await?.kvs;
        Ok(found.first().and_then(|kv| {
            let rest = kv.key.strip_prefix(prefix.as_bytes())?;
            let end = rest.iter().position(|&byte| byte == b'/')?;
            String::from_utf8(rest.get(..end)?.to_vec()).ok()
        }))
    }

    fn key_of(&self, generation: Option<&str>, name: &StoredName) -> String {
        let (view, type_url, name) = name.clone();
        self.layout.key(generation, &ResourceKey { view, type_url, name })
    }
}

impl Stored {
    /// Excludes the resources whose name the predicate rejects. A write then neither compares nor
    /// removes them, and a new generation keeps them.
    pub fn retain(&mut self, is_kept: impl Fn(&StoredName) -> bool) {
        let all = core::mem::take(&mut self.resources);
        let (kept, others): (BTreeMap<_, _>, _) = all.into_iter().partition(|(it, _)| is_kept(it));
        self.resources = kept;
        self.others.extend(others);
    }

    /// Returns the differences that writing these resources would make.
    #[must_use]
    pub fn diff(&self, resources: &BTreeMap<StoredName, Bytes>, prune: Prune) -> Diff {
        let mut diff = Diff::default();
        for (name, value) in resources {
            match self.resources.get(name) {
                None => diff.added.push(name.clone()),
                Some(stored) if stored != value => diff.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        if prune == Prune::Yes {
            let stored = self.resources.keys();
            diff.removed = stored.filter(|name| !resources.contains_key(*name)).cloned().collect();
        }
        diff
    }
}

/// Condition that a key was not changed after a revision; 0 means that it does not exist.
pub(crate) fn unchanged(key: String, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: key.into(),
        range_end: Bytes::new(),
        target_union: Some(TargetUnion::ModRevision(revision)),
    }
}

/// Condition that no existing key of a range was changed after a revision.
fn not_newer(range: KeyRange, revision: u64) -> Compare {
    let after = i64::try_from(revision).unwrap_or(i64::MAX).saturating_add(1);
    Compare {
        result: CompareResult::Less.into(),
        target: CompareTarget::Mod.into(),
        key: range.first,
        range_end: range.end,
        target_union: Some(TargetUnion::ModRevision(after)),
    }
}

pub(crate) fn put(key: String, value: Bytes) -> RequestOp {
    let put = PutRequest { key: key.into(), value, lease: 0 };
    RequestOp { request: Some(Request::RequestPut(put)) }
}

pub(crate) fn delete(key: String) -> RequestOp {
    let delete = DeleteRangeRequest { key: key.into(), range_end: Bytes::new() };
    RequestOp { request: Some(Request::RequestDeleteRange(delete)) }
}

pub(crate) fn delete_range(range: &KeyRange) -> RequestOp {
    let delete = DeleteRangeRequest { key: range.first.clone(), range_end: range.end.clone() };
    RequestOp { request: Some(Request::RequestDeleteRange(delete)) }
}
