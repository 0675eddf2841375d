//! Rejections by clients, refusals by guards and errors, written to the objects of the source.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::sleep};
use xds_core::{
    ResourceName, TypeUrl, ViewName,
    rollout::{RolloutPhase, RolloutProgress},
};
use xds_source::{RejectedBy, Rejection};
use xds_tokio::{ServerHandle, server::RejectionSnapshot};

use super::{origin::FeedbackTarget, write_failures::WriteFailures};
#[cfg(any(feature = "etcd", feature = "kube"))]
use crate::process_name::process_name;
use crate::{
    args::SourceAddress,
    directory::{FeedbackState, Key, Owners, Refused, has_word},
    rollouts::RolloutCounts,
};

/// Interval of the requests for rejections.
const POLL: Duration = Duration::from_secs(2);

/// Maximum number of objects of a refused change that are written.
const MOST_REFUSED: usize = 20;

/// Writer of rejections by clients to the objects that define the rejected resources, of refusals by
/// guards to the objects that have changed, and of errors to invalid objects.
pub(super) struct RejectionWriter {
    target: FeedbackTarget,
    source: SourceAddress,
    state: watch::Receiver<FeedbackState>,
}

/// Writer of one kind of source.
enum Feedback {
    #[cfg(feature = "etcd")]
    Etcd(xds_etcd::Feedback),
    #[cfg(feature = "kube")]
    Kube(Box<xds_kube::Feedback>),
}

/// Creates a writer if the source is to be written to, and where to send what is written.
pub(super) fn writer(
    target: Option<FeedbackTarget>,
    source: &SourceAddress,
) -> (Option<watch::Sender<FeedbackState>>, Option<RejectionWriter>) {
    let Some(target) = target else { return (None, None) };
    let (sender, state) = watch::channel(FeedbackState::default());
    (Some(sender), Some(RejectionWriter { target, source: source.clone(), state }))
}

impl Feedback {
    fn new(target: FeedbackTarget) -> Self {
        match target {
            #[cfg(feature = "etcd")]
            FeedbackTarget::Etcd(client, prefix) => {
                Self::Etcd(xds_etcd::Feedback::new(client, &prefix, &process_name()))
            }
            #[cfg(feature = "kube")]
            FeedbackTarget::Kube(source) => {
                Self::Kube(Box::new(xds_kube::Feedback::new(&source, process_name())))
            }
        }
    }

    async fn report(&mut self, rejections: Vec<Rejection>) -> Result<(), String> {
        match self {
            #[cfg(feature = "etcd")]
            Self::Etcd(feedback) => feedback.report(rejections).await.map_err(|it| it.to_string()),
            #[cfg(feature = "kube")]
            Self::Kube(feedback) => feedback.report(rejections).await.map_err(|it| it.to_string()),
        }
    }
}

impl RejectionWriter {
    /// Writes until the server ends.
    pub(super) async fn run(
        self,
        server: ServerHandle,
        rollouts: Option<Arc<RolloutCounts>>,
        failures: Arc<WriteFailures>,
    ) {
        let mut feedback = Feedback::new(self.target);
        let mut reported = None;
        loop {
            sleep(POLL).await;
            let Ok(rejections) = server.rejections().await else { return };
            let rejections = {
                let state = self.state.borrow();
                let mut rejections = by_object(&rejections, &state.owners);
                rejections.extend(state.refused.iter().flat_map(|it| of_refused(it, &self.source)));
                let progress = rollouts.as_ref().and_then(|it| it.read().progress);
                rejections.extend(progress.iter().flat_map(|it| of_rollout(it, &state.owners)));
                rejections.extend(of_invalid(&state.invalid));
                rejections
            };
            let written = feedback.report(rejections).await;
            if written.is_err() {
                failures.note_feedback();
            }
            match written {
                Ok(()) => reported = None,
                Err(why) if reported.as_ref() == Some(&why) => {}
                Err(why) => {
                    tracing::warn!(%why, "cannot write a rejection to its object");
                    reported = Some(why);
                }
            }
        }
    }
}

/// Returns one rejection for each object and each reason that connected clients state for it.
fn by_object(rejections: &[RejectionSnapshot], owners: &Owners) -> Vec<Rejection> {
    let mut found: BTreeMap<(&Path, &str), (BTreeSet<&str>, u64, u64)> = BTreeMap::new();
    for rejection in rejections.iter().filter(|it| it.stream.is_some()) {
        let RejectionSnapshot { view, type_url, names, message, .. } = rejection;
        for object in objects_of(owners, view, type_url, names, message) {
            let (nodes, anonymous, count) = found.entry((object, &rejection.message)).or_default();
            match rejection.node_id.as_str() {
                "" => *anonymous += 1,
                node_id => {
                    nodes.insert(node_id);
                }
            }
            *count = count.saturating_add(rejection.count);
        }
    }
    let rejections = found.into_iter().map(|((object, message), (nodes, anonymous, count))| {
        let by = RejectedBy::Clients { clients: nodes.len() as u64 + anonymous, count };
        Rejection::new(object.to_string_lossy().into_owned(), by, message)
    });
    rejections.collect()
}

