//! Change of a view that has not been applied.

use alloc::collections::BTreeMap;

use bytes::Bytes;

use crate::{ResourceName, TypeUrl, ViewName, server::ViewContents};

/// Change of the resources of a view that has not been applied.
#[derive(Clone, Copy, Debug)]
pub struct ViewChange<'c> {
    view: &'c ViewName,
    before: &'c ViewContents,
    after: &'c ViewContents,
}

/// Bytes of a resource before and after a change.
type Difference<'c> = (Option<&'c Bytes>, Option<&'c Bytes>);

impl<'c> ViewChange<'c> {
    /// Creates the change from the served contents of a view, which are empty if there are none, to
    /// those that would be served.
    #[must_use]
    pub const fn new(
        view: &'c ViewName,
        before: &'c ViewContents,
        after: &'c ViewContents,
    ) -> Self {
        Self { view, before, after }
    }

    /// Returns the name of the view.
    #[must_use]
    pub const fn view(&self) -> &'c ViewName {
        self.view
    }

    /// Returns the served contents.
    #[must_use]
    pub const fn before(&self) -> &'c ViewContents {
        self.before
    }

    /// Returns the contents that would be served.
    #[must_use]
    pub const fn after(&self) -> &'c ViewContents {
        self.after
    }

    /// Whether the view has no resources yet, so that the contents are judged as a whole.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.before.is_empty()
    }

    /// Returns the resources that the change removes, sorted by type and name.
    pub fn removed(&self) -> impl Iterator<Item = (&'c TypeUrl, &'c ResourceName)> + use<'c> {
        let after = self.after;
        let served = self.before.iter().map(|(type_url, name, _)| (type_url, name));
        served.filter(|(type_url, name)| after.get(type_url, name).is_none())
    }

    /// Returns the resources that the change adds, replaces or removes, sorted by type and name.
    pub(super) fn differences(&self) -> BTreeMap<(&'c TypeUrl, &'c ResourceName), Difference<'c>> {
        let mut differences = BTreeMap::new();
        for (type_url, name, before) in self.before.iter() {
            let after = self.after.get(type_url, name);
            if after != Some(before) {
                differences.insert((type_url, name), (Some(before), after));
            }
        }
        for (type_url, name, after) in self.after.iter() {
            if self.before.get(type_url, name).is_none() {
                differences.insert((type_url, name), (None, Some(after)));
            }
        }
        differences
    }
}
