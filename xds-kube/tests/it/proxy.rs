//! TCP proxy in front of the API server, which can silence connections without closing them.

use std::future::pending;

use tokio::{
    io::copy,
    net::{TcpListener, TcpStream},
    select,
    sync::watch,
    task::JoinSet,
};

/// Proxy that ends with its value.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// Number of connections that were opened.
    opened: watch::Receiver<u32>,
    /// Number of connections, in the order in which they were opened, whose responses are dropped.
    silenced: watch::Sender<u32>,
    /// Task that accepts connections.
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (count, opened) = watch::channel(0);
        let (silenced, of_connections) = watch::channel(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = *count.borrow();
                connections.spawn(forward(client, target, number, of_connections.clone()));
                count.send_replace(number + 1);
            }
        });
        Self { port, opened, silenced, _tasks: tasks }
    }

    /// Stops forwarding what the server sends on the connections that are open now.
    pub(crate) fn silence(&self) {
        self.silenced.send_replace(*self.opened.borrow());
    }
}

async fn forward(client: TcpStream, target: u16, number: u32, mut silenced: watch::Receiver<u32>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
    let (mut of_client, mut to_client) = client.into_split();
    let (mut of_server, mut to_server) = server.into_split();
    let silence = async { drop(silenced.wait_for(|it| *it > number).await) };
    let responses = async {
        select! {
            _ = copy(&mut of_server, &mut to_client) => {}
            () = silence => pending().await,
        }
    };
    // An error is the end of the connection.
    select! {
        _ = copy(&mut of_client, &mut to_server) => {}
        () = responses => {}
    }
}