/// Returns one rejection for each object and each reason for which clients have halted the newest rollout.
/// They have got the earlier resources back, and the source still has those that they reject.
fn of_rollout(progress: &RolloutProgress, owners: &Owners) -> Vec<Rejection> {
    let has_halted = matches!(progress.phase, RolloutPhase::Halted | RolloutPhase::RolledBack);
    let culprits = progress.reason.iter().filter(|_| has_halted);
    let mut found: BTreeMap<(&Path, &str), BTreeSet<&str>> = BTreeMap::new();
    for culprit in culprits.flat_map(|it| it.culprits.listed()) {
        let Some(type_url) = &culprit.type_url else { continue };
        // A client is known by its node, and not by its view.
        for view in owners.keys() {
            for object in objects_of(owners, view, type_url, &culprit.names, &culprit.reason) {
                found.entry((object, &culprit.reason)).or_default().insert(&culprit.node_id);
            }
        }
    }
    let rejections = found.into_iter().map(|((object, message), nodes)| {
        let clients = nodes.len() as u64;
        let by = RejectedBy::Clients { clients, count: clients };
        Rejection::new(object.to_string_lossy().into_owned(), by, message)
    });
    rejections.collect()
}

/// Returns one rejection for each of the first objects that a refused change concerns.
fn of_refused(refused: &Refused, source: &SourceAddress) -> Vec<Rejection> {
    let violations: Vec<_> = refused.change.violations.iter().map(ToString::to_string).collect();
    let message = format!("{}; {}", violations.join("; "), refused.remedy(source));
    let by = RejectedBy::Guards(refused.change.id);
    let objects = refused.objects.iter().take(MOST_REFUSED);
    let rejection =
        |object: &PathBuf| Rejection::new(object.to_string_lossy().into_owned(), by, &*message);
    objects.map(rejection).collect()
}

/// Returns one rejection for each invalid object.
fn of_invalid(invalid: &BTreeMap<PathBuf, String>) -> impl Iterator<Item = Rejection> {
    invalid.iter().map(|(object, errors)| {
        Rejection::new(object.to_string_lossy().into_owned(), RejectedBy::Validity, errors)
    })
}

/// Returns the objects that a rejection is about: the owners of the resources that its message
/// mentions, or of all resources that were new to the client if it mentions none.
fn objects_of<'o>(
    owners: &'o Owners,
    view: &ViewName,
    type_url: &TypeUrl,
    names: &[ResourceName],
    message: &str,
) -> BTreeSet<&'o Path> {
    let owner = |name: &ResourceName| {
        let key = Key { type_url: type_url.clone(), name: name.clone() };
        owners.get(view)?.get(&key).map(PathBuf::as_path)
    };
    let is_mentioned = |name: &&ResourceName| has_word(message, name.as_str());
    let mentioned: BTreeSet<_> = names.iter().filter(is_mentioned).filter_map(owner).collect();
    match mentioned.is_empty() {
        true => names.iter().filter_map(owner).collect(),
        false => mentioned,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use xds_core::types;

    use super::*;

    #[test]
    fn rejection_is_about_the_owners_of_the_resources_that_it_mentions() {
        let own = |name: &str, object: &str| {
            let key = Key { type_url: types::CLUSTER.into(), name: name.into() };
            (key, PathBuf::from(object))
        };
        let of_view = HashMap::from([own("web", "one"), own("web-2", "two"), own("db", "two")]);
        let owners = Owners::from([(ViewName::default(), of_view)]);
        let objects = |view: &str, type_url: &str, names: &[&str], message: &str| {
            let names: Vec<_> = names.iter().map(|&it| ResourceName::from(it)).collect();
            let found = objects_of(&owners, &view.into(), &type_url.into(), &names, message);
            found.iter().map(|it| it.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        let all = ["web", "web-2", "db", "unknown"];
        assert_eq!(objects("", types::CLUSTER, &all, "cluster web: no type"), "one");
        assert_eq!(objects("", types::CLUSTER, &all, "cluster 'web-2': no type"), "two");
        assert_eq!(objects("", types::CLUSTER, &all, "no type"), "one two");
        assert_eq!(objects("", types::CLUSTER, &["db"], "cluster web: no type"), "two");
        assert_eq!(objects("", types::LISTENER, &all, "web"), "");
        assert_eq!(objects("canary", types::CLUSTER, &all, "web"), "");
    }
}
