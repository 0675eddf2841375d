//! Instruments: names, units and buckets.

/// Measured quantity of a channel's calls.
///
/// Every instrument has the labels `grpc.method` (such as `grpc.health.v1.Health/Check`) and
/// `grpc.target` (such as `xds:///shop`). The method is the path that the application calls: if that
/// can be any text, the receiver should limit the number of different methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ChannelInstrument {
    /// Counter: attempts that have begun. A call has several if it is repeated by a retry policy, or
    /// because an endpoint has not processed it.
    AttemptStarted,
    /// Histogram: seconds from the beginning of an attempt, which includes the choice of an endpoint,
    /// to its end. Further labels: `grpc.status`, `grpc.lb.locality` and `grpc.lb.backend_service`
    /// (the cluster; both are empty before an endpoint is chosen).
    AttemptDuration,
    /// Histogram, with the labels of [`AttemptDuration`](Self::AttemptDuration): bytes of the messages
    /// that an attempt has sent, compressed if the application compresses them.
    AttemptSentBytes,
    /// Histogram, with the labels of [`AttemptDuration`](Self::AttemptDuration): bytes of the messages
    /// that an attempt has received, compressed if the server compresses them.
    AttemptReceivedBytes,
    /// Histogram: seconds from the beginning of a call to its end. Further label: `grpc.status`.
    CallDuration,
}

/// Boundaries of histograms of times, in seconds.
const SECONDS: [f64; 41] = [
    0.0, 0.000_01, 0.000_05, 0.000_1, 0.000_3, 0.000_6, 0.000_8, 0.001, 0.002, 0.003, 0.004, 0.005,
    0.006, 0.008, 0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16,
    0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];

/// Boundaries of histograms of sizes, in bytes.
const BYTES: [f64; 14] = [
    0.0,
    1_024.0,
    2_048.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
    4_294_967_296.0,
];

impl ChannelInstrument {
    /// All instruments.
    pub const ALL: [Self; 5] = [
        Self::AttemptStarted,
        Self::AttemptDuration,
        Self::AttemptSentBytes,
        Self::AttemptReceivedBytes,
        Self::CallDuration,
    ];

    /// Returns the name of the instrument in [gRFC A66].
    ///
    /// [gRFC A66]: https://github.com/grpc/proposal/blob/master/A66-otel-stats.md
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AttemptStarted => "grpc.client.attempt.started",
            Self::AttemptDuration => "grpc.client.attempt.duration",
            Self::AttemptSentBytes => "grpc.client.attempt.sent_total_compressed_message_size",
            Self::AttemptReceivedBytes => "grpc.client.attempt.rcvd_total_compressed_message_size",
            Self::CallDuration => "grpc.client.call.duration",
        }
    }

    /// Returns a description for operators.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::AttemptStarted => "Attempts of calls that have begun.",
            Self::AttemptDuration => "Time of an attempt, with the choice of an endpoint.",
            Self::AttemptSentBytes => "Bytes of the messages that an attempt has sent.",
            Self::AttemptReceivedBytes => "Bytes of the messages that an attempt has received.",
            Self::CallDuration => "Time of a call, with all of its attempts.",
        }
    }

    /// Returns the unit in the notation of OpenTelemetry: `{attempt}`, `s` or `By`.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::AttemptStarted => "{attempt}",
            Self::AttemptDuration | Self::CallDuration => "s",
            Self::AttemptSentBytes | Self::AttemptReceivedBytes => "By",
        }
    }

    /// Returns the boundaries of the buckets that gRPC recommends; `None` for a counter.
    #[must_use]
    pub const fn buckets(self) -> Option<&'static [f64]> {
        match self {
            Self::AttemptStarted => None,
            Self::AttemptDuration | Self::CallDuration => Some(&SECONDS),
            Self::AttemptSentBytes | Self::AttemptReceivedBytes => Some(&BYTES),
        }
    }
}
