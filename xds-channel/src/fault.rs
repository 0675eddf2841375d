//! Trouble on purpose, as it was decided for a call (A33).

use std::sync::LazyLock;

use tokio::time::sleep;
use tonic::{Code, Status};
use xds_routing::filters::{ActiveFaults, Fault};

/// A limit is for all channels of the process together.
static ACTIVE: LazyLock<ActiveFaults> = LazyLock::new(ActiveFaults::default);

/// Holds a call up, then lets it fail, if that was decided and not too many are in trouble.
pub(crate) async fn suffer(fault: Fault) -> Result<(), Status> {
    if fault.is_none() {
        return Ok(());
    }
    let Some(_active) = ACTIVE.begin(&fault) else {
        return Ok(());
    };
    if let Some(delay) = fault.delay {
        sleep(delay).await;
    }
    match fault.abort {
        Some(status) => {
            let code = Code::from_i32(status.into());
            Err(Status::new(code, "the configuration lets this call fail on purpose"))
        }
        None => Ok(()),
    }
}
