//! Balancer in front of the replicas: it forwards connections to one of them at a time.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    select,
    sync::watch,
    task::JoinHandle,
};

use crate::failure::DemoFailure;

/// Balancer. It stops when it is dropped.
#[derive(Debug)]
pub(super) struct Balancer {
    pub(super) address: SocketAddr,
    target: watch::Sender<SocketAddr>,
    task: JoinHandle<()>,
}

impl Balancer {
    pub(super) async fn start(target: SocketAddr) -> Result<Self, DemoFailure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(DemoFailure::Listen)?;
        let address = listener.local_addr().map_err(DemoFailure::Listen)?;
        let (target, targets) = watch::channel(target);
        let task = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(forward(connection, targets.clone()));
            }
        });
        Ok(Self { address, target, task })
    }

    /// Sends new connections to this replica, and closes those to others.
    pub(super) fn move_to(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut near: TcpStream, mut targets: watch::Receiver<SocketAddr>) {
    let target = *targets.borrow_and_update();
    // A replica that cannot be reached closes the connection.
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    select! {
        _ = copy_bidirectional(&mut near, &mut far) => {}
        // The balancer has ended if there is an error.
        _ = targets.changed() => {}
    }
}
