//! Known objects, and the resources generated from them.

use std::collections::{BTreeMap, BTreeSet};

use xds_core::ViewName;
use xds_format::Format;
use xds_source::{Content, Object, ObjectChange, ObjectId, Revision};

use crate::{
    objects::{
        ConfigMap, FORCE_ANNOTATION, Key, Kind, Metadata, Observed, REJECTED_ANNOTATION, Service,
        Slice, VIEW_ANNOTATION,
    },
    translate,
};

/// Objects of the cluster from which resources are generated.
#[derive(Debug, Default)]
pub(crate) struct ClusterState {
    services: BTreeMap<Name, Service>,
    slices: BTreeMap<Name, Slice>,
    /// Names of the slices of each Service.
    slices_of: BTreeMap<Name, BTreeSet<Name>>,
    /// Objects with resources, as they were reported last.
    objects: BTreeMap<Key, Object>,
    /// Values of the annotation with the rejection, of all objects that have it.
    rejected: BTreeMap<Key, String>,
    /// ConfigMaps of which nothing is served, with their keys, as they were logged last.
    without_resources: BTreeMap<Key, String>,
    /// Objects to report if they differ from what was last reported.
    dirty: BTreeMap<Key, Option<Object>>,
    /// Services whose resources must be generated again.
    dirty_services: BTreeSet<Name>,
}

/// Namespace and name.
type Name = (String, String);

/// Number of keys of a ConfigMap that a warning names.
const MOST_KEYS: usize = 10;

/// Name of the view without a name in annotations, as in other sources.
const DEFAULT_VIEW: &str = "default";

impl ClusterState {
    /// Takes an object that was created or changed.
    pub(crate) fn set(&mut self, observed: Observed) {
        let name = observed.name();
        self.set_rejected(&observed);
        match observed {
            Observed::Service(service) => {
                self.services.insert(name.clone(), *service);
                self.dirty_services.insert(name);
            }
            Observed::Slice(slice) => {
                let slice = Slice::of(*slice);
                let has_changed = self.slices.get(&name).is_none_or(|known| {
                    slice.as_ref().is_none_or(|slice| {
                        // A new revision alone is not a change.
                        let ours = (&known.service, &known.ports, &known.endpoints);
                        ours != (&slice.service, &slice.ports, &slice.endpoints)
                    })
                });
                if !has_changed {
                    return;
                }
                self.forget_slice(&name);
                let Some(slice) = slice else { return };
                let service = (name.0.clone(), slice.service.clone());
                self.slices_of.entry(service.clone()).or_default().insert(name.clone());
                self.slices.insert(name, slice);
                self.dirty_services.insert(service);
            }
            Observed::ConfigMap(config_map) => {
                let (namespace, name) = name;
                let key = Key { kind: Kind::ConfigMap, namespace, name };
                let metadata = config_map.metadata.clone();
                let revision = Revision(metadata.resource_version.parse().unwrap_or(0));
                if let Some(keys) = self.new_without_resources(&key, &config_map) {
                    tracing::warn!(
                        object = key.id(DEFAULT_VIEW).as_str(),
                        keys,
                        "nothing of this ConfigMap is served: none of its keys ends in one of {}",
                        Format::SUFFIXES
                    );
                }
                let content = translate::config_map(*config_map);
                let object = object(&key, &metadata, revision, content);
                self.dirty.insert(key, Some(object));
            }
        }
    }

    /// Takes the deletion of an object.
    pub(crate) fn delete(&mut self, kind: Kind, namespace: &str, name: &str) {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let key = Key { kind, namespace: namespace.clone(), name: name.clone() };
        self.rejected.remove(&key);
        match kind {
            Kind::Service => {
                let name = (namespace, name);
                self.services.remove(&name);
                self.dirty_services.insert(name);
            }
            Kind::EndpointSlice => self.forget_slice(&(namespace, name)),
            Kind::ConfigMap => {
                self.without_resources.remove(&key);
                self.dirty.insert(key, None);
            }
        }
    }

    /// Returns the keys of a ConfigMap of which nothing is served, if they were not returned before.
    fn new_without_resources(&mut self, key: &Key, config_map: &ConfigMap) -> Option<String> {
        let Some(keys) = translate::keys_without_resources(config_map) else {
            self.without_resources.remove(key);
            return None;
        };
        let shown: Vec<_> = keys.iter().take(MOST_KEYS).copied().collect();
        let mut text = if keys.is_empty() { "none".to_owned() } else { shown.join(", ") };
        if let more @ 1.. = keys.len() - shown.len() {
            text += &format!(" and {more} more");
        }
        let before = self.without_resources.insert(key.clone(), text.clone());
        before.is_none_or(|before| before != text).then_some(text)
    }

