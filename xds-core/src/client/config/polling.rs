//! Settings for polling a server, as over REST.

use core::time::Duration;

/// Timing and contents of the requests to a polled server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollPolicy {
    /// Minimum pause between a response and the next request. After a request that failed, the
    /// [backoff](crate::client::Profile::backoff) applies instead, which can be shorter.
    pub refresh_delay: Duration,
    /// Maximum random extension of the pause, as a percentage of it. It spreads the requests of
    /// clients that were started at the same time.
    // RJ-02
    pub jitter_percent: u32,
    /// Maximum duration of a request. After it, the adapter cancels the request and reports the
    /// channel as closed. If the server holds requests until something changes (long polling), set
    /// a longer time than it holds them.
    // RJ-05
    pub request_timeout: Duration,
    /// Time at which names subscribed during a request or a pause are sent.
    pub new_names: NewNames,
    /// Parts of an ACK or NACK that a request contains.
    pub ack_contents: PollAckContents,
}

/// Time at which names subscribed between two requests are sent.
// RJ-08
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NewNames {
    /// Immediately. A request in flight is cancelled and replaced.
    #[default]
    AtOnce,
    /// With the next scheduled request.
    NextRequest,
}

/// Parts of an ACK or NACK that a polling request contains.
// B19
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PollAckContents {
    /// Version, nonce if there was one, and error details, as on a stream.
    #[default]
    Complete,
    /// Only the last accepted version.
    // RJ-01, RJ-07
    VersionOnly,
}

impl PollPolicy {
    /// Creates a policy with a pause of `refresh_delay` after each response, plus a random
    /// extension of up to the same length: 1.5 times `refresh_delay` on average. The request
    /// timeout is 60 s, new names are sent [at once](NewNames::AtOnce), and requests contain
    /// [complete](PollAckContents::Complete) ACKs and NACKs.
    #[must_use]
    pub const fn new(refresh_delay: Duration) -> Self {
        Self {
            refresh_delay,
            jitter_percent: 100,
            request_timeout: Duration::from_secs(60),
            new_names: NewNames::AtOnce,
            ack_contents: PollAckContents::Complete,
        }
    }

    /// Creates a policy that polls as Envoy does: with the pauses of [`new`](Self::new), Envoy's
    /// default request timeout of 1 s, new names only in the [next scheduled
    /// request](NewNames::NextRequest), and [only the version](PollAckContents::VersionOnly) as an
    /// ACK.
    // B18
    #[must_use]
    pub const fn envoy(refresh_delay: Duration) -> Self {
        Self {
            refresh_delay,
            jitter_percent: 100,
            request_timeout: Duration::from_secs(1),
            new_names: NewNames::NextRequest,
            ack_contents: PollAckContents::VersionOnly,
        }
    }

    /// Sets the maximum random extension of the pause, as a percentage of it.
    #[must_use]
    pub const fn with_jitter_percent(mut self, percent: u32) -> Self {
        self.jitter_percent = percent;
        self
    }

    /// Sets the maximum duration of a request.
    #[must_use]
    pub const fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets the time at which names subscribed between two requests are sent.
    #[must_use]
    pub const fn with_new_names(mut self, new_names: NewNames) -> Self {
        self.new_names = new_names;
        self
    }

    /// Sets the parts of an ACK or NACK that a request contains.
    #[must_use]
    pub const fn with_ack_contents(mut self, ack_contents: PollAckContents) -> Self {
        self.ack_contents = ack_contents;
        self
    }
}
