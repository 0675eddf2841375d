//! Typed clients of a file, and of a server that they poll.
#![cfg(all(feature = "files", feature = "rest", feature = "server", feature = "tokio"))]

use core::{future::Future, time::Duration};
use std::{env, fs, process};

use tokio::time::timeout;
use xds::{
    Client, ManagementServer,
    client::{Event, FilePolicy, PollPolicy, Profile, ServerAddress, StartError, Watch},
    rest::GatewayOptions,
    server::{BindError, Transaction},
    types,
};

#[derive(Clone, PartialEq, prost::Message)]
struct Cluster {
    #[prost(string, tag = "1")]
    name: String,
}

xds::resource_message!(Cluster, types::CLUSTER, name);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future).await.expect("it takes longer than 30 s")
}

async fn applied(watch: &mut Watch<Cluster>) -> String {
    loop {
        match soon(watch.next()).await.expect("the client has ended") {
            Event::Applied(cluster) => return cluster.name.clone(),
            Event::Synced => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn client_of_a_file_needs_neither_an_address_nor_a_node_id() {
    let path = env::temp_dir().join(format!("xds-without-streams-{}.yaml", process::id()));
    let text = format!("resources:\n- {{'@type': {}, name: a}}\n", types::CLUSTER);
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let client = Client::from_file(path, FilePolicy::default()).start().unwrap();
    assert_eq!(applied(&mut client.watch("a")).await, "a");

    // The address of the constructor does not matter once it is replaced.
    let file = ServerAddress::new(path).with_file(FilePolicy::default());
    let client = Client::connect(path).configure(|mut config| {
        config.servers = vec![file];
        config
    });
    assert_eq!(applied(&mut client.start().unwrap().watch("a")).await, "a");
    let why = Client::from_file("", FilePolicy::default()).start().unwrap_err();
    assert_eq!(why, StartError::NoFile);
    let why = Client::connect(path).node_id("test").start().unwrap_err();
    assert!(matches!(why, StartError::Address { .. }), "{why}");
    fs::remove_file(path).unwrap();
}

/// Follows a server that is polled, and binds its addresses again after it has ended.
macro_rules! polling_client_receives_changes {
    ($client:ty, $server:ty) => {
        let server = <$server>::builder().bind("127.0.0.1:0").await.unwrap();
        let change = |name: &str| Transaction::snapshot("").with(&Cluster { name: name.into() });
        server.apply(change("a").unwrap()).await.unwrap();
        let address = server.bind_rest("127.0.0.1:0", GatewayOptions::default()).await.unwrap();
        let address = address.to_string();
        let taken = server.bind_rest(&address, GatewayOptions::default()).await;
        assert!(matches!(taken, Err(BindError::Listen { .. })), "{taken:?}");

        let polls = PollPolicy::new(Duration::from_millis(1));
        let client = <$client>::connect(&address).polling(polls).profile(Profile::envoy());
        let client = client.node_id("test").start().unwrap();
        let mut clusters = client.watch_all::<Cluster>();
        assert_eq!(applied(&mut clusters).await, "a");
        let more = Transaction::in_view("").with(&Cluster { name: "b".into() }).unwrap();
        server.apply(more).await.unwrap();
        assert_eq!(applied(&mut clusters).await, "b");

        server.run_until(async {}).await.unwrap();
        std::net::TcpListener::bind(&address).unwrap();
        std::net::TcpListener::bind(server.address().to_string()).unwrap();
    };
}

#[tokio::test]
async fn polling_client_receives_changes_until_the_server_ends() {
    polling_client_receives_changes!(Client, ManagementServer);
}

#[cfg(feature = "smol")]
#[tokio::test]
async fn polling_client_on_smol_receives_changes_until_the_server_ends() {
    polling_client_receives_changes!(xds::smol::Client, xds::smol::ManagementServer);
}
