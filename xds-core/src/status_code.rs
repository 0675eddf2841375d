//! Status codes of gRPC.

use core::fmt;

/// gRPC status code of a stream or of a resource. The discriminant is the
/// [code](https://grpc.io/docs/guides/status-codes/) on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StatusCode {
    /// No error. A server that is given it for an error sends [`Unknown`](Self::Unknown).
    Ok = 0,
    /// The call was cancelled.
    Cancelled = 1,
    /// The error is not known, for example because another server did not state it.
    Unknown = 2,
    /// The peer violated the protocol, or a resource is invalid.
    InvalidArgument = 3,
    /// The peer took too long.
    DeadlineExceeded = 4,
    /// The resource does not exist, or the server has no configuration for the client.
    NotFound = 5,
    /// An entity that should be created exists already.
    AlreadyExists = 6,
    /// The client is not permitted to receive the configuration.
    PermissionDenied = 7,
    /// The client exceeded a limit of the server.
    ResourceExhausted = 8,
    /// The server is not in a state that allows the call.
    FailedPrecondition = 9,
    /// The call was aborted, for example because of another one.
    Aborted = 10,
    /// A value is outside the valid range.
    OutOfRange = 11,
    /// The server does not implement the called method.
    Unimplemented = 12,
    /// The server has an internal error.
    Internal = 13,
    /// The server is unavailable now; another one may be available.
    Unavailable = 14,
    /// Data is lost or corrupt.
    DataLoss = 15,
    /// The client is not authenticated.
    Unauthenticated = 16,
}

impl StatusCode {
    const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// Returns the code as a number.
    #[must_use]
    pub const fn as_i32(self) -> i32 {
        self as i32
    }

    /// Returns the code of a number. Unknown numbers give [`Unknown`](Self::Unknown), as gRPC
    /// specifies.
    ///
    /// ```
    /// use xds_core::StatusCode;
    ///
    /// assert_eq!(StatusCode::from_i32(5), StatusCode::NotFound);
    /// assert_eq!(StatusCode::from_i32(99), StatusCode::Unknown);
    /// ```
    #[must_use]
    pub fn from_i32(code: i32) -> Self {
        Self::ALL.into_iter().find(|it| it.as_i32() == code).unwrap_or(Self::Unknown)
    }

    /// Returns the name of the code in gRPC's specification, such as `NOT_FOUND`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// Returns the code of an error: `Unknown` in place of `Ok`.
    pub(crate) const fn of_error(self) -> Self {
        match self {
            Self::Ok => Self::Unknown,
            code => code,
        }
    }
}

/// Formats the [name](StatusCode::name).
impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
