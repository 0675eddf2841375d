//! Requests to one endpoint: a client status service (CSDS) over gRPC, or Envoy's admin interface
//! over HTTP.

use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use prost::Message as _;
use tokio::time::{Instant, timeout_at};
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
    tls_advice::TlsOptions,
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE: usize = 128 << 20;
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
    /// Maximum time of a request over both protocols, after which the endpoint counts as silent.
    timeout: Duration,
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
    /// No answer in time. The other protocol is not tried.
    Silent,
}

impl Endpoint {
    pub(super) fn new(address: &str, credentials: Credentials, timeout: Duration) -> Self {
        let service = Service::new(address, credentials).with_max_response_bytes(MAX_RESPONSE);
        let mut options = ClientOptions::default();
        options.connect_timeout = timeout;
        let is_http = AtomicBool::new(address.starts_with("http://"));
        Self { address: address.to_owned(), service, options, timeout, is_http }
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
        let deadline = Instant::now() + self.timeout;
        let is_http = self.is_http.load(Ordering::Relaxed);
        let first = match self.over(is_http, wanted, deadline).await {
            Ok(report) => return Ok(report),
            Err(problem) => problem,
        };
        let second = match first {
            RequestProblem::Silent => return Err(self.failure(first)),
            _ => self.over(!is_http, wanted, deadline).await,
        };
        match (first, second) {
            (_, Ok(report)) => {
                self.is_http.store(!is_http, Ordering::Relaxed);
                Ok(report)
            }
            (RequestProblem::Unreached(_), Err(answered @ RequestProblem::Answered(_))) => {
                Err(self.failure(answered))
            }
            (first, Err(_)) => Err(self.failure(first)),
        }
    }

    /// Requests the status over one protocol.
    async fn over(
        &self,
        is_http: bool,
        wanted: Wanted,
        deadline: Instant,
    ) -> Result<StatusReport, RequestProblem> {
        let requested = async {
            match is_http {
                true => self.over_http().await,
                false => self.over_grpc(wanted).await,
            }
        };
        match timeout_at(deadline, requested).await {
            // An attempt to connect may have used up the time.
            Ok(Err(RequestProblem::Unreached(_))) if Instant::now() >= deadline => {
                Err(RequestProblem::Silent)
            }
            Ok(result) => result,
            Err(_) => Err(RequestProblem::Silent),
        }
    }

    fn failure(&self, problem: RequestProblem) -> Failure {
        let address = self.address.clone();
        match problem {
            RequestProblem::Unreached(why) => {
                Failure::Unreached { address, why: TlsOptions::Server.named_in(&why) }
            }
            RequestProblem::Answered(why) => Failure::Status { address, why },
            RequestProblem::Silent => {
                let why = format!("no response within {:?} (--timeout)", self.timeout);
                Failure::Unreached { address, why }
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
            answer = match call.await {
                Ok(response) => Ok(response),
                Err(status) if status.code() == Code::Unimplemented => {
                    Err(format!("{NO_SERVICE} ({})", explained(&status)))
                }
                Err(status) => return Err(RequestProblem::Answered(explained(&status))),
            };
            if answer.is_ok() {
                break;
            }
        }
        let response = answer.map_err(RequestProblem::Answered)?;
        let unreadable =
            |why| RequestProblem::Answered(format!("not a ClientStatusResponse: {why}"));
        let source = SourceReport::from_metadata(response.metadata());
        let report = of_response(response.get_ref()).map_err(unreadable)?;
        Ok(StatusReport { source, ..report })
    }

    async fn over_http(&self) -> Result<StatusReport, RequestProblem> {
        let response = match http_get(&self.service, &self.options, CONFIG_DUMP).await {
            Ok(response) => response,
            Err(why @ GetError::TooLarge(_)) => {
                return Err(RequestProblem::Answered(why.to_string()));
            }
            // Something else than HTTP/1 is as good as no connection.
            Err(why) => return Err(RequestProblem::Unreached(why.to_string())),
        };
        if !response.status.is_success() {
            let advice = match response.status.as_u16() {
                404 => ": it is no admin interface of Envoy",
                _ => "",
            };
            let why = format!("HTTP {} for {CONFIG_DUMP}{advice}", response.status);
            return Err(RequestProblem::Answered(why));
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
