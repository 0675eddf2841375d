//! Names of the objects of rollouts, their labels and annotations.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use xds_core::rollout::{RolloutId, RolloutState};
use xds_source::SourceError;

use crate::{api::Place, objects::KubeLease};

/// Label of all objects; its value is the name of the state.
pub(super) const LABEL: &str = "xds-rollout";
/// Label of ConfigMaps with resources: their number.
pub(super) const ID_LABEL: &str = "xds-rollout-id";
/// Annotation with the state.
pub(super) const STATE: &str = "xds-rollout-state";
/// Annotation with the ended rollouts, a line for each.
pub(super) const HISTORY: &str = "xds-rollout-history";
/// Annotation with the counts of a server's clients.
pub(super) const REPORT: &str = "xds-rollout-report";
/// Annotation with the progress that a server has reported.
pub(super) const PROGRESS: &str = "xds-rollout-progress";
/// Keys of the data of ConfigMaps.
pub(super) const MANIFEST: &str = "manifest";
pub(super) const PART: &str = "part";

/// Names of the objects of rollouts in a namespace.
#[derive(Clone, Debug)]
pub(super) struct RolloutObjects {
    pub(super) namespace: String,
    /// Name of the state.
    pub(super) name: String,
}

impl RolloutObjects {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub(super) fn leases(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    pub(super) fn config_maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// Returns the place of all objects of one kind.
    pub(super) fn place(&self, path: String) -> Place {
        Place { path, selector: Some(format!("{LABEL}={}", self.name)) }
    }

    /// Returns the name of a server's Lease.
    pub(super) fn replica(&self, server: &str) -> String {
        format!("{}-{server}", self.name)
    }

    /// Returns the server whose Lease has a name; `None` for that of the state.
    pub(super) fn server_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(&self.name)?.strip_prefix('-')
    }

    pub(super) fn contents(&self, id: RolloutId) -> String {
        format!("{}-{}", self.name, id.0)
    }

    pub(super) fn part(&self, id: RolloutId, writer: &str, number: usize) -> String {
        format!("{}-{writer}-{number}", self.contents(id))
    }

    /// Returns the metadata of a new object.
    pub(super) fn metadata(&self, name: &str, annotations: &Value) -> Value {
        json!({
            "name": name,
            "namespace": self.namespace,
            "labels": {LABEL: self.name},
            "annotations": annotations,
        })
    }

    /// Describes a request.
    pub(super) fn said(&self, verb: &str, kind: &str, name: &str) -> String {
        format!("{verb} {kind} {name} in namespace {}", self.namespace).replace("  ", " ")
    }
}

/// Parses the state that a Lease has, if any.
pub(super) fn parse_state(lease: &KubeLease) -> Option<Result<RolloutState, SourceError>> {
    let state = lease.annotation(STATE)?.parse();
    Some(state.map_err(|why| SourceError::Failed(format!("lease {}: {why}", lease.metadata.name))))
}

/// Returns the time as Leases have it.
pub(super) fn time_now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// Returns a name as the names of objects may have it.
pub(super) fn dns_name(name: &str) -> String {
    let allowed = |it: char| match it.to_ascii_lowercase() {
        it if it.is_ascii_alphanumeric() => it,
        _ => '-',
    };
    let name: String = name.chars().map(allowed).take(LONGEST_SERVER).collect();
    name.trim_matches('-').to_owned()
}

/// Longest name of a server. Names of objects may have 253 characters.
const LONGEST_SERVER: usize = 150;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_are_dns_names() {
        assert_eq!(dns_name("Host.example_1-17"), "host-example-1-17");
        assert_eq!(dns_name("-a-"), "a");
        let objects = RolloutObjects::new("mesh", "xds-rollout");
        assert_eq!(objects.part(RolloutId(7), "pod-1", 3), "xds-rollout-7-pod-1-3");
        assert_eq!(objects.server_of(&objects.replica("pod-1")), Some("pod-1"));
        assert_eq!(objects.server_of("xds-rollout"), None);
        assert_eq!(objects.said("list", "leases", ""), "list leases in namespace mesh");
    }

    #[test]
    fn time_has_microseconds() {
        let now = time_now();
        assert_eq!((now.len(), &now[19..20], &now[26..]), (27, ".", "Z"), "{now}");
    }
}
