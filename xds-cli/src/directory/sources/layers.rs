//! Resources of views, with those of their bases.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use bytes::Bytes;
use xds_core::ViewName;
use xds_source::{Revision, StoredResource};

use super::{Owners, Sources, changes::ViewKey, file_state::FileState};
use crate::directory::parse::Key;

/// Files of a view.
type ViewFiles<'s> = Vec<(&'s Path, &'s FileState)>;

/// Resource of a view, with its file.
pub(crate) struct ViewResource<'s> {
    pub(crate) file: &'s Path,
    pub(crate) key: &'s Key,
    pub(crate) bytes: &'s Bytes,
    /// Revision at which the file was changed.
    pub(super) revision: Revision,
}

impl Sources {
    /// Returns the views of the files, and those that have a base.
    pub(crate) fn all_views(&self) -> BTreeSet<&ViewName> {
        let of_files = self.files.values().map(|source| &source.view);
        of_files.chain(self.bases.keys()).collect()
    }

    /// Returns the resources of a view, those of its bases included.
    pub(crate) fn resources_in(&self, view: &ViewName) -> Vec<ViewResource<'_>> {
        self.layered(view, &self.files_by_view())
    }

    /// Returns the files of all resources.
    pub(crate) fn owners(&self) -> Owners {
        let files = self.files_by_view();
        let of_view = |view: &ViewName| {
            let own = self.layered(view, &files).into_iter();
            let own = own.map(|resource| (resource.key.clone(), resource.file.to_owned()));
            (view.clone(), own.collect())
        };
        self.all_views().into_iter().map(of_view).collect()
    }

    /// Returns all resources, with the revision of the source at which each was changed.
    pub(crate) fn contents(&self) -> Vec<StoredResource> {
        let stored = |((view, key), it): (ViewKey, ViewResource<'_>)| StoredResource {
            view,
            type_url: key.type_url,
            name: key.name,
            bytes: it.bytes.clone(),
            revision: it.revision.0,
        };
        self.desired().into_iter().map(stored).collect()
    }

    /// Returns the resources of all views.
    pub(super) fn desired(&self) -> BTreeMap<ViewKey, ViewResource<'_>> {
        let files = self.files_by_view();
        let of_view = |view: &'_ ViewName| {
            let view = view.clone();
            let all = self.layered(&view, &files).into_iter();
            all.map(move |it| ((view.clone(), it.key.clone()), it))
        };
        self.all_views().into_iter().flat_map(of_view).collect()
    }

    fn files_by_view(&self) -> BTreeMap<&ViewName, ViewFiles<'_>> {
        let mut files: BTreeMap<_, ViewFiles<'_>> = BTreeMap::new();
        for (path, source) in &self.files {
            files.entry(&source.view).or_default().push((path, source));
        }
        files
    }

    fn layered<'s>(
        &'s self,
        view: &ViewName,
        files: &BTreeMap<&'s ViewName, ViewFiles<'s>>,
    ) -> Vec<ViewResource<'s>> {
        let mut resources = Vec::new();
        let mut taken: BTreeSet<&Key> = BTreeSet::new();
        let mut next = Some(view);
        while let Some(layer) = next {
            next = self.bases.get(layer);
            let of_layer = files.get(layer).into_iter().flatten();
            let before = resources.len();
            for (file, source) in of_layer {
                let revision = source.seen.as_ref().map(|seen| seen.revision).unwrap_or_default();
                let own = source.in_force().iter().filter(|(key, _)| !taken.contains(key));
                let own = own.map(|(key, bytes)| ViewResource { file, key, bytes, revision });
                resources.extend(own);
            }
            // The names of the last layer hide no others.
            if next.is_some() {
                taken.extend(resources[before..].iter().map(|it: &ViewResource<'_>| it.key));
            }
        }
        resources
    }
}
