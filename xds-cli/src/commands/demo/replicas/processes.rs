//! Processes of the demo: etcd, and replicas of `xds serve`. They end with their values.

use core::time::Duration;
use std::{
    env, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value as Json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::watch,
    time::timeout,
};

use crate::failure::DemoFailure;

/// Time limit of the start of a process.
const START: Duration = Duration::from_secs(20);

/// Returns the program of etcd: the given one, or the one in the search path.
pub(super) fn find_etcd(given: Option<&Path>) -> Result<PathBuf, DemoFailure> {
    let search = env::var_os("PATH").unwrap_or_default();
    let found = match given {
        Some(given) => Some(given.to_owned()),
        None => env::split_paths(&search).map(|folder| folder.join("etcd")).find(|it| it.is_file()),
    };
    found.ok_or(DemoFailure::NoEtcd)
}

/// Member of etcd with a directory of its own, which is removed at the end.
#[derive(Debug)]
pub(super) struct Etcd {
    pub(super) address: SocketAddr,
    directory: PathBuf,
    _process: Child,
}

impl Etcd {
    pub(super) fn start(program: &Path) -> Result<Self, DemoFailure> {
        let directory = env::temp_dir().join(format!("xds-demo-{}", std::process::id()));
        let [address, peers] = [free_address()?, free_address()?];
        let of = |address: SocketAddr| format!("http://{address}");
        let process = Command::new(program)
            .arg("--data-dir")
            .arg(&directory)
            .args(["--name", "demo", "--log-level", "error"])
            .args(["--listen-client-urls", &of(address), "--advertise-client-urls", &of(address)])
            .args(["--listen-peer-urls", &of(peers), "--initial-advertise-peer-urls", &of(peers)])
            .args(["--initial-cluster", &format!("demo={}", of(peers))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|why| DemoFailure::Process { name: program.display().to_string(), why })?;
        Ok(Self { address, directory, _process: process })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns an address of localhost on which nothing listens.
fn free_address() -> Result<SocketAddr, DemoFailure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(DemoFailure::Listen)?;
    listener.local_addr().map_err(DemoFailure::Listen)
}

/// Replica: `xds serve` in a process of its own.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) name: char,
    pub(super) address: SocketAddr,
    source: String,
    process: Option<Child>,
    /// Rows of the newest status.
    rows: Arc<Mutex<Vec<Json>>>,
}

impl Replica {
    /// Starts a replica on a free port, and waits until it serves.
    pub(super) async fn start(name: char, source: &str) -> Result<Self, DemoFailure> {
        let address = free_address()?;
        let rows = Arc::default();
        let mut replica = Self { name, address, source: source.to_owned(), process: None, rows };
        replica.restart().await?;
        Ok(replica)
    }

    /// Starts the process again, on the same address, and waits until it serves.
    pub(super) async fn restart(&mut self) -> Result<(), DemoFailure> {
        let named = |why| DemoFailure::Process { name: "xds serve".to_owned(), why };
        let program = env::current_exe().map_err(named)?;
        let mut process = Command::new(program)
            .args(["serve", &self.source, "--listen", &self.address.to_string(), "-o", "ndjson"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(named)?;
        let output = process.stdout.take().ok_or_else(|| named(io::Error::other("no output")))?;
        self.process = Some(process);
        self.rows = Arc::default();
        let (serving, mut is_serving) = watch::channel(false);
        let rows = Arc::clone(&self.rows);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(event) = serde_json::from_str::<Json>(&line) else { continue };
                match event["event"].as_str() {
                    Some("serving") => _ = serving.send(true),
                    Some("status") => {
                        let new = event["rows"].as_array().cloned().unwrap_or_default();
                        *rows.lock().unwrap_or_else(PoisonError::into_inner) = new;
                    }
                    _ => {}
                }
            }
        });
        let started = timeout(START, is_serving.wait_for(|is_serving| *is_serving)).await;
        match started {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(named(io::Error::other("it ended at its start"))),
            Err(_) => Err(DemoFailure::TooLate { what: "the start of a replica", limit: START }),
        }
    }

    /// Kills the process.
    pub(super) async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.kill().await;
        }
    }

    /// Returns the rows of the newest status.
    pub(super) fn rows(&self) -> Vec<Json> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
