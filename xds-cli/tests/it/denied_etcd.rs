//! Commands at an etcd cluster that denies access.

use core::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use tokio::runtime::{Builder, Runtime};
use tonic::{Status, body::Body, server::NamedService, service::Routes};
use tower_service::Service;
use xds_core::server::ServerConfig;
use xds_tokio::{ManagementServer, ServerOptions};

use crate::support::{TempDir, clusters, run};

macro_rules! denying_service {
    ($type:ident, $name:literal) => {
        #[derive(Clone)]
        struct $type;

        impl NamedService for $type {
            const NAME: &'static str = $name;
        }

        impl Service<http::Request<Body>> for $type {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future = Ready<Result<Self::Response, Infallible>>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, _: http::Request<Body>) -> Self::Future {
                ready(Ok(Status::permission_denied("etcdserver: permission denied").into_http()))
            }
        }
    };
}

denying_service!(DenyingKeys, "etcdserverpb.KV");
denying_service!(DenyingLeases, "etcdserverpb.Lease");

/// Starts a cluster. Returns its address in the form of the command line.
fn denying_cluster() -> (Runtime, String) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _entered = runtime.enter();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = format!("etcd://{}/xds", listener.local_addr().unwrap());
    let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
    let routes = Routes::new(DenyingKeys).add_service(DenyingLeases);
    runtime.spawn(async move { server.serve_routes(listener, routes).await });
    drop(_entered);
    (runtime, address)
}

#[test]
fn cluster_that_denies_access_was_reached() {
    let directory = TempDir::new();
    directory.save("cds.yaml", &clusters("a"));
    let (_runtime, address) = denying_cluster();
    let path = directory.path().to_str().unwrap();
    for args in [
        &["apply", "--from", path, "--to", &address][..],
        &["pull", &address],
        &["register", &address, "--cluster", "a", "--endpoint", "127.0.0.1:80"],
        &["rollout", "status", &address],
    ] {
        let ended = run(args);
        assert_eq!(ended.code, Some(1), "{args:?}: {}", ended.stderr);
        let text = format!("xds: {address} denies access: ");
        assert!(ended.stderr.starts_with(&text), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("permission denied"), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.matches("denies access").count(), 1, "{}", ended.stderr);
    }
}
