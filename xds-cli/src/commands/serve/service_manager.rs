//! ServiceState of the server for the service manager, such as systemd, that started the process.
//!
//! It is sent to the socket in the environment variable `NOTIFY_SOCKET`, by the protocol of
//! [sd_notify](https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html). Without that
//! variable, nothing is sent.

#[cfg(unix)]
use std::env;
use std::io;

use super::table::awaited;
use crate::{
    args::SourceAddress,
    directory::{ReadinessChange, Reload},
    text::count,
};

/// Service manager that is notified of the state.
#[derive(Debug)]
pub(super) struct ServiceManager {
    source: SourceAddress,
    is_ready: bool,
}

impl ServiceManager {
    pub(super) fn new(source: SourceAddress) -> Self {
        Self { source, is_ready: false }
    }

    /// Reports that the server listens and is ready, once every file has been valid, or which
    /// files it waits for.
    pub(super) fn note(&mut self, reload: &Reload) {
        match &reload.readiness {
            Some(ReadinessChange::Waiting(files)) => {
                send(ServiceState::Waiting(&awaited(files, &self.source)));
            }
            Some(ReadinessChange::Ready) => {
                self.is_ready = true;
                send(ServiceState::Ready(reload.resources));
            }
            None if self.is_ready && reload.applied.is_some() => {
                send(ServiceState::Serving(reload.resources));
            }
            None => {}
        }
    }

    /// Reports that the server begins to shut down.
    pub(super) fn stopping(&self) {
        send(ServiceState::Stopping);
    }
}

enum ServiceState<'a> {
    Waiting(&'a str),
    Ready(usize),
    Serving(usize),
    Stopping,
}

fn send(state: ServiceState<'_>) {
    let serving = |resources| {
        format!(
            "STATUS=serving {}\n",
            count(u64::try_from(resources).unwrap_or(u64::MAX), "resource")
        )
    };
    let text = match state {
        // A line has one assignment.
        ServiceState::Waiting(why) => format!("STATUS={}\n", why.replace('\n', " ")),
        ServiceState::Ready(resources) => format!("READY=1\n{}", serving(resources)),
        ServiceState::Serving(resources) => serving(resources),
        ServiceState::Stopping => "STOPPING=1\nSTATUS=disconnecting clients\n".to_owned(),
    };
    if let Err(why) = send_text(text.as_bytes()) {
        tracing::warn!(%why, "cannot notify the service manager at NOTIFY_SOCKET");
    }
}

#[cfg(unix)]
fn send_text(text: &[u8]) -> io::Result<()> {
    use std::os::unix::net::UnixDatagram;

    let Some(path) = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let socket = UnixDatagram::unbound()?;
    // A service manager that does not read must not stop the server.
    socket.set_nonblocking(true)?;
    #[cfg(target_os = "linux")]
    {
        use std::os::{
            linux::net::SocketAddrExt as _, unix::ffi::OsStrExt as _, unix::net::SocketAddr,
        };

        if let Some(name) = path.as_bytes().strip_prefix(b"@") {
            let address = SocketAddr::from_abstract_name(name)?;
            return socket.send_to_addr(text, &address).map(drop);
        }
    }
    socket.send_to(text, path).map(drop)
}

#[cfg(not(unix))]
fn send_text(_: &[u8]) -> io::Result<()> {
    Ok(())
}
