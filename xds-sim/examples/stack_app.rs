//! An application in virtual time, with faults of the network: it has to have its configuration in
//! the end. `unwrap` in place of the loop is a bug, which is found and shrunk.
use std::time::Duration;
use xds_core::{client::Notice, types::CLUSTER};
use xds_handle::{ClientHandle, Watch};
use xds_sim::{Toy, app};

async fn text_of(watch: &mut Watch) -> String {
    loop {
        match watch.next().await.expect("the client lives").expect("a valid watch") {
            Notice::Changed(Ok(resource)) => return Toy::text_of(&resource.bytes),
            // The server cannot be reached: wait for it.
            Notice::Changed(Err(error)) => println!("no configuration yet: {error}"),
            _ => {}
        }
    }
}

async fn run(client: ClientHandle) {
    let mut watch = client.watch_untyped(CLUSTER, "limits");
    while text_of(&mut watch).await != "new" {}
    tokio::spawn(tokio::time::sleep(Duration::from_secs(60))).await.expect("no panic");
}

pub(crate) fn main() {
    let bytes = |text| Toy::bytes("limits", text);
    let app = app(run).with_resource(CLUSTER, "limits", bytes("old"));
    let app = app.with_change(Duration::from_secs(20), CLUSTER, "limits", Some(bytes("new")));
    println!("{:?}", app.check(0..200));
}
