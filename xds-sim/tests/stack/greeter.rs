//! A gRPC service that names its host, and clients of tonic.

use core::time::Duration;

use tokio::time::sleep;
use tonic::{Request, Response, Status, codegen::tokio_stream::Empty};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_client::HealthClient,
    health_server::{Health, HealthServer},
};
use xds_sim::stack::{Host, Serving, Stage, check::check};

/// Port of the service.
pub(crate) const GREETER: u16 = 50_051;

/// Health service that answers after a delay, with the name of its host in a header.
#[derive(Clone, Debug)]
pub(crate) struct Greeter {
    name: String,
    delay: Duration,
}

impl Greeter {
    pub(crate) fn new(name: &str, delay: Duration) -> Self {
        Self { name: name.into(), delay }
    }

    /// Serves on a host.
    pub(crate) fn serve(host: &Host, delay: Duration) -> Serving {
        let greeter = Self { name: host.name().into(), delay };
        host.serve(GREETER, HealthServer::new(greeter)).expect("a free port")
    }
}

#[tonic::async_trait]
impl Health for Greeter {
    type WatchStream = Empty<Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        sleep(self.delay).await;
        let mut response = Response::new(HealthCheckResponse::default());
        response.metadata_mut().insert("host", self.name.parse().expect("a header"));
        Ok(response)
    }

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("only checks"))
    }
}

/// Returns the name of the host in an answer.
pub(crate) fn host_of(answer: &Response<HealthCheckResponse>) -> String {
    let name = answer.metadata().get("host").expect("a header");
    name.to_str().expect("a name").into()
}

/// A client of tonic and a service of tonic's routes, with faults between them: a call fails only
/// while there are some, and the service drains before its host ends.
async fn call_through_faults(stage: &Stage) {
    let (near, far) = (stage.host("client"), stage.host("server"));
    let routes = || {
        let greeter = Greeter { name: "server".into(), delay: Duration::from_millis(30) };
        tonic::service::Routes::new(HealthServer::new(greeter))
    };
    let mut serving = far.serve(GREETER, routes()).expect("a free port");
    let endpoint = tonic::transport::Endpoint::from_static("http://server:50051")
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .connect_timeout(Duration::from_secs(5));
    let mut client = HealthClient::new(endpoint.connect_with_connector_lazy(near.connector()));
    let answer = client.check(HealthCheckRequest::default()).await.expect("no fault yet");
    assert_eq!(host_of(&answer), "server");
    for _ in 0..stage.below("number of faults", 6) {
        match stage.below("fault", 5) {
            0 => stage.reset(&near, &far),
            1 => stage.go_away(&far, &near),
            2 => stage.lose_connections(&near, &far),
            3 => serving.shut_down().await,
            _ => stage.kill(&far),
        }
        stage.kill(&far);
        serving = far.serve(GREETER, routes()).expect("the killed host has left its port");
        let wait = stage.choices().pick("wait", &[1_u64, 40, 3_000]);
        sleep(Duration::from_millis(wait)).await;
        let mut tries = 0;
        // tonic connects again after a failed call.
        while client.check(HealthCheckRequest::default()).await.is_err() {
            tries += 1;
            sleep(Duration::from_secs(1)).await;
            if tries > 3 {
                stage.violate("recovers", "a client recovers from a lost connection", "no answer");
                return;
            }
        }
    }
    let (mut slow, closing) = (client.clone(), serving.shut_down());
    let call = async move { slow.check(HealthCheckRequest::default()).await };
    let call = tokio::spawn(call);
    sleep(Duration::from_millis(10)).await;
    closing.await;
    if let Err(why) = call.await.expect("no panic") {
        stage.violate("drains", "a call that has begun ends before the service", why.to_string());
    }
}

#[test]
fn tonic_client_and_service_survive_faults() {
    let summary = check(0..150, &call_through_faults);
    assert_eq!(summary.runs, 150);
    // Nothing of tonic or tokio differs between two runs of a seed.
    assert_eq!(check(0..150, &call_through_faults).hash, summary.hash);
}

/// A killed host ends the connections and listeners of tonic's own server, whose tasks are tokio's.
#[test]
fn killed_host_closes_what_tasks_of_tokio_hold() {
    let report = Stage::run(1, async |stage| {
        let (near, far) = (stage.host("client"), stage.host("server"));
        let listener = far.listen((far.address(), GREETER).into()).expect("a free port");
        let accepting = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((socket, _)) = listener.accept().await {
                held.push(socket);
            }
            held.len()
        });
        let mut socket = near.dial((far.address(), GREETER).into()).await.expect("it listens");
        stage.settle().await;
        stage.kill(&far);
        assert_eq!(accepting.await.expect("no panic"), 1);
        let read = tokio::io::AsyncReadExt::read_u8(&mut socket).await;
        assert_eq!(read.map_err(|why| why.kind()), Err(std::io::ErrorKind::ConnectionReset));
        let refused = near.dial((far.address(), GREETER).into()).await;
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        far.listen((far.address(), GREETER).into()).expect("a free port");
    });
    assert_eq!(report.trace.violation, None);
}
