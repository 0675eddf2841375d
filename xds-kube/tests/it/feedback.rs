//! Rejections that are written to objects.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use tokio::time;
use xds_kube::{Feedback, KubeError, PERMISSIONS, REJECTED_ANNOTATION, RejectedBy, Rejection};
use xds_source::{Change, Content, Object, ObjectChange, Source as _, SourceError, WatchError};

use crate::{
    cluster::{ADMIN, Cluster, SERVER, soon},
    manifests::{manifest, manifests},
    objects::{BoxedWatch, CONFIG_MAPS, SERVICES, config_map, next, next_shown, service},
};

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn rejection(object: &str, clients: u64, count: u64, message: &str) -> Rejection {
    let by = RejectedBy::Clients { clients, count };
    Rejection::new(object, by, message)
}

async fn feedback(cluster: &Cluster, token: &str, reporter: &str) -> Feedback {
    Feedback::new(&cluster.source_with(cluster.options(token)).await, reporter)
}

/// Lets the interval between two writes of an object pass.
async fn later() {
    time::pause();
    time::advance(time::Duration::from_secs(31)).await;
    time::resume();
}

async fn annotation(cluster: &Cluster, path: &str) -> Value {
    let object = cluster.send("GET", path, &Value::Null).await;
    match &object["metadata"]["annotations"][REJECTED_ANNOTATION] {
        Value::String(text) => {
            let mut value: Value = serde_json::from_str(text).unwrap();
            let time = value.as_object_mut().unwrap().remove("time");
            assert_eq!(time.unwrap().as_str().unwrap().len(), "2026-01-01T00:00:00Z".len());
            value
        }
        other => other.clone(),
    }
}

