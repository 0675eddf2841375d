//! Rejections by clients, refusals by guards and errors in objects, written to the objects that they
//! are about: Events and an annotation.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    mem,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use xds_source::{FeedbackPlan, FeedbackWrite, ObjectId, RejectedBy, Rejection};

use crate::{
    api::{KubeClient, KubeError, KubeErrorKind},
    objects::{Key, Metadata, REJECTED_ANNOTATION},
    source::KubeSource,
};

/// Writer of rejections by clients, of refusals by guards and of errors to the objects with the
/// rejected resources.
///
/// - An Event of type `Warning` with the reason `RejectedByClients`, `RefusedByGuard` or `Invalid`,
///   which `kubectl describe` shows. A server renews its Event of an object and a reason; the count of
///   rejections by clients increases.
/// - The annotation [`xds-rejected`](REJECTED_ANNOTATION). For a rejection by clients, it has their
///   number and the error that one of them has reported. For a refused change, it has the id of the
///   change and the violated rules. For an invalid object, it has the errors. It is removed when the
///   object is valid and its resources are accepted. If the
///   deletion of an object is refused, the object no longer exists, and there is only an Event.
///
/// Event and annotation are renewed every 5 minutes. An annotation that was not renewed for 15
/// minutes belongs to a replica that has ended, and is removed by any other replica.
///
/// An object is written at most once in 30 seconds, and there are at most five writes per second.
/// The annotation does not count as a change of the resources, so a write triggers no further
/// writes.
#[derive(Debug)]
pub struct Feedback {
    /// Source that follows the objects, and with them the annotations of all replicas.
    source: KubeSource,
    client: KubeClient,
    /// Name of this process, which distinguishes replicas.
    reporter: String,
    plan: FeedbackPlan,
    annotations: AnnotationAges,
    started: Instant,
}

/// Annotations of objects, each with the time of its last change.
#[derive(Debug, Default)]
struct AnnotationAges(BTreeMap<Key, (String, Duration)>);

impl AnnotationAges {
    /// Updates the annotations. Returns those that were not renewed for [`ENDED`]. An annotation
    /// that stays is returned again after the same time. Changes are timed with the local clock:
    /// times in annotations are from the clocks of other replicas.
    fn update(&mut self, current: &BTreeMap<Key, String>, now: Duration) -> Vec<(Key, String)> {
        let mut before = mem::take(&mut self.0);
        let seen = current.iter().map(|(key, value)| {
            let known = before.remove(key).filter(|(known, _)| known == value);
            (key.clone(), known.unwrap_or_else(|| (value.clone(), now)))
        });
        self.0 = seen.collect();
        let ended = self.0.iter_mut().filter(|(_, (_, since))| *since + ENDED <= now);
        let ended = ended.map(|(key, (value, since))| {
            *since = now;
            (key.clone(), value.clone())
        });
        ended.collect()
    }
}

/// Object with its metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Bare {
    metadata: Metadata,
}

/// Contents of an Event.
struct EventText {
    reason: &'static str,
    message: String,
    count: u64,
}

/// Time after which a rejection is written again.
const RENEWAL: Duration = Duration::from_secs(300);
/// Time after which an annotation that was not renewed is removed.
const ENDED: Duration = Duration::from_secs(900);
/// Longest message in bytes. Kubernetes allows 1,024 in an Event.
const MESSAGE: usize = 900;
/// Longest part of an object's name in the name of an Event, which may have 253 characters.
const NAME: usize = 200;

impl Feedback {
    /// Creates a writer for the objects of a source, which must be followed at the same time.
    /// `reporter` identifies this replica, for example by the name of its Pod.
    #[must_use]
    pub fn new(source: &KubeSource, reporter: impl Into<String>) -> Self {
        Self {
            source: source.clone(),
            client: source.client().clone(),
            reporter: reporter.into(),
            plan: FeedbackPlan::with_renewal(RENEWAL),
            annotations: AnnotationAges::default(),
            started: Instant::now(),
        }
    }

    /// Replaces the set of current rejections, and performs the writes that are due. Call it every
    /// few seconds.
    ///
    /// # Errors
    ///
    /// Returns the first error of a write. The write is retried by a later call.
    pub async fn report(
        &mut self,
        rejections: impl IntoIterator<Item = Rejection> + Send,
    ) -> Result<(), KubeError> {
        self.plan.update(rejections);
        while let Some(write) = self.plan.next(self.started.elapsed()) {
            let written = match &write {
                FeedbackWrite::Report(rejection) => self.write(rejection).await,
                FeedbackWrite::Clear(id) => self.clear(id).await,
            };
            if let Err(error) = written {
                self.plan.failed(&write);
                return Err(error);
            }
        }
        self.remove_ended().await
    }

    /// Removes the annotations of replicas that have ended.
    async fn remove_ended(&mut self) -> Result<(), KubeError> {
        let now = self.started.elapsed();
        let ended = self.annotations.update(self.source.scopes().rejected(), now);
        let mut result = Ok(());
        for (key, ended) in ended {
            match self.remove(&key, |value| value == ended).await {
                // Another replica has removed or renewed it.
                Err(error) if error.kind() == KubeErrorKind::Conflict => {}
                removed => result = result.and(removed),
            }
        }
        result
    }

