//! End of servers: addresses that are used again.

use core::time::Duration;

use xds::{ManagementServer, server::DrainPlan};

use crate::support::server;

/// Ends a server in one of three ways.
async fn end(server: &ManagementServer, way: usize) {
    match way % 3 {
        0 => server.handle().shut_down().await,
        1 => server.handle().drain(DrainPlan::new(Duration::from_secs(5))).await,
        _ => server.run_until(async {}).await.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn address_is_free_when_the_server_has_ended() {
    let first = server().await;
    let address = first.address().to_string();
    end(&first, 0).await;
    for way in 0..60 {
        let bound = ManagementServer::builder().bind(&address).await;
        end(&bound.unwrap_or_else(|error| panic!("attempt {way}: {error}")), way).await;
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn socket_file_is_removed_when_the_server_has_ended() {
    let name = format!("xds-lifecycle-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let address = format!("unix:{}", path.display());
    for way in 0..60 {
        let server = ManagementServer::builder().bind(&address).await.unwrap();
        end(&server, way).await;
        assert!(!path.exists(), "attempt {way}");
    }
}