async fn events(cluster: &Cluster) -> Vec<Value> {
    let events = cluster.send("GET", EVENTS, &Value::Null).await;
    let of_ours = |it: &&Value| it["reportingComponent"] == "xds";
    events["items"].as_array().unwrap().iter().filter(of_ours).cloned().collect()
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn errors_in_an_object_are_an_event_and_an_annotation() {
    let cluster = Cluster::start().await;
    cluster.create(CONFIG_MAPS, &config_map("mesh", &[("a.yaml", "{")])).await;
    let mut feedback = feedback(&cluster, ADMIN, "one").await;
    let error = "ConfigMap default/mesh/a.yaml:1:2: unexpected end";
    let invalid = Rejection::new("ConfigMap default/mesh", RejectedBy::Validity, error);
    // A denied permission is reported for an object that does not exist in the cluster.
    let denied = Rejection::new("services in namespace shop", RejectedBy::Validity, "403");
    soon(feedback.report([denied.clone(), invalid.clone()])).await.unwrap();
    later().await;
    soon(feedback.report([denied, invalid])).await.unwrap();
    let mesh = format!("{CONFIG_MAPS}/mesh");
    let expected = json!({"reporter": "one", "invalid": true, "message": error});
    assert_eq!(annotation(&cluster, &mesh).await, expected);
    let [event] = &events(&cluster).await[..] else { panic!("one Event") };
    assert_eq!(event["involvedObject"]["name"], "mesh");
    assert_eq!((&event["reason"], &event["message"]), (&json!("Invalid"), &json!(error)));
    later().await;
    soon(feedback.report([])).await.unwrap();
    assert_eq!(annotation(&cluster, &mesh).await, Value::Null);
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn refusal_by_guards_is_an_event_also_of_a_deleted_object() {
    let cluster = Cluster::start().await;
    cluster.create(CONFIG_MAPS, &config_map("mesh", &[("a.yaml", "{}")])).await;
    let mut feedback = feedback(&cluster, ADMIN, "one").await;
    let by = RejectedBy::Guards("0123456789ab".parse().unwrap());
    let refusal = |object| Rejection::new(object, by, "would remove 4 clusters");
    let both = ["ConfigMap default/mesh", "ConfigMap default/deleted"].map(refusal);
    soon(feedback.report(both.clone())).await.unwrap();
    // Writes of different objects are 200 ms apart.
    later().await;
    soon(feedback.report(both)).await.unwrap();
    let mesh = format!("{CONFIG_MAPS}/mesh");
    let expected = json!({
        "reporter": "one", "refused": "0123456789ab", "message": "would remove 4 clusters",
    });
    assert_eq!(annotation(&cluster, &mesh).await, expected);
    let written = events(&cluster).await;
    let mut objects: Vec<_> = written.iter().map(|it| &it["involvedObject"]["name"]).collect();
    objects.sort_by_key(|name| name.to_string());
    assert_eq!(objects, ["deleted", "mesh"]);
    for event in &written {
        assert_eq!(event["reason"], "RefusedByGuard");
        assert_eq!(event["message"], "would remove 4 clusters");
    }
    for _ in 0..2 {
        later().await;
        soon(feedback.report([])).await.unwrap();
    }
    assert_eq!(annotation(&cluster, &mesh).await, Value::Null);
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn rejection_is_an_event_and_an_annotation_and_no_change() {
    let cluster = Cluster::start().await;
    cluster.create(CONFIG_MAPS, &config_map("mesh", &[("a.yaml", "{}")])).await;
    cluster.create(SERVICES, &service("greeter")).await;
    let source = cluster.source().await;
    let list = soon(source.list()).await.unwrap();
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));
    let mut feedback = feedback(&cluster, ADMIN, "one").await;
    let mesh = format!("{CONFIG_MAPS}/mesh");

    let first = rejection("ConfigMap default/mesh", 2, 5, "no such filter");
    soon(feedback.report([first.clone()])).await.unwrap();
    let expected = json!({"reporter": "one", "clients": 2, "message": "no such filter"});
    assert_eq!(annotation(&cluster, &mesh).await, expected);
    let written = events(&cluster).await;
    let [event] = &written[..] else { panic!("{written:?}") };
    let object = cluster.send("GET", &mesh, &Value::Null).await;
    assert_eq!(event["involvedObject"]["uid"], object["metadata"]["uid"]);
    assert_eq!(event["involvedObject"]["kind"], "ConfigMap");
    assert_eq!((&event["type"], &event["count"]), (&json!("Warning"), &json!(5)));
    assert_eq!(event["message"], "2 clients reject it: no such filter");

    // The same again, and more of it: one Event, whose count increases.
    let again = rejection("ConfigMap default/mesh", 3, 9, "no such filter");
    soon(feedback.report([first])).await.unwrap();
    soon(feedback.report([again.clone()])).await.unwrap();
    assert_eq!(events(&cluster).await, written, "it is too early");
    later().await;
    soon(feedback.report([again])).await.unwrap();
    let written = events(&cluster).await;
    let [event] = &written[..] else { panic!("{written:?}") };
    assert_eq!(event["count"], 9);

    // Another replica that has nothing to say leaves the annotation alone.
    let mut other = self::feedback(&cluster, ADMIN, "two").await;
    soon(other.report([rejection("Service default/greeter", 1, 1, "m")])).await.unwrap();
    later().await;
    soon(other.report([])).await.unwrap();
    assert_eq!(annotation(&cluster, &format!("{SERVICES}/greeter")).await, Value::Null);
    assert_eq!(annotation(&cluster, &mesh).await["clients"], 3);
    soon(feedback.report([])).await.unwrap();
    assert_eq!(annotation(&cluster, &mesh).await, Value::Null);

    // None of this was a change of the resources.
    cluster.create(CONFIG_MAPS, &config_map("next", &[])).await;
    assert_eq!(next_shown(&mut watch).await, "+ConfigMap default/next");

    // Objects that are gone are no failure.
    let gone = rejection("ConfigMap default/gone", 1, 1, "m");
    soon(feedback.report([gone])).await.unwrap();
}

/// Lets minutes pass.
async fn minutes(minutes: u64) {
    time::pause();
    time::advance(time::Duration::from_secs(minutes * 60)).await;
    time::resume();
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn annotation_of_a_replica_that_has_ended_is_removed() {
    let cluster = Cluster::start().await;
    for name in ["mesh", "edge"] {
        cluster.create(CONFIG_MAPS, &config_map(name, &[("a.yaml", "{}")])).await;
    }
    let mut ended = feedback(&cluster, ADMIN, "one").await;
    soon(ended.report([rejection("ConfigMap default/mesh", 2, 5, "m")])).await.unwrap();
    drop(ended);

    // The replica that replaces it has no client that rejects this.
    let source = cluster.source().await;
    soon(source.list()).await.unwrap();
    let mut feedback = Feedback::new(&source, "two");
    let other = [rejection("ConfigMap default/edge", 1, 1, "n")];
    soon(feedback.report(other.clone())).await.unwrap();
    minutes(14).await;
    soon(feedback.report(other.clone())).await.unwrap();
    let mesh = format!("{CONFIG_MAPS}/mesh");
    assert_eq!(annotation(&cluster, &mesh).await["reporter"], "one", "it may be renewed");
    minutes(1).await;
    soon(feedback.report(other)).await.unwrap();
    assert_eq!(annotation(&cluster, &mesh).await, Value::Null);
    let edge = annotation(&cluster, &format!("{CONFIG_MAPS}/edge")).await;
    assert_eq!(edge["reporter"], "two", "it is renewed");
}

/// Performs every kind of request, and returns the first that is denied.
async fn use_all(cluster: &Cluster) -> Result<(), String> {
    let source = cluster.source_with(cluster.options(SERVER)).await;
    let denied = |why: SourceError| match why {
        SourceError::Denied(why) => why,
        other => panic!("{other:?}"),
    };
    let list = soon(source.list()).await.map_err(denied)?;
    // An event of each kind shows that its watch is permitted.
    for path in [CONFIG_MAPS, SERVICES] {
        // An annotation of an earlier attempt would make `patch` unnecessary.
        let changes = json!({"metadata": {
            "labels": {"turn": list.revision.to_string()},
            "annotations": {REJECTED_ANNOTATION: null},
        }});
        let name = if path == SERVICES { "greeter" } else { "mesh" };
        cluster.send("PATCH", &format!("{path}/{name}"), &changes).await;
    }
    let created = AtomicU32::new(0);
    let create = async || {
        let number = created.fetch_add(1, Ordering::Relaxed);
        let name = format!("turn-{}-{number}", list.revision);
        cluster.create(CONFIG_MAPS, &config_map(&name, &[])).await;
    };
    create().await;
    let mut watch: BoxedWatch = Box::pin(source.watch(list.revision));
    for _ in 0..2 {
        match next(&mut watch).await {
            Ok(change) => denial(&change)?,
            Err(WatchError::Source(why)) => return Err(denied(why)),
            Err(why) => panic!("{why}"),
        }
        create().await;
    }
    for object in ["ConfigMap default/mesh", "Service default/greeter"] {
        let mut feedback = feedback(cluster, SERVER, "one").await;
        let denied = |why: KubeError| why.to_string();
        soon(feedback.report([rejection(object, 1, 1, "m")])).await.map_err(denied)?;
    }
    Ok(())
}

/// Returns the reason if a change states that a kind of object can no longer be watched.
fn denial(change: &Change) -> Result<(), String> {
    for changed in &change.objects {
        if let ObjectChange::Set(Object { content: Content::Invalid(why), .. }) = changed {
            return Err(why.clone());
        }
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs kube-apiserver and etcd"]
async fn manifests_are_valid_and_grant_no_more_than_is_used() {
    let cluster = Cluster::start().await;
    for object in manifests() {
        let (api, kind) =
            (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let root = if api == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api}") };
        let namespace = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("/namespaces/{namespace}"),
            None => String::new(),
        };
        let plural = match kind {
            "PodDisruptionBudget" => "poddisruptionbudgets".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        let path = format!("{root}{namespace}/{plural}?fieldValidation=Strict");
        cluster.create(&path, &object).await;
    }
    cluster.create(CONFIG_MAPS, &config_map("mesh", &[])).await;
    allowed(&cluster).await;

    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/xds-server";
    let whole = manifest("ClusterRole", "xds-server");
    let rules = whole["rules"].as_array().unwrap();
    let mut removed = 0;
    for (index, rule) in rules.iter().enumerate() {
        for (at, verb) in rule["verbs"].as_array().unwrap().iter().enumerate() {
            let mut less = whole.clone();
            less["rules"][index]["verbs"].as_array_mut().unwrap().remove(at);
            cluster.send("PUT", role, &less).await;
            let resource = rule["resources"][0].as_str().unwrap();
            let verb = verb.as_str().unwrap();
            denied(&cluster, verb, resource).await;
            cluster.send("PUT", role, &whole).await;
            allowed(&cluster).await;
            removed += 1;
        }
    }
    let all = PERMISSIONS.iter().map(|it| it.read.len() + it.write.len()).sum::<usize>();
    assert_eq!(removed, all);
}

/// Waits until all requests are permitted: the API server takes a moment to notice a role.
async fn allowed(cluster: &Cluster) {
    let mut last = Ok(());
    for _ in 0..100 {
        // An Event of an earlier attempt would make `create` unnecessary.
        cluster.delete(EVENTS).await;
        last = use_all(cluster).await;
        if last.is_ok() {
            return;
        }
        time::sleep(time::Duration::from_millis(100)).await;
    }
    panic!("{last:?}");
}

async fn denied(cluster: &Cluster, verb: &str, resource: &str) {
    for _ in 0..100 {
        cluster.delete(EVENTS).await;
        match use_all(cluster).await {
            Err(why) if why.starts_with(&format!("{verb} {resource}")) => return,
            Err(why) => panic!("{verb} {resource}: {why}"),
            Ok(()) => time::sleep(time::Duration::from_millis(100)).await,
        }
    }
    panic!("{verb} {resource} is not needed");
}
