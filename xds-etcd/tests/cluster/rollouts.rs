//! State of rollouts, which servers share.

use xds_core::rollout::PeerNews;
use xds_etcd::EtcdRollouts;
use xds_source::RolloutStore as _;

use super::Etcd;

#[path = "../../../xds-source/tests/contract/rollout_store.rs"]
mod contract;

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn state_of_rollouts_keeps_the_contract() {
    let etcd = Etcd::start(&[]).await;
    let of = |name| EtcdRollouts::new(etcd.client(), "/xds", name);
    contract::check(&of("one"), &of("two/2")).await;
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn server_that_has_ended_has_left() {
    let etcd = Etcd::start(&[]).await;
    let of = |name| EtcdRollouts::new(etcd.client(), "/xds", name);
    let (first, second) = (of("one"), of("two"));
    let mut watch = first.watch();
    second.join();
    let joined = PeerNews::Reported(Default::default());
    assert_eq!(contract::wait_replica(&mut watch, joined).await, "two");
    drop(second);
    assert_eq!(contract::wait_replica(&mut watch, PeerNews::Left).await, "two");
}
