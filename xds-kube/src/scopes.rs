//! Scopes that are read and watched: their positions and denials. No I/O.

use std::collections::BTreeMap;

use xds_source::{Change, List, ObjectId, Revision};

use crate::{
    api::{KubeError, KubeErrorKind, Scope, WatchItem},
    objects::{Key, Observed},
    state::ClusterState,
};

/// Event of the watch of a scope with its resource version, or the denial of the watch.
pub(crate) type ScopeEvent = (Scope, Result<(WatchItem<Observed>, u64), KubeError>);

/// State of the scopes that a source reads and watches.
///
/// A scope that was read once and is denied later keeps its last state while the other scopes
/// change. An object without resources reports the denial.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    state: ClusterState,
    /// Scopes that were read.
    known: BTreeMap<Scope, ScopeState>,
    /// Revision that was reported last.
    revision: u64,
}

#[derive(Debug)]
struct ScopeState {
    /// Resource version up to which the scope is known.
    position: u64,
    /// Whether the position has expired, so that the scope has to be read again.
    has_expired: bool,
    /// Reason why the scope can no longer be read or watched.
    denied: Option<KubeError>,
}

impl Scopes {
    /// Whether a scope has to be read.
    pub(crate) fn is_unread(&self, scope: &Scope) -> bool {
        self.known.get(scope).is_none_or(|it| it.has_expired)
    }

    /// Records the result of reading a scope. A denial is an error if the scope was never read: the
    /// state without it is incomplete, and clients would remove the missing resources.
    pub(crate) fn take_list(
        &mut self,
        scope: Scope,
        read: Result<(Vec<Observed>, u64), KubeError>,
    ) -> Result<(), KubeError> {
        match read {
            Ok((objects, position)) => {
                self.state.replace(scope.kind, scope.namespace.as_deref(), objects);
                self.note_permitted(scope, position);
                Ok(())
            }
            Err(why) if why.kind() == KubeErrorKind::Forbidden => {
                if !self.known.contains_key(&scope) {
                    return Err(why.with(NOTHING_SERVED));
                }
                self.note_denied(&scope, why);
                Ok(())
            }
            Err(why) => Err(why),
        }
    }

    /// Returns all objects, unless every scope is denied.
    pub(crate) fn list(&mut self) -> Result<List, KubeError> {
        if let Some(why) = self.denial() {
            return Err(why.clone());
        }
        let newest = self.known.values().map(|it| it.position).max().unwrap_or(0);
        self.revision = self.revision.max(newest);
        Ok(List { revision: Revision(self.revision), objects: self.state.objects() })
    }

    /// Returns the positions to watch from. Returns `None` if a scope was not read, or if the
    /// caller's revision is not the one reported last: a change was then lost, and everything must
    /// be read again.
    pub(crate) fn positions(
        &mut self,
        scopes: usize,
        after: Revision,
    ) -> Option<BTreeMap<Scope, u64>> {
        // The watch of a denied scope shows when it is permitted again.
        let is_known = |it: &ScopeState| !it.has_expired || it.denied.is_some();
        let are_known = self.known.len() == scopes && self.known.values().all(is_known);
        if !are_known || self.revision != after.0 {
            self.known.values_mut().for_each(|it| it.has_expired = true);
            return None;
        }
        Some(self.known.iter().map(|(scope, it)| (scope.clone(), it.position)).collect())
    }

    /// Records events that arrived together. Returns the greatest resource version in them.
    pub(crate) fn take_events(&mut self, events: Vec<ScopeEvent>) -> Option<u64> {
        let mut newest = None;
        for (scope, event) in events {
            let (item, version) = match event {
                Ok(event) => event,
                Err(why) => {
                    self.note_denied(&scope, why);
                    continue;
                }
            };
            match item {
                WatchItem::Set(object) => self.state.set(object),
                WatchItem::Delete(object) => {
                    let metadata = object.metadata();
                    self.state.delete(scope.kind, &metadata.namespace, &metadata.name);
                }
                WatchItem::Bookmark => {}
            }
            self.note_permitted(scope, version);
            newest = newest.max(Some(version));
        }
        newest
    }

