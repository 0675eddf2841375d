//! Fault injection for a call ([gRFC A33]).
//!
//! [gRFC A33]: https://github.com/grpc/proposal/blob/master/A33-Fault-Injection.md

use std::sync::LazyLock;

use hyper::rt::Timer as _;
use tonic::{Code, Status};
use xds_grpc::runtime::SharedRuntime;
use xds_routing::filters::{ActiveFaults, Fault};

/// Active faults of the process, which share a limit.
static ACTIVE: LazyLock<ActiveFaults> = LazyLock::new(ActiveFaults::default);

/// Delays the call, then aborts it, as decided. Does nothing if the limit of active faults is
/// reached.
pub(crate) async fn inject_fault(fault: Fault, runtime: &SharedRuntime) -> Result<(), Status> {
    if fault.is_none() {
        return Ok(());
    }
    let Some(_active) = ACTIVE.begin(&fault) else {
        return Ok(());
    };
    if let Some(delay) = fault.delay {
        runtime.sleep(delay).await;
    }
    match fault.abort {
        Some(status) => {
            let code = Code::from_i32(status.into());
            Err(Status::new(code, "the call was aborted by fault injection"))
        }
        None => Ok(()),
    }
}
