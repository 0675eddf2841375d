//! A client and a server on two hosts.

use core::time::Duration;

use tokio::time::sleep;
use xds_core::{
    client::{ClientConfig, Node, Notice, OpaqueType, ServerAddress},
    server::{ServerConfig, Transaction},
    service::Variant,
    types::CLUSTER,
};
use xds_grpc::{ClientOptions, ManagementServer, ServerOptions, client::connect};
use xds_handle::{ClientHandle, Watch};
use xds_sim::stack::{Host, Stage};

use crate::raw::PORT;

/// A server with its host.
pub(crate) struct Served {
    pub(crate) host: Host,
    pub(crate) server: ManagementServer<Host>,
}

impl Served {
    pub(crate) fn start(stage: &Stage, name: &str) -> Self {
        let host = stage.server_host(name);
        let options = ServerOptions::default().with_seed(1);
        let server = ManagementServer::start_on(host.clone(), ServerConfig::default(), options);
        let listener = host.listen(([0, 0, 0, 0], PORT).into()).expect("a free port");
        let serving = server.serve(listener);
        host.start(async move { serving.await.expect("it serves") });
        Self { host, server }
    }

    pub(crate) async fn set(&self, name: &str, value: &str) {
        let mut change = Transaction::new();
        change.set(CLUSTER, name, cluster(name, value));
        self.server.handle().apply(change).await.expect("a sound change");
    }
}

/// Bytes of a cluster message with a name and an alternative name.
pub(crate) fn cluster(name: &str, value: &str) -> Vec<u8> {
    let field = |number: u8, text: &str| {
        let length = u8::try_from(text.len()).expect("short");
        [vec![number << 3 | 2, length], text.as_bytes().to_vec()].concat()
    };
    // Field 28, alt_stat_name, has a tag of two bytes.
    let length = u8::try_from(value.len()).expect("short");
    [field(1, name), vec![0xe2, 0x01, length], value.as_bytes().to_vec()].concat()
}

pub(crate) fn client(host: &Host, servers: &[&str], variant: Variant) -> ClientHandle {
    let mut servers = servers.iter().map(|name| {
        let mut address = ServerAddress::new(format!("{name}:{PORT}"));
        address.variant = variant;
        address
    });
    let first = servers.next().expect("a server");
    let mut config =
        ClientConfig::new(Node::new(host.name()), first).with_type(OpaqueType::new(CLUSTER));
    config.servers.extend(servers);
    connect(host.clone(), config, ClientOptions::default().with_seed(2))
}

/// Waits for a value of the watched resource.
pub(crate) async fn value(watch: &mut Watch, name: &str, value: &str) {
    loop {
        let notice = watch.next().await.expect("the client lives").expect("a sound watch");
        if let Notice::Changed(Ok(resource)) = &notice
            && resource.bytes == cluster(name, value)
        {
            return;
        }
    }
}

#[test]
fn watcher_gets_every_change_in_virtual_time() {
    for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
        let report = Stage::run(7, async |stage| {
            let served = Served::start(stage, "server");
            let client = client(&stage.host("client"), &["server"], variant);
            let mut watch = client.watch_untyped(CLUSTER, "web");
            for number in 0..5 {
                sleep(Duration::from_secs(100)).await;
                let text = format!("v{number}");
                served.set("web", &text).await;
                value(&mut watch, "web", &text).await;
            }
            assert!(!stage.kick().await);
        });
        assert_eq!(report.trace.violation, None);
        assert!(report.ended.since(xds_core::Time::ZERO) >= Duration::from_secs(500));
        let text = report.trace.to_text(400);
        assert!(text.contains("Cluster"), "{text}");
    }
}
