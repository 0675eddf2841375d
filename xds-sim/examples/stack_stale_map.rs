//! A bug on purpose: an application keeps a set of clusters, and watches again after an error. It
//! has to forget the set then, because the new watch does not report what was removed meanwhile.
use std::{collections::BTreeSet, time::Duration};
use xds_core::client::{Change, DataErrorPolicy, Profile};
use xds_core::{ResourceName, types::CLUSTER};
use xds_handle::ClientHandle;
use xds_sim::{Toy, app, stack::check::StackSummary};
type Clusters = BTreeSet<ResourceName>;

async fn wait_for_rollout(client: ClientHandle, before_watch: fn(&mut Clusters)) {
    let mut clusters = Clusters::new();
    while clusters != Clusters::from(["new".into()]) {
        before_watch(&mut clusters);
        let mut watch = client.watch_all_untyped(CLUSTER);
        while clusters != Clusters::from(["new".into()]) {
            match watch.next().await.expect("the client lives").expect("a valid watch") {
                Change::Resource { name, result: Ok(_) } => drop(clusters.insert(name)),
                Change::Resource { name, .. } => drop(clusters.remove(&name)),
                Change::Collection(Err(_)) | Change::CollectionAmbient(Some(_)) => break,
                _ => {}
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

pub(crate) fn check(before_watch: fn(&mut Clusters)) -> StackSummary {
    let (mut profile, new) = (Profile::grpc(), Toy::bytes("new", ""));
    profile.data_errors = DataErrorPolicy::DropDeleted;
    let app = app(move |client| wait_for_rollout(client, before_watch)).with_profile(profile);
    let app = app.with_resource(CLUSTER, "old", Toy::bytes("old", ""));
    let app = app.with_change(Duration::from_secs(20), CLUSTER, "new", Some(new));
    let app = app.with_change(Duration::from_secs(25), CLUSTER, "old", None);
    app.with_limit(Duration::from_secs(180)).check(0..500)
}

pub(crate) fn main() {
    println!("{:?}", check(|_| {})); // The fix: check(Clusters::clear)
}
