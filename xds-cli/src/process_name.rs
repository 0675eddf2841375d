//! Name of this process, which distinguishes it from others that use the same source.

use std::{env, process};

/// Returns the name of the host, and the number of the process: several may run on a host.
pub(crate) fn process_name() -> String {
    format!("{}-{}", host_name(), process::id())
}

/// Returns the name of the host. In a Pod, it is that of the Pod.
pub(crate) fn host_name() -> String {
    env::var("HOSTNAME").unwrap_or_else(|_| "xds".to_owned())
}
