//! The server's health, for those who ask over gRPC (`grpc.health.v1`).

use core::iter::once;

use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use xds_core::service::service_names;

/// What is told of the server as a whole, and of each discovery service, which are all as well as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    reporter: HealthReporter,
    /// What is told now.
    told: Option<ServingStatus>,
}

impl Health {
    pub(crate) fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    pub(crate) async fn set(&mut self, status: ServingStatus) {
        if self.told.replace(status) == Some(status) {
            return;
        }
        for name in names() {
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// The server has ended. Whoever watches is told so, and not kept.
    pub(crate) async fn end(&mut self) {
        self.set(ServingStatus::NotServing).await;
        for name in names() {
            self.reporter.clear_service_status(name).await;
        }
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    once("").chain(service_names())
}