    /// Returns the change of the objects since the last one, if there is one to report. `newest` is the
    /// greatest resource version in it. If all watches have begun, the change may have no objects.
    pub(crate) fn take_change(&mut self, newest: Option<u64>, have_begun: bool) -> Option<Change> {
        let objects = self.state.take_changes();
        let revision = if objects.is_empty() {
            // All scopes that are not denied are known up to the lowest of their positions.
            let permitted = self.known.values().filter(|it| it.denied.is_none());
            let lowest = permitted.map(|it| it.position).min();
            let is_new = lowest.filter(|it| *it > self.revision);
            is_new.or_else(|| have_begun.then_some(self.revision))?
        } else {
            newest.unwrap_or(0).max(self.revision + 1)
        };
        self.revision = revision;
        Some(Change { revision: Revision(revision), objects })
    }

    /// Returns the values of the annotation with the rejection, of all objects that have it.
    pub(crate) const fn rejected(&self) -> &BTreeMap<Key, String> {
        self.state.rejected()
    }

    /// Notes that the positions of scopes have expired.
    pub(crate) fn note_expired(&mut self, scopes: &[Scope]) {
        for scope in scopes {
            if let Some(known) = self.known.get_mut(scope) {
                known.has_expired = true;
            }
        }
    }

    /// Returns the reason if all scopes are denied.
    pub(crate) fn denial(&self) -> Option<&KubeError> {
        let mut denials = self.known.values().map(|it| it.denied.as_ref());
        let first = denials.next()??;
        denials.all(|it| it.is_some()).then_some(first)
    }

    fn note_permitted(&mut self, scope: Scope, position: u64) {
        if self.known.get(&scope).is_some_and(|it| it.denied.is_some()) {
            self.state.set_denied(scope.kind, scope.namespace.as_deref(), id(&scope), None);
        }
        self.known.insert(scope, ScopeState { position, has_expired: false, denied: None });
    }

    fn note_denied(&mut self, scope: &Scope, why: KubeError) {
        let Some(known) = self.known.get_mut(scope) else { return };
        let text = Some(why.to_string());
        self.state.set_denied(scope.kind, scope.namespace.as_deref(), id(scope), text);
        known.denied = Some(why);
    }
}

/// Consequence of a denial before everything was read once.
const NOTHING_SERVED: &str = "nothing is served before all selected objects were read once";

/// Returns the name of the object that states the denial of a scope.
fn id(scope: &Scope) -> ObjectId {
    scope.to_string().into()
}

#[cfg(test)]
mod tests {
    use kube_client::core::Status;
    use serde_json::json;
    use xds_source::{Content, ObjectChange};

    use super::*;
    use crate::objects::Kind;

    fn scope(namespace: &str) -> Scope {
        Scope { kind: Kind::ConfigMap, namespace: Some(namespace.into()) }
    }

    fn config_map(namespace: &str, name: &str) -> Observed {
        let object = json!({"metadata": {"name": name, "namespace": namespace}});
        Observed::ConfigMap(serde_json::from_value(object).unwrap())
    }

    fn denied(verb: &str, namespace: &str) -> KubeError {
        let status = Status::failure("no", "Forbidden").with_code(403);
        KubeError::of_status(&format!("{verb} {}", scope(namespace)), &status)
    }

    /// Returns the scopes `one` and `two`, read at revision 10, each with a ConfigMap.
    fn two() -> Scopes {
        let mut scopes = Scopes::default();
        for namespace in ["one", "two"] {
            let objects = vec![config_map(namespace, "a")];
            scopes.take_list(scope(namespace), Ok((objects, 10))).unwrap();
        }
        assert_eq!(scopes.list().unwrap().revision, Revision(10));
        scopes
    }

    /// Takes an event, and returns its change in short form.
    fn step(scopes: &mut Scopes, event: ScopeEvent) -> String {
        let newest = scopes.take_events(vec![event]);
        let Some(change) = scopes.take_change(newest, false) else { return String::new() };
        let shown = change.objects.iter().map(|it| match it {
            ObjectChange::Delete(id) => format!(" -{id}"),
            ObjectChange::Set(object) => match &object.content {
                Content::Invalid(_) => format!(" !{}", object.id),
                _ => format!(" +{}", object.id),
            },
        });
        format!("{}{}", change.revision, shown.collect::<String>())
    }

