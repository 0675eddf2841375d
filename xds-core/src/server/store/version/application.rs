//! Application-defined versions: validation and application of those in a transaction.
// M69, M72

use alloc::collections::BTreeSet;

use crate::{
    server::{
        config::{ServerConfig, VersionMode},
        store::{
            ChangeSet, Store,
            encode::body::Payload,
            transaction::{ChangeContent, ResourceChange, Transaction, TransactionError},
        },
    },
    slab::Slot,
    text::{TypeUrl, Version},
};

impl Store {
    /// Checks that versions are set where they are required, and that changed content has a new
    /// version. Takes time proportional to the changes and the size of the changed resources of
    /// such types.
    pub(crate) fn check_versions(
        &self,
        view: Option<Slot>,
        transaction: &Transaction,
        changes: &[&ResourceChange],
        config: &ServerConfig,
    ) -> Result<(), TransactionError> {
        for (type_url, version) in &transaction.versions {
            check_version(type_url, version, config)?;
        }
        for (change, it) in transaction.changes.iter().enumerate() {
            let ChangeContent::Resource(value, options) = &it.content else { continue };
            let Some(version) = &options.version else { continue };
            check_version(&it.type_url, version, config)?;
            let is_another = |payload: &Payload| {
                payload.own_version() == Some(version) && !payload.is(value, options)
            };
            if self.payload_of(view, it).is_some_and(is_another) {
                return Err(TransactionError::ReusedResourceVersion { change });
            }
        }
        let is_callers = |it: &&&ResourceChange| {
            config.type_config(it.type_url.as_str()).versions == VersionMode::Caller
        };
        let altered = changes.iter().filter(is_callers).filter(|it| self.alters(view, it));
        let altered: BTreeSet<&TypeUrl> = altered.map(|it| &it.type_url).collect();
        for type_url in altered {
            let arena = view.and_then(|view| self.find_arena(view, type_url.as_str()));
            let current = arena.and_then(|slot| self.arenas.at(slot)?.own_version());
            match transaction.versions.get(type_url) {
                None => {
                    return Err(TransactionError::MissingVersion { type_url: type_url.clone() });
                }
                Some(version) if current == Some(version) => {
                    let (type_url, version) = (type_url.clone(), version.clone());
                    return Err(TransactionError::ReusedVersion { type_url, version });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Stores the versions of a transaction after its changes were made.
    pub(crate) fn apply_versions(
        &mut self,
        view: Slot,
        transaction: &Transaction,
        sequence: u64,
        change_set: &mut ChangeSet,
    ) {
        for (type_url, version) in &transaction.versions {
            let Some(slot) = self.find_arena(view, type_url.as_str()) else { continue };
            let Some(arena) = self.arenas.at_mut(slot) else { continue };
            if arena.own_version() == Some(version) {
                continue;
            }
            arena.versions.own = Some(version.clone());
            if arena.sequence != sequence {
                change_set.version_only.push(slot);
                change_set.add_arena(slot, arena, sequence);
            }
        }
    }

    /// Whether a change alters the resources of its type.
    fn alters(&self, view: Option<Slot>, change: &ResourceChange) -> bool {
        let payload = self.payload_of(view, change);
        match &change.content {
            ChangeContent::Resource(value, options) => {
                payload.is_none_or(|payload| !payload.is(value, options))
            }
            ChangeContent::Nothing => payload.is_some(),
            ChangeContent::Error(_) => false,
        }
    }

    fn payload_of(&self, view: Option<Slot>, change: &ResourceChange) -> Option<&Payload> {
        self.entry_of(view, change)?.payload.as_ref()
    }
}

fn check_version(
    type_url: &TypeUrl,
    version: &Version,
    config: &ServerConfig,
) -> Result<(), TransactionError> {
    let (bytes, limit) = (version.as_str().len(), config.limits.name_bytes);
    if !config.type_config(type_url.as_str()).versions.is_given() {
        return Err(TransactionError::UnexpectedVersion { type_url: type_url.clone() });
    }
    if bytes == 0 || bytes > limit {
        return Err(TransactionError::VersionLength { type_url: type_url.clone(), bytes, limit });
    }
    Ok(())
}
