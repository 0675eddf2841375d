//! Statuses of calls. What management servers say is never one (A54).

use std::error::Error as _;

use h2::Reason;
use tonic::{Code, Status};
use xds_routing::router::Failure;

pub(crate) fn of(failure: &Failure) -> Status {
    Status::new(Code::from_i32(failure.code()), failure.to_string())
}

pub(crate) fn late() -> Status {
    Status::deadline_exceeded("the call took longer than it may")
}

/// There is no driver any more.
pub(crate) fn ended() -> Status {
    Status::unavailable("the channel has ended")
}

/// What the end of a stream or connection means, by gRPC's table of HTTP/2's reasons.
pub(crate) fn code_of(error: &hyper::Error) -> Code {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(reason) = cause.downcast_ref::<h2::Error>().and_then(h2::Error::reason) {
            return match reason {
                Reason::REFUSED_STREAM => Code::Unavailable,
                Reason::CANCEL => Code::Cancelled,
                Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
                Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
                _ => Code::Internal,
            };
        }
        source = cause.source();
    }
    Code::Unavailable
}

pub(crate) fn with_causes(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