    fn set(namespace: &str, name: &str, version: u64) -> ScopeEvent {
        (scope(namespace), Ok((WatchItem::Set(config_map(namespace, name)), version)))
    }

    fn bookmark(namespace: &str, version: u64) -> ScopeEvent {
        (scope(namespace), Ok((WatchItem::Bookmark, version)))
    }

    #[test]
    fn denied_scope_keeps_its_state_while_others_change() {
        let mut scopes = two();
        let denial = || (scope("two"), Err(denied("watch", "two")));
        assert_eq!(step(&mut scopes, denial()), "11 !configmaps in namespace two");
        assert_eq!(step(&mut scopes, denial()), "", "it is known");
        assert_eq!(step(&mut scopes, set("one", "b", 20)), "20 +ConfigMap one/b");
        // The denied scope does not hold back the revision of the others.
        assert_eq!(step(&mut scopes, bookmark("one", 30)), "30");
        assert!(scopes.denial().is_none());
        let ids: Vec<_> = scopes.list().unwrap().objects.into_iter().map(|it| it.id).collect();
        let kept = ["configmaps in namespace two", "ConfigMap one/a", "ConfigMap one/b"];
        assert!(kept.iter().chain(&["ConfigMap two/a"]).all(|it| ids.contains(&(*it).into())));

        // Its watch is repeated from where it was, and shows that it is permitted.
        let positions = scopes.positions(2, Revision(30)).unwrap();
        assert_eq!(positions[&scope("two")], 10);
        assert_eq!(step(&mut scopes, bookmark("two", 10)), "31 +configmaps in namespace two");
        assert_eq!(step(&mut scopes, set("two", "b", 25)), "32 +ConfigMap two/b");
    }

    #[test]
    fn first_denial_is_an_error_and_a_later_one_is_not() {
        let mut scopes = Scopes::default();
        scopes.take_list(scope("one"), Ok((Vec::new(), 10))).unwrap();
        let why = scopes.take_list(scope("two"), Err(denied("list", "two"))).unwrap_err();
        let why = why.to_string();
        assert!(why.starts_with("list configmaps in namespace two: 403 no: grant "), "{why}");
        assert!(why.ends_with(NOTHING_SERVED), "{why}");
        assert!(scopes.is_unread(&scope("two")) && !scopes.is_unread(&scope("one")));

        let mut scopes = two();
        scopes.note_expired(&[scope("two")]);
        assert!(scopes.is_unread(&scope("two")));
        scopes.take_list(scope("two"), Err(denied("list", "two"))).unwrap();
        let list = scopes.list().unwrap();
        assert_eq!(list.objects.len(), 3, "two ConfigMaps and the denial");
        // The watch of the denied scope begins at its expired position, and is permitted or not.
        let positions = scopes.positions(2, list.revision).unwrap();
        assert_eq!(positions.len(), 2);
        scopes.take_list(scope("two"), Ok((Vec::new(), 40))).unwrap();
        let shown: Vec<_> =
            scopes.list().unwrap().objects.into_iter().map(|it| it.content).collect();
        assert_eq!(shown.len(), 2, "the ConfigMap is gone");
        assert!(!shown.iter().any(|it| matches!(it, Content::Invalid(_))));
    }

    #[test]
    fn denial_of_all_scopes_is_an_error() {
        let mut scopes = two();
        for namespace in ["one", "two"] {
            assert!(scopes.denial().is_none());
            step(&mut scopes, (scope(namespace), Err(denied("watch", namespace))));
        }
        assert_eq!(scopes.denial(), Some(&denied("watch", "one")));
        assert_eq!(scopes.list().unwrap_err(), denied("watch", "one"));
        step(&mut scopes, bookmark("two", 10));
        assert!(scopes.denial().is_none());
    }

    #[test]
    fn watches_that_have_begun_are_a_change_without_objects() {
        let mut scopes = two();
        let newest = scopes.take_events(vec![bookmark("one", 10), bookmark("two", 10)]);
        assert!(scopes.take_change(newest, false).is_none());
        let change = scopes.take_change(newest, true).unwrap();
        assert_eq!((change.revision, change.objects.len()), (Revision(10), 0));
    }
}