    #[expect(clippy::indexing_slicing, reason = "`value` is an object")]
    async fn write(&self, rejection: &Rejection) -> Result<(), KubeError> {
        let Some(key) = Key::parse(rejection.object.as_str()) else { return Ok(()) };
        let object = self.object(&key).await?;
        let (message, time) = (rejection.message_within(MESSAGE), time_now());
        let (mut value, event) = match rejection.by {
            RejectedBy::Clients { clients, count } => {
                let who = if clients == 1 { "client rejects" } else { "clients reject" };
                let message = format!("{clients} {who} it: {message}");
                (
                    json!({"clients": clients}),
                    EventText { reason: "RejectedByClients", message, count },
                )
            }
            RejectedBy::Guards(change) => {
                let message = message.to_owned();
                let event = EventText { reason: "RefusedByGuard", message, count: 1 };
                (json!({"refused": change.to_string()}), event)
            }
            RejectedBy::Validity => {
                let message = message.to_owned();
                (json!({"invalid": true}), EventText { reason: "Invalid", message, count: 1 })
            }
            _ => {
                let message = message.to_owned();
                (json!({}), EventText { reason: "Rejected", message, count: 1 })
            }
        };
        let metadata = match (object, rejection.by) {
            (Some(object), _) => {
                (value["reporter"], value["message"]) = (json!(self.reporter), json!(message));
                value["time"] = json!(time);
                self.annotate(&key, &object.metadata, Some(&value.to_string())).await?;
                object.metadata
            }
            // The object was deleted, and the deletion is refused.
            (None, RejectedBy::Guards(_)) => Metadata::default(),
            (None, _) => return Ok(()),
        };
        self.event(&key, &metadata, &event, &time).await
    }

    /// Removes the annotation, unless another replica has written it.
    async fn clear(&self, id: &ObjectId) -> Result<(), KubeError> {
        let Some(key) = Key::parse(id.as_str()) else { return Ok(()) };
        let is_own = |value: &str| {
            serde_json::from_str::<Value>(value)
                .is_ok_and(|value| value.get("reporter") == Some(&json!(self.reporter)))
        };
        self.remove(&key, is_own).await
    }

    /// Removes the annotation of an object if its value is the expected one.
    async fn remove(&self, key: &Key, is_expected: impl Fn(&str) -> bool) -> Result<(), KubeError> {
        let Some(object) = self.object(key).await? else { return Ok(()) };
        let value = object.metadata.annotations.get(REJECTED_ANNOTATION);
        match value.is_some_and(|value| is_expected(value)) {
            true => self.annotate(key, &object.metadata, None).await,
            false => Ok(()),
        }
    }

    async fn object(&self, key: &Key) -> Result<Option<Bare>, KubeError> {
        match self.client.get(&path_of(key), &key.name, &said("get", key)).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.kind() == KubeErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn annotate(
        &self,
        key: &Key,
        metadata: &Metadata,
        value: Option<&str>,
    ) -> Result<(), KubeError> {
        // With the version, the write fails if somebody else has written meanwhile.
        let patch = json!({"metadata": {
            "resourceVersion": metadata.resource_version,
            "annotations": {REJECTED_ANNOTATION: value},
        }});
        self.client.patch(&path_of(key), &key.name, &said("patch", key), &patch).await
    }

    async fn event(
        &self,
        key: &Key,
        metadata: &Metadata,
        text: &EventText,
        now: &str,
    ) -> Result<(), KubeError> {
        let EventText { reason, message, count } = text;
        let path = format!("/api/v1/namespaces/{}/events", key.namespace);
        let count = i32::try_from(*count).unwrap_or(i32::MAX);
        let mut hasher = DefaultHasher::new();
        (&self.reporter, &metadata.uid, reason).hash(&mut hasher);
        let name = format!("{}.{:016x}", part_of(&key.name), hasher.finish());
        let of = |verb| format!("{verb} events in namespace {}", key.namespace);
        let patch = json!({"message": message, "count": count, "lastTimestamp": now});
        match self.client.patch(&path, &name, &of("patch"), &patch).await {
            Err(error) if error.kind() == KubeErrorKind::NotFound => {}
            patched => return patched,
        }
        let event = json!({
            "metadata": {"name": name, "namespace": key.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": key.kind.name(),
                "namespace": key.namespace,
                "name": key.name,
                "uid": metadata.uid,
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "count": count,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": "xds"},
            "reportingComponent": "xds",
            "reportingInstance": self.reporter,
        });
        self.client.create(&path, &of("create"), &event).await
    }
}

/// Returns the time as Events have it.
fn time_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn path_of(key: &Key) -> String {
    format!("{}/namespaces/{}/{}", key.kind.api(), key.namespace, key.kind.plural())
}

fn said(verb: &str, key: &Key) -> String {
    format!("{verb} {} {} in namespace {}", key.kind.plural(), key.name, key.namespace)
}

/// Returns the beginning of an object's name, which is ASCII.
fn part_of(name: &str) -> &str {
    name.get(..NAME).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Kind;

    #[test]
    fn annotations_that_are_not_renewed_have_ended() {
        let key = |name: &str| {
            let (namespace, name) = ("n".to_owned(), name.to_owned());
            Key { kind: Kind::ConfigMap, namespace, name }
        };
        let all =
            |of_a: &str| BTreeMap::from([(key("a"), of_a.to_owned()), (key("b"), "1".to_owned())]);
        let mut annotations = AnnotationAges::default();
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        assert_eq!(annotations.update(&all("1"), minutes(1)), []);
        assert_eq!(annotations.update(&all("2"), minutes(6)), []);
        assert_eq!(annotations.update(&all("3"), minutes(15)), []);
        assert_eq!(annotations.update(&all("3"), minutes(16)), [(key("b"), "1".to_owned())]);
        assert_eq!(annotations.update(&all("4"), minutes(17)), [], "once in this time");
        // The object with the other annotation is gone. When it returns, its time starts again.
        assert_eq!(annotations.update(&BTreeMap::new(), minutes(18)), []);
        assert_eq!(annotations.update(&all("4"), minutes(32)), []);
    }
}
