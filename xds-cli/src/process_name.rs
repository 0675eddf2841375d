//! Name of this process, which distinguishes it from others that use the same source.

use std::{env, fs, process};

/// Returns the name of the host, and the number of the process: several may run on a host.
pub(crate) fn process_name() -> String {
    format!("{}-{}", host_name(), process::id())
}

/// Returns the name of the host. In a Pod, it is that of the Pod. Services of systemd and many shells
/// have no variable with it.
fn host_name() -> String {
    let of_kernel = || fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = env::var("HOSTNAME")
        .ok()
        .filter(|it| !it.is_empty())
        .or_else(of_kernel)
        .unwrap_or_default();
    match name.trim() {
        "" => "xds".to_owned(),
        name => name.to_owned(),
    }
}
