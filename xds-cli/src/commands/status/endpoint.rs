//! Requests to one endpoint: a client status service (CSDS) over gRPC, or Envoy's admin interface
//! over HTTP.

use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use prost::Message as _;
use tokio::time::timeout;
use tonic::Code;
use tracing::warn;
use xds_core::proto::ClientStatusRequest;
use xds_tokio::{
    ClientOptions, Credentials,
    client::{GetError, Service, http_get, open_calls},
    server::SourceReport,
};

use crate::{
    args::StatusOutput,
    client_status::{Filter, StatusReport, of_config_dump, of_response},
    failure::Failure,
    text::{escaped, one_line},
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE: usize = 128 << 20;
/// Maximum time of an attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time of a request, after which the endpoint counts as silent.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of characters of an error of the peer.
const REASON: usize = 400;

const METHODS: [&str; 2] = [
    "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus",
    "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus",
];
const CONFIG_DUMP: &str = "/config_dump?include_eds";
/// Error of a gRPC server without CSDS, such as that of `xds serve --listen`.
const NO_SERVICE: &str =
    "no client status service (CSDS) at this address; `xds serve` offers it on that of --csds";

/// Parts of resources to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Resources with their contents.
    Contents,
    /// Only names, versions and errors. A peer may send contents in spite of it.
    Status,
}

impl Wanted {
    pub(super) fn of(output: StatusOutput) -> Self {
        match output {
            StatusOutput::Table => Self::Status,
            StatusOutput::Json | StatusOutput::Ndjson | StatusOutput::Yaml => Self::Contents,
        }
    }
}

/// Endpoint to request the status from.
#[derive(Debug)]
pub(super) struct Endpoint {
    address: String,
    service: Service,
    options: ClientOptions,
    /// Whether HTTP is tried before gRPC. Set once a response came over HTTP.
    is_http: AtomicBool,
}

/// Failed request.
#[derive(Debug)]
enum RequestProblem {
    /// No connection, or none in the protocol of the request.
    Unreached(String),
    /// Answer of the peer that is not a status.
    Answered(String),
}

impl Endpoint {
    pub(super) fn new(address: &str, credentials: Credentials) -> Self {
        let service = Service::new(address, credentials).with_max_response_bytes(MAX_RESPONSE);
        let mut options = ClientOptions::default();
        options.connect_timeout = CONNECT_TIMEOUT;
        let is_http = AtomicBool::new(address.starts_with("http://"));
        Self { address: address.to_owned(), service, options, is_http }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Requests the status, and applies a filter. Warns of what cannot be read.
    pub(super) async fn report(
        &self,
        wanted: Wanted,
        filter: &Filter,
    ) -> Result<StatusReport, Failure> {
        let report = self.request(wanted).await?;
        for why in &report.warnings {
            warn!("not shown: {}", escaped(why));
        }
        Ok(report.selected(filter))
    }

    async fn request(&self, wanted: Wanted) -> Result<StatusReport, Failure> {
        let is_http = self.is_http.load(Ordering::Relaxed);
        let (first, second) = if is_http {
            match self.over_http().await {
                Ok(report) => return Ok(report),
                Err(http) => (http, self.over_grpc(wanted).await),
            }
        } else {
            match self.over_grpc(wanted).await {
                Ok(report) => return Ok(report),
                Err(grpc) => (grpc, self.over_http().await),
            }
        };
        let address = self.address.clone();
        match (first, second) {
            (_, Ok(report)) => {
                self.is_http.store(!is_http, Ordering::Relaxed);
                Ok(report)
            }
            (RequestProblem::Unreached(why), Err(RequestProblem::Unreached(_))) => {
                Err(Failure::Unreached { address, why })
            }
            (RequestProblem::Answered(why), _) | (_, Err(RequestProblem::Answered(why))) => {
                Err(Failure::Status { address, why })
            }
        }
    }

    async fn over_grpc(&self, wanted: Wanted) -> Result<StatusReport, RequestProblem> {
        let connection = open_calls(self.service.clone(), &self.options).await;
        let connection = connection.map_err(|why| RequestProblem::Unreached(why.to_string()))?;
        let request = ClientStatusRequest {
            exclude_resource_contents: wanted == Wanted::Status,
            ..ClientStatusRequest::default()
        };
        let request = request.encode_to_vec();
        let mut answer = Err("no method".to_owned());
        for method in METHODS {
            let call = connection.call_with_metadata(method, request.clone().into());
            answer = match timeout(REQUEST_TIMEOUT, call).await {
                Ok(Ok(response)) => Ok(response),
                Ok(Err(status)) if status.code() == Code::Unimplemented => {
                    Err(format!("{NO_SERVICE} ({})", explained(&status)))
                }
                Ok(Err(status)) => return Err(RequestProblem::Answered(explained(&status))),
                Err(_) => return Err(RequestProblem::Answered(silent())),
            };
            if answer.is_ok() {
                break;
            }
        }
        let response = answer.map_err(RequestProblem::Answered)?;
        let unreadable =
            |why| RequestProblem::Answered(format!("not a ClientStatusResponse: {why}"));
        let source = SourceReport::of_metadata(response.metadata());
        let report = of_response(response.get_ref()).map_err(unreadable)?;
        Ok(StatusReport { source, ..report })
    }

    async fn over_http(&self) -> Result<StatusReport, RequestProblem> {
        let get = http_get(&self.service, &self.options, CONFIG_DUMP);
        let response = match timeout(REQUEST_TIMEOUT, get).await {
            Ok(Ok(response)) => response,
            Ok(Err(why @ GetError::TooLarge(_))) => {
                return Err(RequestProblem::Answered(why.to_string()));
            }
            // Something else than HTTP/1 is as good as no connection.
            Ok(Err(why)) => return Err(RequestProblem::Unreached(why.to_string())),
            Err(_) => return Err(RequestProblem::Unreached(silent())),
        };
        if !response.status.is_success() {
            return Err(RequestProblem::Answered(format!(
                "HTTP {} for {CONFIG_DUMP}",
                response.status
            )));
        }
        of_config_dump(&response.body).map_err(RequestProblem::Answered)
    }
}

fn explained(status: &tonic::Status) -> String {
    match status.message() {
        "" => format!("{:?}", status.code()),
        message => format!("{:?}: {}", status.code(), one_line(message, REASON)),
    }
}

fn silent() -> String {
    format!("no response within {} s", REQUEST_TIMEOUT.as_secs())
}
