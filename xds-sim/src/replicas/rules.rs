//! Rules that the runs are judged by.

/// Rule with its name and its sentence.
#[derive(Debug)]
pub(super) struct ReplicaRule {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

pub(super) const NEVER_OLDER: ReplicaRule = ReplicaRule {
    name: "never older",
    text: "A client observes states of a resource in the order of the source's history.",
};
pub(super) const STATED: ReplicaRule = ReplicaRule {
    name: "stated versions",
    text: "A stream that was not confirmed shows nothing older than what its versions state.",
};
pub(super) const CONFIRMED: ReplicaRule = ReplicaRule {
    name: "confirmed",
    text: "While the source is reachable, no stream is answered without a confirmation.",
};
pub(super) const WHOLE: ReplicaRule = ReplicaRule {
    name: "whole",
    text: "A replica that answers has the state of the source at the revision that it reached.",
};
pub(super) const SENT_AGAIN: ReplicaRule = ReplicaRule {
    name: "not sent again",
    text: "A client whose versions are current is sent nothing, at whatever replica.",
};
pub(super) const CONVERGENCE: ReplicaRule = ReplicaRule {
    name: "convergence",
    text: "Once everything is repaired, clients and replicas have the state of the source.",
};
pub(super) const BOUNDED: ReplicaRule =
    ReplicaRule { name: "bounded", text: "No stream waits for longer than the configured time." };
