//! Rejections by clients and refusals by guards, written to the objects that they are about: Events
//! and an annotation.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use xds_source::{FeedbackPlan, FeedbackWrite, ObjectId, RejectedBy, Rejection};

use crate::{
    api::{KubeClient, KubeError, KubeErrorKind},
    objects::{Key, Metadata, REJECTED_ANNOTATION},
};

/// Writer of rejections by clients, and of refusals by guards, to the objects that they are about.
///
/// - An Event of type `Warning` and reason `RejectedByClients` or `RefusedByGuard`, which `kubectl
///   describe` shows. There is one of each for each object, whose count increases.
/// - The annotation [`xds-rejected`](REJECTED_ANNOTATION), with the number of clients and the reason
///   that one of them has stated, or with the id of the refused change and the violated rules. It is
///   removed when nobody rejects the resources any more. A deleted object, whose deletion is refused,
///   has only the Event.
///
/// An object is written at most once in 30 seconds, and there are at most five writes in a second.
/// The annotation is no change of the resources, so that a write causes no other.
#[derive(Debug)]
pub struct Feedback {
    client: KubeClient,
    /// Name of this process, which distinguishes replicas.
    reporter: String,
    plan: FeedbackPlan,
    started: Instant,
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

/// Longest message in bytes. Kubernetes allows 1,024 in an Event.
const MESSAGE: usize = 900;
/// Longest part of an object's name in the name of an Event, which may have 253 characters.
const NAME: usize = 200;

impl Feedback {
    /// Creates a writer. The name of the reporter, such as that of the Pod, distinguishes replicas.
    #[must_use]
    pub fn new(client: KubeClient, reporter: impl Into<String>) -> Self {
        Self {
            client,
            reporter: reporter.into(),
            plan: FeedbackPlan::default(),
            started: Instant::now(),
        }
    }

    /// Takes all rejections as they are now, and performs the writes that are due. Call it every few
    /// seconds.
    ///
    /// # Errors
    ///
    /// Returns the error of the first write that has failed. It is repeated later.
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
        Ok(())
    }

    async fn write(&self, rejection: &Rejection) -> Result<(), KubeError> {
        let Some(key) = Key::parse(rejection.object.as_str()) else { return Ok(()) };
        let object = self.object(&key).await?;
        let message = rejection.message_within(MESSAGE);
        let (mut value, event) = match rejection.by {
            RejectedBy::Clients { clients, count } => {
                let plural = if clients == 1 { "" } else { "s" };
                let message = format!("{clients} client{plural} reject it: {message}");
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
        };
        let metadata = match (object, rejection.by) {
            (Some(object), _) => {
                (value["reporter"], value["message"]) = (json!(self.reporter), json!(message));
                let value = value.to_string();
                if object.metadata.annotations.get(REJECTED_ANNOTATION) != Some(&value) {
                    self.annotate(&key, &object.metadata, Some(&value)).await?;
                }
                object.metadata
            }
            // Its deletion is refused.
            (None, RejectedBy::Guards(_)) => Metadata::default(),
            (None, RejectedBy::Clients { .. }) => return Ok(()),
        };
        self.event(&key, &metadata, &event).await
    }

    /// Removes the annotation, unless another replica has written it.
    async fn clear(&self, id: &ObjectId) -> Result<(), KubeError> {
        let Some(key) = Key::parse(id.as_str()) else { return Ok(()) };
        let Some(object) = self.object(&key).await? else { return Ok(()) };
        let Some(value) = object.metadata.annotations.get(REJECTED_ANNOTATION) else {
            return Ok(());
        };
        let is_own = serde_json::from_str::<Value>(value)
            .is_ok_and(|value| value["reporter"] == self.reporter.as_str());
        if is_own { self.annotate(&key, &object.metadata, None).await } else { Ok(()) }
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
    ) -> Result<(), KubeError> {
        let EventText { reason, message, count } = text;
        let path = format!("/api/v1/namespaces/{}/events", key.namespace);
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
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
