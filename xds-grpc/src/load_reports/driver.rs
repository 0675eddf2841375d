//! Streams of load reports to one server, one after the other.

use core::{future::poll_fn, time::Duration};
use std::sync::Arc;

use bytes::Bytes;
use futures_channel::mpsc;
use tokio::select;
use tonic::{Status, Streaming};
use xds_core::{
    Time,
    client::Node,
    load_reports::{LoadReporter, METHOD},
};

use super::server::ServerReports;
use crate::{
    address::without_credentials,
    client::{CallConnection, ClientOptions},
    clock::Clock,
    runtime::SharedRuntime,
};

/// Maximum size of a message of the server, which is a list of cluster names: 4 MiB, as in gRPC.
const MAX_RESPONSE: usize = 4 << 20;

/// Maximum time for the server to read the last report.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Parameters of all streams of load reports of a client.
#[derive(Clone, Debug)]
pub(super) struct Reporting {
    pub(super) runtime: SharedRuntime,
    pub(super) clock: Clock,
    pub(super) node: Arc<Node>,
    pub(super) options: ClientOptions,
}

impl Reporting {
    /// Reports the load of clusters to a server as long as there are any.
    pub(super) async fn run(self, server: Arc<ServerReports>) {
        let seed = self.options.seed.unwrap_or_else(|| self.runtime.runtime().entropy());
        let mut reporter = LoadReporter::new(&self.node, seed);
        let (mut failures, mut is_failing) = (0_usize, false);
        while !server.end_task() {
            let ended = self.run_stream(&server, &mut reporter, failures).await;
            let has_reported = reporter.poll_timeout().is_some();
            let retry = reporter.closed(self.clock.now());
            let Err(status) = ended else { continue };
            is_failing &= !has_reported;
            let address = without_credentials(&server.address.uri);
            if core::mem::replace(&mut is_failing, true) {
                tracing::debug!(server = %address, %status, "load reports failed again");
            } else {
                tracing::warn!(server = %address, %status, "load reports failed");
            }
            if !has_reported {
                failures = failures.wrapping_add(1);
            }
            select! {
                biased;
                () = self.clock.sleep_until(retry) => {}
                () = until_unused(&server) => {}
            }
        }
    }

    /// Opens a stream and sends reports, until the last cluster is removed.
    async fn run_stream(
        &self,
        server: &ServerReports,
        reporter: &mut LoadReporter,
        failures: usize,
    ) -> Result<(), Status> {
        let opened = select! {
            biased;
            opened = self.open(server, reporter, failures) => opened?,
            () = until_unused(server) => return Ok(()),
        };
        let (mut requests, mut responses) = opened;
        while server.has_clusters() {
            select! {
                biased;
                response = responses.message() => self.handle(response?, reporter)?,
                // Until the last report was read, calls are still being counted.
                () = self.until_room(reporter.poll_timeout(), &mut requests) => {
                    let now = self.clock.now();
                    if let Some(report) = reporter.report(now, |wanted| server.take(wanted, now)) {
                        send(&mut requests, report)?;
                    }
                }
            }
        }
        drop(requests);
        let _ = self.runtime.timeout(CLOSE_TIMEOUT, responses.message()).await;
        Ok(())
    }

    /// Opens a stream. Returns when the server has requested reports.
    async fn open(
        &self,
        server: &ServerReports,
        reporter: &mut LoadReporter,
        failures: usize,
    ) -> Result<(mpsc::Sender<Bytes>, Streaming<Bytes>), Status> {
        let service = self.options.transports.service(&server.address, failures);
        let service = service.map_err(Status::unavailable)?;
        let limit = service.max_response_bytes().min(MAX_RESPONSE);
        let service = service.with_max_response_bytes(limit);
        let connecting = CallConnection::open_on(self.runtime.clone(), service, &self.options);
        let connection = connecting.await.map_err(|why| Status::unavailable(why.to_string()))?;
        // A sender has one guaranteed slot, and there is only one sender.
        let (mut requests, queue) = mpsc::channel(0);
        send(&mut requests, reporter.open())?;
        let mut responses = connection.stream(METHOD, queue).await?;
        self.handle(responses.message().await?, reporter)?;
        Ok((requests, responses))
    }

    /// Handles a message of the server, or the end of its messages.
    fn handle(&self, response: Option<Bytes>, reporter: &mut LoadReporter) -> Result<(), Status> {
        let ended = || Status::unavailable("the server has ended the stream");
        let handled = reporter.handle_response(&response.ok_or_else(ended)?, self.clock.now());
        handled.map_err(|why| Status::internal(why.to_string()))
    }

    /// Waits until a report is due and the queue has room for it.
    async fn until_room(&self, due: Option<Time>, requests: &mut mpsc::Sender<Bytes>) {
        match due {
            Some(due) => self.clock.sleep_until(due).await,
            None => core::future::pending().await,
        }
        // A closed queue is an end of the stream, which is noticed elsewhere.
        let _ = poll_fn(|cx| requests.poll_ready(cx)).await;
    }
}

/// Waits until there are no clusters, and removes unused ones. Their last counts are lost.
async fn until_unused(server: &ServerReports) {
    while server.remove_unused() {
        server.changed.notified().await;
    }
}

fn send(requests: &mut mpsc::Sender<Bytes>, message: Vec<u8>) -> Result<(), Status> {
    let sent = requests.try_send(Bytes::from(message));
    sent.map_err(|_| Status::unavailable("the stream has ended"))
}
