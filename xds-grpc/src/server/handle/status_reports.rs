//! Client status for client status discovery (CSDS), in parts between which other work is done.

use std::{sync::Arc, time::UNIX_EPOCH, vec};

use prost::Message as _;
use xds_core::{
    StreamId, Time,
    client::{Contents, WallClock},
    proto::{Any, ClientConfig},
    server::{ClientStatus, Server},
};

use super::{ServerEnded, ServerHandle};
use crate::server::driver::turns::MAX_BYTES;

/// Number of node id comparisons after which a report waits for its next turn. A comparison of long
/// ids takes some microseconds.
const COMPARISONS: usize = 128;

/// Maximum number of clients that the driver examines per iteration for a report.
const MAX_CLIENTS: usize = 128;

impl ServerHandle {
    /// Returns the status of the visible clients whose node ids match, for client status discovery.
    /// The driver examines the clients in several iterations, so that many clients do not block other
    /// work. Node ids are matched in this future, because that may take long: `comparisons` is the
    /// number of comparisons per node id. Clients that disconnect meanwhile are omitted.
    // IS25
    pub(crate) async fn client_configs(
        &self,
        matches: impl Fn(&str) -> bool + Send + Sync,
        comparisons: usize,
        is_visible: impl Fn(ClientStatus<'_>) -> bool + Send + Sync + 'static,
        contents: Contents,
    ) -> Result<Vec<ClientConfig>, ServerEnded> {
        let is_visible = Arc::new(is_visible);
        let mut clients = self.matching_clients(matches, comparisons).await?.into_iter();
        let mut configs = Vec::new();
        while clients.len() > 0 {
            let (is_visible, runtime) = (Arc::clone(&is_visible), self.runtime.clone());
            let steady_clock = self.clock.clone();
            let report = move |server: &mut Server, now: Time| {
                let since_1970 =
                    runtime.system_time().duration_since(UNIX_EPOCH).unwrap_or_default();
                let clock = steady_clock.at(since_1970, now);
                let part = report_part(server, &mut clients, &*is_visible, contents, clock);
                (clients, part)
            };
            let part;
            (clients, part) = self.with_server(report).await?;
            configs.extend(part);
        }
        Ok(configs)
    }

    /// Returns the clients whose node ids match.
    async fn matching_clients(
        &self,
        matches: impl Fn(&str) -> bool + Send + Sync,
        comparisons: usize,
    ) -> Result<Vec<StreamId>, ServerEnded> {
        let streams = self.with_server(|server, _| {
            server.client_statuses().map(|client| client.stream()).collect::<Vec<_>>()
        });
        let mut matching = Vec::new();
        for batch in streams.await?.chunks((COMPARISONS / comparisons.max(1)).max(1)) {
            let streams = batch.to_vec();
            let nodes = self.with_server(move |server, _| {
                let server = &*server;
                let clients = streams.into_iter().filter_map(|id| server.client_status(id));
                clients.map(|it| (it.stream(), String::from(it.node_id()))).collect::<Vec<_>>()
            });
            let nodes = nodes.await?.into_iter().filter(|(_, node_id)| matches(node_id));
            matching.extend(nodes.map(|(stream, _)| stream));
        }
        Ok(matching)
    }
}

/// Takes clients and reports the visible ones, until their number or the copied bytes reach the
/// maximum of an iteration. The last client may exceed the bytes.
fn report_part(
    server: &Server,
    clients: &mut vec::IntoIter<StreamId>,
    is_visible: impl Fn(ClientStatus<'_>) -> bool,
    contents: Contents,
    clock: WallClock,
) -> Vec<ClientConfig> {
    let (mut configs, mut bytes) = (Vec::new(), 0);
    for stream in clients.take(MAX_CLIENTS) {
        let client = server.client_status(stream).filter(|it| is_visible(*it));
        if let Some(config) = client.map(|it| it.to_message(contents, clock)) {
            bytes += copied_bytes(&config);
            configs.push(config);
        }
        if bytes >= MAX_BYTES {
            break;
        }
    }
    configs
}

/// Returns the encoded size of a client's status without the contents of resources, which are shared
/// and not copied.
fn copied_bytes(config: &ClientConfig) -> usize {
    let contents = config.generic_xds_configs.iter().flat_map(|it| {
        let rejected = it.error_state.as_ref().and_then(|it| it.failed_configuration.as_ref());
        [it.xds_config.as_ref(), rejected].into_iter().flatten()
    });
    let shared: usize = contents.map(|any: &Any| any.value.len()).sum();
    config.encoded_len().saturating_sub(shared)
}
