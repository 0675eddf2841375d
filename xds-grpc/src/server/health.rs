//! The server's health, for those who ask over gRPC (`grpc.health.v1`).

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

/// What is told of the server as a whole, and of each discovery service, which are all as well as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    reporter: HealthReporter,
    /// What is told now.
    told: Option<ServingStatus>,
    /// Whether that is `SERVING`; shared by all clones.
    is_serving: Arc<AtomicBool>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Running,
    Ended,
}

impl Health {
    pub(crate) fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    pub(crate) async fn set(&mut self, status: ServingStatus) {
        if self.told.replace(status) == Some(status) {
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

    /// The server has ended, if only because its driver was dropped. Whoever watches is told so, and not kept.
    pub(crate) fn end(&mut self) {
        if core::mem::replace(&mut self.phase, Phase::Ended) == Phase::Ended {
            return;
        }
        let mut health = self.clone();
        let mut ending = Box::pin(async move {
            health.set(ServingStatus::NotServing).await;
            for name in names() {
                health.reporter.clear_service_status(name).await;
            }
        });
        // The reporter waits for nothing but others that look at it in the same moment, and for a task that has had
        // its share. There may be no runtime any more that waited with it.
        let mut poll = move || {
            let mut cx = Context::from_waker(Waker::noop());
            ending.as_mut().poll(&mut cx).is_pending()
        };
        if poll() {
            // Where there can be no more threads, nobody is told.
            let _ = thread::Builder::new().name("health".into()).spawn(move || {
                while poll() {
                    thread::sleep(PAUSE);
                }
            });
        }
    }
}

/// How long others may look meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

fn names() -> impl Iterator<Item = &'static str> {
    once("").chain(service_names())
}
