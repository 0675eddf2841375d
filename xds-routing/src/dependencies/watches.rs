//! Mapping between the watches of a client core and the watched resources.

use alloc::collections::BTreeMap;

use xds_core::{
    Client, Time, TypeUrl, WatchId,
    client::{Interest, InvalidWatch},
};

use super::Dependency;

/// Watches on a client core.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    by_resource: BTreeMap<Dependency, WatchId>,
    by_id: BTreeMap<WatchId, Dependency>,
}

impl Watches {
    /// Starts a watch.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Client::watch`].
    pub(crate) fn start(
        &mut self,
        dependency: &Dependency,
        client: &mut Client,
        now: Time,
    ) -> Result<(), InvalidWatch> {
        let type_url = TypeUrl::from(dependency.kind.type_url());
        let watch = client.watch(&type_url, Interest::Name(dependency.name.as_str()), now)?;
        self.by_id.insert(watch, dependency.clone());
        self.by_resource.insert(dependency.clone(), watch);
        Ok(())
    }

    /// Ends a watch.
    pub(crate) fn end(&mut self, dependency: &Dependency, client: &mut Client, now: Time) {
        if let Some(watch) = self.by_resource.remove(dependency) {
            self.by_id.remove(&watch);
            client.unwatch(watch, now);
        }
    }

    /// Returns the resource of a watch, if it is one of these.
    pub(crate) fn resource(&self, watch: WatchId) -> Option<&Dependency> {
        self.by_id.get(&watch)
    }

    /// Returns the watched resources, sorted.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Dependency> {
        self.by_resource.keys()
    }

    /// Ends all watches.
    pub(crate) fn end_all(self, client: &mut Client, now: Time) {
        self.by_id.into_keys().for_each(|watch| client.unwatch(watch, now));
    }
}
