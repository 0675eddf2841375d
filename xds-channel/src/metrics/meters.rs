//! Measurement of a call and of its attempts.

use core::sync::atomic::{AtomicU64, Ordering};
use std::{sync::Arc, time::Instant};

use hyper::rt::Timer as _;
use tonic::{Code, body::Body};
use xds_core::proto::Locality;
use xds_grpc::runtime::SharedRuntime;

use super::{
    ChannelInstrument, SharedMetrics,
    messages::{MessageBytes, counted},
};

/// Call whose metrics are recorded.
#[derive(Debug)]
struct MeteredCall {
    metrics: SharedMetrics,
    target: Arc<str>,
    method: Box<str>,
    deadline: Option<Instant>,
    runtime: SharedRuntime,
}

/// Measurement of a call. It is recorded when it is dropped.
#[derive(Debug)]
pub(crate) struct CallMeter {
    call: Arc<MeteredCall>,
    began: Instant,
    status: Option<Code>,
}

/// Measurements of a call whose response has begun, if there are any. The attempt is recorded first.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    attempt: Option<AttemptMeter>,
    call: Option<CallMeter>,
}

impl Meters {
    /// Creates the measurements of an attempt whose response has begun. The status applies if the
    /// response has no other one.
    pub(crate) fn of_attempt(mut attempt: Option<AttemptMeter>, status: Option<Code>) -> Self {
        attempt.iter_mut().for_each(|it| it.status = status);
        Self { attempt, call: None }
    }

    /// Adds the call. It has the status of the attempt, if that is known already.
    pub(crate) fn set_call(&mut self, call: Option<CallMeter>) {
        self.call = call;
        if let Some(status) = self.attempt.as_ref().and_then(|it| it.status) {
            self.set_status(status);
        }
    }

    pub(crate) fn set_status(&mut self, status: Code) {
        self.attempt.iter_mut().for_each(|it| it.set_status(status));
        self.call.iter_mut().for_each(|it| it.set_status(status));
    }

    /// Counts received bytes.
    pub(crate) fn received(&mut self, data: &[u8]) {
        self.attempt.iter_mut().for_each(|it| it.received.add(data));
    }
}

/// Measurement of an attempt. It is recorded when it is dropped.
#[derive(Debug)]
pub(crate) struct AttemptMeter {
    call: Arc<MeteredCall>,
    began: Instant,
    status: Option<Code>,
    sent: Arc<AtomicU64>,
    received: MessageBytes,
    locality: String,
    backend_service: String,
}

impl MeteredCall {
    /// Returns the status of a call or attempt that was dropped without one.
    fn status(&self, known: Option<Code>) -> Code {
        known.unwrap_or_else(|| match self.deadline {
            Some(deadline) if deadline <= self.runtime.now() => Code::DeadlineExceeded,
            _ => Code::Cancelled,
        })
    }

    fn seconds_since(&self, began: Instant) -> f64 {
        self.runtime.now().saturating_duration_since(began).as_secs_f64()
    }

    fn labels(&self) -> [(&'static str, &str); 2] {
        [("grpc.method", &*self.method), ("grpc.target", &*self.target)]
    }
}

impl CallMeter {
    /// Begins a call of the method with this path.
    pub(crate) fn start(
        metrics: &SharedMetrics,
        target: &Arc<str>,
        path: &str,
        runtime: &SharedRuntime,
    ) -> Self {
        let call = MeteredCall {
            metrics: metrics.clone(),
            target: Arc::clone(target),
            method: path.strip_prefix('/').unwrap_or(path).into(),
            deadline: None,
            runtime: runtime.clone(),
        };
        Self { call: Arc::new(call), began: runtime.now(), status: None }
    }

    /// Sets the deadline, before the first attempt.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        if let Some(call) = Arc::get_mut(&mut self.call) {
            call.deadline = deadline;
        }
    }

    pub(crate) const fn set_status(&mut self, status: Code) {
        self.status = Some(status);
    }

    /// Begins an attempt.
    pub(crate) fn start_attempt(&self) -> AttemptMeter {
        AttemptMeter::start(Arc::clone(&self.call))
    }
}

impl AttemptMeter {
    fn start(call: Arc<MeteredCall>) -> Self {
        call.metrics.0.count(ChannelInstrument::AttemptStarted, &call.labels(), 1);
        Self {
            began: call.runtime.now(),
            call,
            status: None,
            sent: Arc::default(),
            received: MessageBytes::default(),
            locality: String::new(),
            backend_service: String::new(),
        }
    }

    /// Begins another attempt of the call.
    pub(crate) fn start_next(&self) -> Self {
        Self::start(Arc::clone(&self.call))
    }

    pub(crate) const fn set_status(&mut self, status: Code) {
        self.status = Some(status);
    }

    /// Sets the cluster that the attempt is sent to.
    pub(crate) fn set_cluster(&mut self, cluster: &str) {
        self.backend_service.clear();
        self.backend_service.push_str(cluster);
    }

    /// Sets the locality of the endpoint, as A78 formats it.
    pub(crate) fn set_locality(&mut self, locality: &Locality) {
        let Locality { region, zone, sub_zone } = locality;
        self.locality =
            format!("{{region=\"{region}\", zone=\"{zone}\", sub_zone=\"{sub_zone}\"}}");
    }

    /// Returns a request body whose messages are counted.
    pub(crate) fn sending(&self, body: Body) -> Body {
        self.sent.store(0, Ordering::Relaxed);
        counted(body, &self.sent)
    }
}

impl Drop for CallMeter {
    fn drop(&mut self) {
        let call = &*self.call;
        let [method, target] = call.labels();
        let labels = [method, target, ("grpc.status", status_name(call.status(self.status)))];
        let seconds = call.seconds_since(self.began);
        call.metrics.0.record(ChannelInstrument::CallDuration, &labels, seconds);
    }
}

impl Drop for AttemptMeter {
    fn drop(&mut self) {
        let call = &*self.call;
        let [method, target] = call.labels();
        let labels = [
            method,
            target,
            ("grpc.status", status_name(call.status(self.status))),
            ("grpc.lb.locality", &*self.locality),
            ("grpc.lb.backend_service", &*self.backend_service),
        ];
        let metrics = &*call.metrics.0;
        let seconds = call.seconds_since(self.began);
        let sent = self.sent.load(Ordering::Relaxed);
        metrics.record(ChannelInstrument::AttemptDuration, &labels, seconds);
        metrics.record(ChannelInstrument::AttemptSentBytes, &labels, sent as f64);
        let received = self.received.total as f64;
        metrics.record(ChannelInstrument::AttemptReceivedBytes, &labels, received);
    }
}

/// Returns the name of a status code.
const fn status_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
