//! gRPC health service (`grpc.health.v1`) of a server.

use core::{
    convert::Infallible,
    error::Error,
    iter::once,
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tonic::{body::Body, server::NamedService};
use tonic_health::{ServingStatus, pb::health_server::HealthServer, server::HealthReporter};
use xds_core::service::service_names;

use super::timed_requests::{RequestCount, time_requests};
use crate::{
    runtime::{BoxFuture, SharedRuntime},
    server::memory::budgets::TransportBudgets,
};

/// gRPC health service (`grpc.health.v1.Health`) of a management server, as a tower service.
///
/// A request may have up to 1 KiB and has to arrive within the server's
/// [time for requests](crate::server::ServerOptions::with_request_timeout). Incomplete requests count
/// towards the [budgets of the server](crate::server::ServerOptions::max_incomplete_bytes). Clones serve
/// the same status and do not keep the server alive.
#[derive(Clone, Debug)]
pub struct HealthService {
    service: HealthServer<tonic_health::server::HealthService>,
    budgets: TransportBudgets,
    runtime: SharedRuntime,
}

impl NamedService for HealthService {
    const NAME: &'static str = "grpc.health.v1.Health";
}

impl<B> tower_service::Service<http::Request<B>> for HealthService
where
    B: http_body::Body<Data: Send> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let Self { service, budgets, runtime } = self;
        service.call(time_requests(request, RequestCount::One, MAX_REQUEST, budgets, runtime))
    }
}

/// Health status of the server, which is the same for each discovery service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    reporter: HealthReporter,
    /// Reported status.
    reported: Option<ServingStatus>,
    /// Whether the status is `SERVING`; shared by all clones.
    is_serving: Arc<AtomicBool>,
    phase: HealthPhase,
}

/// Maximum size of a request, which has only the name of a service, in bytes.
const MAX_REQUEST: usize = 1 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HealthPhase {
    #[default]
    Running,
    Ended,
}

impl Health {
    pub(crate) fn service(
        &self,
        budgets: TransportBudgets,
        runtime: SharedRuntime,
    ) -> HealthService {
        let service =
            tonic_health::server::HealthService::from_health_reporter(self.reporter.clone());
        HealthService { service: HealthServer::new(service), budgets, runtime }
    }

    pub(crate) async fn set(&mut self, status: ServingStatus) {
        if self.reported.replace(status) == Some(status) {
            return;
        }
        self.is_serving.store(status == ServingStatus::Serving, Ordering::Release);
        for name in names() {
            self.reporter.set_service_status(name, status).await;
        }
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Acquire)
    }

    /// Reports the end of the server and ends all health watches. Also called if the driver is
    /// dropped.
    pub(crate) fn end(&mut self) {
        if core::mem::replace(&mut self.phase, HealthPhase::Ended) == HealthPhase::Ended {
            return;
        }
        let mut health = self.clone();
        let mut ending = Box::pin(async move {
            health.set(ServingStatus::NotServing).await;
            for name in names() {
                health.reporter.clear_service_status(name).await;
            }
        });
        // The reporter only waits for locks that other tasks hold briefly, and for tokio's
        // cooperative budget. It is polled without a runtime, since there may be none any more.
        let mut poll = move || {
            let mut cx = Context::from_waker(Waker::noop());
            ending.as_mut().poll(&mut cx).is_pending()
        };
        if poll() {
            // If no thread can be created, the watches are not ended.
            let _ = thread::Builder::new().name("health".into()).spawn(move || {
                while poll() {
                    thread::sleep(PAUSE);
                }
            });
        }
    }
}

/// Time between polls.
const PAUSE: Duration = Duration::from_millis(1);

fn names() -> impl Iterator<Item = &'static str> {
    once("").chain(service_names())
}