    fn set_rejected(&mut self, observed: &Observed) {
        let (namespace, name) = observed.name();
        let key = Key { kind: observed.kind(), namespace, name };
        match observed.metadata().annotations.get(REJECTED_ANNOTATION) {
            Some(value) => drop(self.rejected.insert(key, value.clone())),
            None => drop(self.rejected.remove(&key)),
        }
    }

    /// Returns the values of the annotation with the rejection, of all objects that have it.
    pub(crate) const fn rejected(&self) -> &BTreeMap<Key, String> {
        &self.rejected
    }

    /// Takes all objects of a kind in a namespace, or in all namespaces.
    pub(crate) fn replace(&mut self, kind: Kind, namespace: Option<&str>, objects: Vec<Observed>) {
        let kept: BTreeSet<Name> = objects.iter().map(Observed::name).collect();
        let is_gone = |name: &&Name| {
            namespace.is_none_or(|namespace| name.0 == namespace) && !kept.contains(*name)
        };
        let gone: Vec<Name> = match kind {
            Kind::Service => self.services.keys().filter(is_gone).cloned().collect(),
            Kind::EndpointSlice => self.slices.keys().filter(is_gone).cloned().collect(),
            Kind::ConfigMap => {
                let known = self.objects.keys().chain(self.dirty.keys());
                let known = known.filter(|key| key.kind == Kind::ConfigMap && !key.name.is_empty());
                let names = known.map(|key| (key.namespace.clone(), key.name.clone()));
                names.filter(|name| is_gone(&name)).collect()
            }
        };
        gone.iter().for_each(|(namespace, name)| self.delete(kind, namespace, name));
        objects.into_iter().for_each(|object| self.set(object));
    }

    /// Sets the reason why a kind of object can no longer be read in a namespace, or in all
    /// namespaces; `None` once it can be read again. An object with the id of the scope reports the
    /// reason. It never has resources.
    pub(crate) fn set_denied(
        &mut self,
        kind: Kind,
        namespace: Option<&str>,
        id: ObjectId,
        why: Option<String>,
    ) {
        // No object of the cluster has an empty name.
        let namespace = namespace.unwrap_or_default().to_owned();
        let key = Key { kind, namespace, name: String::new() };
        let content = why.map_or_else(|| Content::Documents(Vec::new()), Content::Invalid);
        let (view, revision) = (ViewName::default(), Revision(0));
        self.dirty.insert(key, Some(Object::new(id, view, revision, content)));
    }

    fn forget_slice(&mut self, name: &Name) {
        let Some(slice) = self.slices.remove(name) else { return };
        let service = (name.0.clone(), slice.service);
        if let Some(slices) = self.slices_of.get_mut(&service) {
            slices.remove(name);
            if slices.is_empty() {
                self.slices_of.remove(&service);
            }
        }
        self.dirty_services.insert(service);
    }

    /// Returns the objects whose resources, or whose view, have changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<ObjectChange> {
        for name in core::mem::take(&mut self.dirty_services) {
            let object = self.object_of_service(&name);
            let (namespace, name) = name;
            self.dirty.insert(Key { kind: Kind::Service, namespace, name }, object);
        }
        let mut changes = Vec::new();
        for (key, object) in core::mem::take(&mut self.dirty) {
            let known = self.objects.get(&key);
            if let (Some(known), Some(object)) = (known, &object)
                && known.id == object.id
                && known.content == object.content
                && known.forced == object.forced
            {
                continue;
            }
            if let Some(known) = known
                && object.as_ref().is_none_or(|object| object.id != known.id)
            {
                changes.push(ObjectChange::Delete(known.id.clone()));
            }
            match object {
                Some(object) => {
                    changes.push(ObjectChange::Set(object.clone()));
                    self.objects.insert(key, object);
                }
                None => {
                    self.objects.remove(&key);
                }
            }
        }
        changes
    }

    /// Returns all objects with resources. Changes that were not taken are included.
    pub(crate) fn objects(&mut self) -> Vec<Object> {
        self.take_changes();
        self.objects.values().cloned().collect()
    }

    fn object_of_service(&self, name: &Name) -> Option<Object> {
        let service = self.services.get(name)?;
        let names = self.slices_of.get(name).into_iter().flatten();
        let slices = names.filter_map(|name| self.slices.get(name));
        let content = translate::service(service, slices.clone())?;
        let own = service.metadata.resource_version.parse().unwrap_or(0);
        let revision = slices.map(|slice| slice.revision).fold(own, u64::max);
        let (namespace, name) = name.clone();
        let key = Key { kind: Kind::Service, namespace, name };
        Some(object(&key, &service.metadata, Revision(revision), content))
    }
}

