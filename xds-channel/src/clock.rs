//! The runtime's clock as the core's [`Time`].

use std::time::Instant;

use hyper::rt::Timer as _;
use xds_core::Time;
use xds_grpc::runtime::SharedRuntime;

/// Clock that counts from the start of a channel.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    runtime: SharedRuntime,
    start: Instant,
}

impl Clock {
    pub(crate) fn start(runtime: SharedRuntime) -> Self {
        let start = runtime.now();
        Self { runtime, start }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO.after(self.runtime.now().saturating_duration_since(self.start))
    }

    pub(crate) async fn sleep_until(&self, time: Time) {
        self.runtime.sleep_until(self.start + time.since(Time::ZERO)).await;
    }
}
