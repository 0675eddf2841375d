//! Metrics of calls ([gRFC A66], [gRFC A78], [gRFC A89]).
//!
//! | file | content |
//! |---|---|
//! | `instrument.rs` | names, units and buckets |
//! | `meters.rs` | measurement of a call and of its attempts |
//! | `messages.rs` | sizes of messages |
//!
//! [gRFC A66]: https://github.com/grpc/proposal/blob/master/A66-otel-stats.md
//! [gRFC A78]: https://github.com/grpc/proposal/blob/master/A78-grpc-metrics-wrr-pf-xds.md
//! [gRFC A89]: https://github.com/grpc/proposal/blob/master/A89-backend-service-metric-label.md

mod instrument;
mod messages;
mod meters;

use core::fmt;
use std::sync::Arc;

pub use self::instrument::ChannelInstrument;
pub(crate) use self::meters::{AttemptMeter, CallMeter, Meters};

/// Receiver of the measurements of a channel's calls, implemented for a metrics library.
///
/// Labels are pairs of name and value, always in the same order for an instrument. Measurements of
/// a call are made by the tasks that make the call and read its response, so an implementation must
/// not block.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use xds_channel::{ChannelInstrument, ChannelMetrics, ChannelOptions};
///
/// /// Number of attempts.
/// #[derive(Default)]
/// struct Attempts(AtomicU64);
///
/// impl ChannelMetrics for Attempts {
///     fn count(&self, what: ChannelInstrument, _: &[(&'static str, &str)], number: u64) {
///         if what == ChannelInstrument::AttemptStarted {
///             self.0.fetch_add(number, Ordering::Relaxed);
///         }
///     }
///
///     fn record(&self, _: ChannelInstrument, _: &[(&'static str, &str)], _: f64) {}
/// }
///
/// let options = ChannelOptions::new("node-1").with_metrics(Attempts::default());
/// # drop(options);
/// ```
pub trait ChannelMetrics: Send + Sync {
    /// Adds to a counter.
    fn count(&self, instrument: ChannelInstrument, labels: &[(&'static str, &str)], number: u64);

    /// Adds a value to a histogram.
    fn record(&self, instrument: ChannelInstrument, labels: &[(&'static str, &str)], value: f64);
}

/// Receiver of the measurements of a channel.
#[derive(Clone)]
pub(crate) struct SharedMetrics(pub(crate) Arc<dyn ChannelMetrics>);

impl fmt::Debug for SharedMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelMetrics")
    }
}
