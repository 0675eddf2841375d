//! gRPC health service (`grpc.health.v1`) of a server.

use core::{
    iter::once,
    task::{Context, Waker},
    time::Duration,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use xds_core::service::service_names;

/// Health status of the server and of each discovery service, which is always the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    reporter: HealthReporter,
    /// Reported status.
    reported: Option<ServingStatus>,
    /// Whether the status is `SERVING`; shared by all clones.
    is_serving: Arc<AtomicBool>,
    phase: HealthPhase,
}

/// Maximum size of a request, which has only the name of a service, in bytes. Incomplete requests
/// count towards no budget.
const MAX_REQUEST: usize = 1 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HealthPhase {
    #[default]
    Running,
    Ended,
}

impl Health {
    pub(crate) fn service(&self) -> HealthServer<HealthService> {
        let service = HealthService::from_health_reporter(self.reporter.clone());
        HealthServer::new(service).max_decoding_message_size(MAX_REQUEST)
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