fn object(key: &Key, metadata: &Metadata, revision: Revision, content: Content) -> Object {
    let view = metadata.annotations.get(VIEW_ANNOTATION).map_or("", |view| view.trim());
    let view = if view == DEFAULT_VIEW { "" } else { view };
    let mut object = Object::new(key.id(view), view, revision, content);
    object.forced = metadata.annotations.get(FORCE_ANNOTATION).cloned().unwrap_or_default();
    object
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use xds_core::types;

    use super::*;
    use crate::objects::SERVICE_ANNOTATION;

    fn service(annotations: &Value) -> Observed {
        let object = json!({
            "metadata": {"name": "s", "namespace": "n", "annotations": annotations},
            "spec": {"ports": [{"port": 80}]},
        });
        Observed::Service(serde_json::from_value(object).unwrap())
    }

    fn slice(name: &str, service: &str, address: &str, revision: &str) -> Observed {
        let object = json!({
            "metadata": {"name": name, "namespace": "n", "resourceVersion": revision,
                         "labels": {"kubernetes.io/service-name": service}},
            "endpoints": [{"addresses": [address]}],
            "ports": [{"port": 8080}],
        });
        Observed::Slice(serde_json::from_value(object).unwrap())
    }

    fn config_map(name: &str, annotations: &Value, text: &str) -> Observed {
        let object = json!({
            "metadata": {"name": name, "namespace": "n", "annotations": annotations},
            "data": {"a.yaml": text},
        });
        Observed::ConfigMap(serde_json::from_value(object).unwrap())
    }

    /// Takes the changes, and returns them in short form.
    fn step(state: &mut ClusterState) -> String {
        let changes = state.take_changes();
        let shown = changes.iter().map(|change| match change {
            ObjectChange::Delete(id) => format!("-{id}"),
            ObjectChange::Set(object) => format!("+{}{}", object.id, addresses(&object.content)),
        });
        shown.collect::<Vec<_>>().join("; ")
    }

    /// Returns the addresses of endpoints, which are text within the encoded message.
    fn addresses(content: &Content) -> String {
        let Content::Resources(resources) = content else { return String::new() };
        let endpoints = resources.iter().find(|it| it.0.as_str() == types::CLUSTER_LOAD_ASSIGNMENT);
        let text = String::from_utf8_lossy(&endpoints.unwrap().2).into_owned();
        let found = (1..=9).filter(|it| text.contains(&format!("10.0.0.{it}")));
        found.map(|it| format!(" .{it}")).collect()
    }

    fn annotated() -> Value {
        json!({SERVICE_ANNOTATION: "true"})
    }

    #[test]
    fn service_and_its_slices_are_one_object_in_any_order() {
        let mut state = ClusterState::default();
        state.set(slice("s-1", "s", "10.0.0.1", "5"));
        assert_eq!(step(&mut state), "", "there is no Service yet");
        state.set(service(&annotated()));
        assert_eq!(step(&mut state), "+Service n/s .1");
        state.set(slice("s-2", "s", "10.0.0.2", "6"));
        assert_eq!(step(&mut state), "+Service n/s .1 .2");
        state.delete(Kind::EndpointSlice, "n", "s-1");
        assert_eq!(step(&mut state), "+Service n/s .2");
        // The resource is empty, and stays.
        state.delete(Kind::EndpointSlice, "n", "s-2");
        assert_eq!(step(&mut state), "+Service n/s");
        state.delete(Kind::Service, "n", "s");
        assert_eq!(step(&mut state), "-Service n/s");
    }

    #[test]
    fn slice_may_move_to_another_service() {
        let mut state = ClusterState::default();
        state.set(service(&annotated()));
        state.set(slice("s-1", "s", "10.0.0.1", "1"));
        assert_eq!(step(&mut state), "+Service n/s .1");
        state.set(slice("s-1", "other", "10.0.0.1", "2"));
        assert_eq!(step(&mut state), "+Service n/s");
    }

    #[test]
    fn annotation_may_be_added_and_removed() {
        let mut state = ClusterState::default();
        state.set(service(&json!({})));
        assert_eq!(step(&mut state), "");
        state.set(service(&annotated()));
        assert_eq!(step(&mut state), "+Service n/s");
        state.set(service(&json!({})));
        assert_eq!(step(&mut state), "-Service n/s");
    }

    #[test]
    fn other_annotations_and_revisions_are_no_change() {
        let mut state = ClusterState::default();
        state.set(config_map("c", &json!({}), "name: a"));
        state.set(service(&annotated()));
        state.set(slice("s-1", "s", "10.0.0.1", "1"));
        step(&mut state);
        state.set(config_map("c", &json!({REJECTED_ANNOTATION: "1 client"}), "name: a"));
        state.set(service(&json!({SERVICE_ANNOTATION: "true", REJECTED_ANNOTATION: "x"})));
        state.set(slice("s-1", "s", "10.0.0.1", "9"));
        assert_eq!(step(&mut state), "");
        state.set(config_map("c", &json!({}), "name: b"));
        assert_eq!(step(&mut state), "+ConfigMap n/c");
    }

    #[test]
    fn config_map_without_resources_is_reported_once() {
        let of = |data: Value| serde_json::from_value(json!({ "data": data })).unwrap();
        let key = Key { kind: Kind::ConfigMap, namespace: "n".into(), name: "c".into() };
        let mut state = ClusterState::default();
        let mut new = |data: Value| state.new_without_resources(&key, &of(data));
        assert_eq!(new(json!({"cds": "", "eds": ""})).as_deref(), Some("cds, eds"));
        assert_eq!(new(json!({"cds": "other", "eds": ""})), None);
        assert_eq!(new(json!({"cds": ""})).as_deref(), Some("cds"));
        assert_eq!(new(json!({"cds.yaml": ""})), None);
        assert_eq!(new(json!({"cds": ""})).as_deref(), Some("cds"));
        assert_eq!(new(json!({})).as_deref(), Some("none"));
        let many: serde_json::Map<_, _> = (0..12).map(|at| (at.to_string(), json!(""))).collect();
        assert!(new(Value::Object(many)).is_some_and(|it| it.ends_with(", 7 and 2 more")));
    }

    #[test]
    fn forced_changes_are_a_change_of_the_object() {
        let mut state = ClusterState::default();
        state.set(config_map("c", &json!({}), "name: a"));
        step(&mut state);
        state.set(config_map("c", &json!({FORCE_ANNOTATION: "0123456789ab"}), "name: a"));
        let changes = state.take_changes();
        let [ObjectChange::Set(object)] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!(object.forced, "0123456789ab");
        assert_eq!(step(&mut state), "");
    }

    #[test]
    fn object_in_another_view_is_another_object() {
        let mut state = ClusterState::default();
        state.set(config_map("c", &json!({}), "name: a"));
        step(&mut state);
        state.set(config_map("c", &json!({VIEW_ANNOTATION: "canary"}), "name: a"));
        assert_eq!(step(&mut state), "-ConfigMap n/c; +ConfigMap n/c in view canary");
        let [object] = &state.objects()[..] else { panic!("not one") };
        assert_eq!(object.view, ViewName::from("canary"));
        state.set(config_map("c", &json!({VIEW_ANNOTATION: "default"}), "name: a"));
        assert_eq!(step(&mut state), "-ConfigMap n/c in view canary; +ConfigMap n/c");
    }

    #[test]
    fn rejections_are_known_as_long_as_the_object_states_them() {
        let mut state = ClusterState::default();
        let rejected = |state: &ClusterState| {
            let stated = state.rejected().iter();
            stated
                .map(|(key, value)| format!("{} {value}", key.id("")))
                .collect::<Vec<_>>()
                .join("; ")
        };
        state.set(service(&json!({REJECTED_ANNOTATION: "s1"})));
        state.set(config_map("m", &json!({REJECTED_ANNOTATION: "m1"}), "a: 1"));
        assert_eq!(rejected(&state), "Service n/s s1; ConfigMap n/m m1");
        state.set(config_map("m", &json!({}), "a: 1"));
        state.set(service(&json!({REJECTED_ANNOTATION: "s2"})));
        assert_eq!(rejected(&state), "Service n/s s2");
        state.delete(Kind::Service, "n", "s");
        assert_eq!(rejected(&state), "");
    }

    #[test]
    fn list_replaces_the_objects_of_its_kind_and_namespace() {
        let mut state = ClusterState::default();
        state.set(config_map("a", &json!({}), "name: a"));
        state.set(config_map("b", &json!({}), "name: b"));
        state.set(service(&annotated()));
        state.set(slice("s-1", "s", "10.0.0.1", "1"));
        step(&mut state);
        state.replace(Kind::ConfigMap, Some("other"), Vec::new());
        assert_eq!(step(&mut state), "");
        let objects = vec![config_map("b", &json!({}), "name: b2")];
        state.replace(Kind::ConfigMap, None, objects);
        assert_eq!(step(&mut state), "-ConfigMap n/a; +ConfigMap n/b");
        state.replace(Kind::EndpointSlice, None, vec![slice("s-2", "s", "10.0.0.2", "2")]);
        assert_eq!(step(&mut state), "+Service n/s .2");
        state.replace(Kind::Service, Some("n"), Vec::new());
        assert_eq!(step(&mut state), "-Service n/s");
        assert_eq!(state.objects().len(), 1);
    }
}
