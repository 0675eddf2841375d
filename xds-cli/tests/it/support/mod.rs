//! Runs the real binary as a child process, on a directory to serve, with bounded waits.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader, Read},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value as Json;

/// Time limit of each expected result. Several tests may share a small machine.
const PATIENCE: Duration = Duration::from_secs(25);
const POLL: Duration = Duration::from_millis(10);

/// Waits until `probe` returns a value.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, probe: impl FnMut() -> Result<T, String>) -> T {
    eventually_within(PATIENCE, what, probe)
}

/// Waits until `probe` returns a value, for at most this time.
#[track_caller]
pub(crate) fn eventually_within<T>(
    patience: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<T, String>,
) -> T {
    let start = Instant::now();
    loop {
        match probe() {
            Ok(answer) => return answer,
            Err(why) if start.elapsed() > patience => panic!("{what}: {why}"),
            Err(_) => thread::sleep(POLL),
        }
    }
}

/// Temporary directory, deleted when dropped.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = base.join(format!("xds-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Writes to a file in place, so it is empty for a moment.
    pub(crate) fn save(&self, name: &str, content: &str) {
        fs::write(self.join(name), content).unwrap();
    }

    /// Renames a new file over the old one.
    pub(crate) fn replace(&self, name: &str, content: &str) {
        let new = self.join(format!(".{name}.new"));
        fs::write(&new, content).unwrap();
        fs::rename(new, self.join(name)).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.join(name)).unwrap();
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// File with clusters, each given as `name` or `name=connect_timeout`.
pub(crate) fn clusters(clusters: &str) -> String {
    let list = clusters.split_whitespace().map(|cluster| {
        let (name, timeout) = cluster.split_once('=').unwrap_or((cluster, "1s"));
        format!(
            "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}\n  \
             connect_timeout: {timeout}\n"
        )
    });
    format!("resources:\n{}", list.collect::<String>())
}

/// Document with the endpoints of one cluster.
pub(crate) fn endpoints(cluster: &str, ports: &[u32]) -> String {
    let list = ports.iter().map(|port| {
        format!(
            "  - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }}\n"
        )
    });
    format!(
        "---\n\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n\
         cluster_name: {cluster}\nendpoints:\n- lb_endpoints:\n{}",
        list.collect::<String>()
    )
}

/// Address at which nothing listens.
pub(crate) fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Runs the binary until it exits.
pub(crate) fn run(args: &[&str]) -> Ended {
    run_with(args, &[])
}

/// Runs the binary with environment variables until it exits.
pub(crate) fn run_with(args: &[&str], variables: &[(&str, &str)]) -> Ended {
    Xds::spawn_with(args, variables).ended()
}

/// Removes the time of an event, and checks its form: RFC 3339 in UTC.
#[track_caller]
pub(crate) fn without_time(mut event: Json) -> Json {
    let time = event.as_object_mut().and_then(|fields| fields.shift_remove("time"));
    let time = time.as_ref().and_then(Json::as_str).unwrap_or_default();
    let digits_as_zeros = time.replace(|c: char| c.is_ascii_digit(), "0");
    assert_eq!(digits_as_zeros, "0000-00-00T00:00:00.000000Z", "{event}");
    event
}

pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Running `xds`. Killed when dropped.
pub(crate) struct Xds {
    child: Child,
    stdout: Arc<Mutex<Vec<String>>>,
    stderr: Arc<Mutex<Vec<String>>>,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Xds {
    pub(crate) fn spawn(args: &[impl AsRef<OsStr>]) -> Self {
        Self::spawn_with(args, &[])
    }

    /// Starts the binary with environment variables.
    pub(crate) fn spawn_with(args: &[impl AsRef<OsStr>], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xds"));
        command.args(args);
        Self::start(command, variables)
    }

    fn start(mut command: Command, variables: &[(&str, &str)]) -> Self {
        let mut child = command
            .env_remove("RUST_LOG")
            .env_remove("XDS_SERVER")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut readers = Vec::new();
        let stdout = collect(child.stdout.take().unwrap(), &mut readers);
        let stderr = collect(child.stderr.take().unwrap(), &mut readers);
        Self { child, stdout, stderr, readers }
    }

    /// Starts `xds serve -o ndjson` on a free port. Returns with the address once it listens.
    pub(crate) fn serve(directory: &Path) -> (Self, String) {
        Self::serve_on(directory, "127.0.0.1:0")
    }

    pub(crate) fn serve_on(directory: &Path, listen: &str) -> (Self, String) {
        Self::serve_with(directory, &["--listen", listen])
    }

    /// Starts `xds serve -o ndjson` with flags, which must include `--listen`.
    pub(crate) fn serve_with(directory: &Path, flags: &[&str]) -> (Self, String) {
        let directory = directory.to_str().unwrap();
        let xds = Self::spawn(&[&["serve", directory, "-o", "ndjson"], flags].concat());
        xds.with_address()
    }

    /// Starts `xds serve -o ndjson` with client status. Returns the address of the discovery
    /// services and the one of client status.
    pub(crate) fn serve_with_csds(directory: &Path) -> (Self, String, String) {
        let flags = ["--listen", "127.0.0.1:0", "--csds", "127.0.0.1:0"];
        let (xds, address) = Self::serve_with(directory, &flags);
        let serving = xds.wait_event("serving", |event| event["event"] == "serving");
        (xds, address, serving["csds"].as_str().unwrap().to_owned())
    }

    /// Starts `xds serve -o ndjson` with flags in a shell, after a command such as `ulimit`.
    #[cfg(unix)]
    pub(crate) fn serve_after(first: &str, directory: &Path, flags: &[&str]) -> (Self, String) {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{first} && exec \"$0\" \"$@\"")])
            .args([env!("CARGO_BIN_EXE_xds"), "serve", directory.to_str().unwrap(), "-o", "ndjson"])
            .args(flags);
        Self::start(command, &[]).with_address()
    }

    /// Waits until the server listens. Returns it with its address.
    fn with_address(self) -> (Self, String) {
        let serving = self.wait_event("serving", |event| event["event"] == "serving");
        let address = serving["listen"].as_str().unwrap().to_owned();
        (self, address)
    }

    /// Starts `xds watch -o ndjson`.
    pub(crate) fn watch(server: &str, subscriptions: &[&str]) -> Self {
        let mut args = vec!["watch", "--server", server, "--node", "test", "-o", "ndjson"];
        args.extend(subscriptions);
        Self::spawn(&args)
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().unwrap().join("\n")
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().join("\n")
    }

    /// Returns all events so far.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Json> {
        let lines = self.stdout.lock().unwrap();
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the events of one kind so far.
    #[track_caller]
    pub(crate) fn events_of(&self, kind: &str) -> Vec<Json> {
        self.events().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// Waits for an event that matches, and returns the first one, including earlier events.
    #[track_caller]
    pub(crate) fn wait_event(&self, what: &str, mut is_wanted: impl FnMut(&Json) -> bool) -> Json {
        self.wait(what, |events| events.iter().find(|&event| is_wanted(event)).cloned())
    }

    #[track_caller]
    pub(crate) fn wait<T>(&self, what: &str, mut probe: impl FnMut(&[Json]) -> Option<T>) -> T {
        eventually(what, || {
            probe(&self.events())
                .ok_or_else(|| format!("stdout:\n{}\nstderr:\n{}", self.stdout(), self.stderr()))
        })
    }

    /// Waits for `count` events of a kind and returns them. Fails if there are more.
    #[track_caller]
    pub(crate) fn wait_count(&self, kind: &str, count: usize) -> Vec<Json> {
        let events = self.wait(&format!("{count} {kind}"), |_| {
            let events = self.events_of(kind);
            (events.len() >= count).then_some(events)
        });
        assert_eq!(events.len(), count, "{events:#?}");
        events
    }

    /// Waits until the newest status has a row for the type that matches.
    #[track_caller]
    pub(crate) fn wait_row(
        &self,
        type_name: &str,
        mut is_wanted: impl FnMut(&Json) -> bool,
    ) -> Json {
        self.wait(&format!("a row of {type_name}"), |events| {
            let status = events.iter().rev().find(|event| event["event"] == "status")?;
            let rows = status["rows"].as_array()?;
            rows.iter().find(|row| row["type"] == type_name && is_wanted(row)).cloned()
        })
    }

    /// Waits until standard error contains `part`.
    #[track_caller]
    pub(crate) fn wait_stderr(&self, part: &str) {
        eventually(part, || {
            let stderr = self.stderr();
            if stderr.contains(part) { Ok(()) } else { Err(stderr) }
        });
    }

    /// Waits until standard output contains `part`.
    #[track_caller]
    pub(crate) fn wait_stdout(&self, part: &str) {
        eventually(part, || {
            let stdout = self.stdout();
            if stdout.contains(part) { Ok(()) } else { Err(stdout) }
        });
    }

    #[track_caller]
    pub(crate) fn wait_end(&mut self) -> ExitStatus {
        let status = eventually("the end of xds", || {
            self.child.try_wait().unwrap().ok_or_else(|| "still running".to_owned())
        });
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        status
    }

    /// Waits until the process exits. Returns its exit code and its output.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Ended {
        let status = self.wait_end();
        Ended { code: status.code(), stdout: self.stdout(), stderr: self.stderr() }
    }

    #[cfg(unix)]
    #[track_caller]
    pub(crate) fn signal(&mut self, name: &str) -> ExitStatus {
        self.send_signal(name);
        self.wait_end()
    }

    #[cfg(unix)]
    #[track_caller]
    pub(crate) fn send_signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Signals that end a command. A process that was started with `nohup`, and so its children,
    /// ignores the hangup signal.
    #[cfg(unix)]
    pub(crate) fn ending_signals() -> impl Iterator<Item = &'static str> {
        const HANGUP: u64 = 1;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = u64::from_str_radix(ignored.unwrap_or_default().trim(), 16).unwrap_or(0);
        let hangup = (ignored & HANGUP == 0).then_some("HUP");
        ["INT", "TERM"].into_iter().chain(hangup)
    }

    /// Waits until no ending signal kills the process.
    #[cfg(target_os = "linux")]
    #[track_caller]
    pub(crate) fn wait_for_handler(&self) {
        let bit = |signal| match signal {
            "HUP" => 1,
            "INT" => 1 << 1,
            _ => 1 << 14,
        };
        let all: u64 = Self::ending_signals().map(bit).sum();
        let file = format!("/proc/{}/status", self.child.id());
        eventually("a handler of signals", || {
            let status = fs::read_to_string(&file).map_err(|why| why.to_string())?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = u64::from_str_radix(caught.unwrap_or_default().trim(), 16);
            caught.is_ok_and(|it| it & all == all).then_some(()).ok_or(status)
        });
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Xds {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- stdout of xds\n{}\n--- stderr\n{}", self.stdout(), self.stderr());
        }
    }
}

fn collect(
    stream: impl Read + Send + 'static,
    readers: &mut Vec<thread::JoinHandle<()>>,
) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let collected = Arc::clone(&lines);
    readers.push(thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            collected.lock().unwrap().push(line);
        }
    }));
    lines
}
