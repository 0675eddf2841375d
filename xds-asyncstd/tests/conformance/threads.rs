//! A client and a server on each of these runtimes start no thread of tokio.

use std::{collections::BTreeSet, fs};

use libtest_mimic::Trial;
use tokio::runtime::Handle;
use xds_asyncstd::{AsyncIo, ClientOptions, ServerOptions, async_std::AsyncStd, smol::Smol};
use xds_core::{
    client::{ClientConfig, Node, Notice, OpaqueType, ServerAddress as Upstream},
    server::{ServerConfig, Transaction},
    types::CLUSTER,
};
use xds_grpc::{ManagementServer, client::connect, runtime::Listen, socket::AddressFamilies};

/// Serves a resource to a watcher.
async fn served<R: Listen + Default>() {
    assert!(Handle::try_current().is_err(), "this is a tokio runtime");
    let server = ManagementServer::<R>::start(ServerConfig::default(), ServerOptions::default());
    let runtime = R::default();
    let loopback = ([127, 0, 0, 1], 0).into();
    let listener = runtime.bind(loopback, AddressFamilies::SystemDefault).expect("loopback");
    // Addressed by host name, to include name resolution.
    let port = runtime.local_address(&listener).expect("it is bound").port();
    let serving = server.serve(listener);
    runtime.spawn(Box::pin(async {
        assert!(Handle::try_current().is_err(), "this is a tokio runtime");
        serving.await.expect("it serves");
    }));
    let mut change = Transaction::new();
    change.set(CLUSTER, "web", &b"\x0a\x03web"[..]);
    server.handle().apply(change).await.expect("a sound change");
    let config = ClientConfig::new(Node::new("n"), Upstream::new(format!("localhost:{port}")))
        .with_type(OpaqueType::new(CLUSTER));
    let client = connect(runtime, config, ClientOptions::default());
    let mut web = client.watch_untyped(CLUSTER, "web");
    let notice = web.next().await.expect("the client lives").expect("a sound watch");
    assert!(matches!(notice, Notice::Changed(Ok(_))), "{notice:?}");
}

fn threads() -> BTreeSet<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux has it");
    // The thread may end meanwhile.
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| name(task.expect("a thread"))).map(|it| it.trim().to_owned()).collect()
}

pub(crate) fn trial() -> Trial {
    Trial::test("asyncstd_and_smol_start_no_tokio_thread", || {
        asyncstd_and_smol_start_no_tokio_thread();
        Ok(())
    })
}

fn asyncstd_and_smol_start_no_tokio_thread() {
    async_std::task::block_on(served::<AsyncIo<AsyncStd>>());
    smol::block_on(served::<AsyncIo<Smol>>());
    let threads = threads();
    assert!(threads.iter().any(|name| name == "async-io"), "{threads:?}");
    assert!(!threads.iter().any(|name| name.contains("tokio")), "{threads:?}");
}
