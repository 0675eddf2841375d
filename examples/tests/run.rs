//! Tests that run each example as a program and check its output.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use tokio::net::TcpListener;
use xds_core::server::{ServerConfig, Transaction};
use xds_format::{Format, Schema};
use xds_tokio::{ManagementServer, ServerHandle, ServerOptions};

/// Time limit for a line of output.
const PATIENCE: Duration = Duration::from_secs(60);

/// Running program with its output.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(program: &str, arguments: &[&str]) -> Self {
        Self::spawn(Command::new(program).args(arguments))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("an example that starts");
        let stdout = child.stdout.take().expect("a pipe");
        let (sink, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.for_each(|line| drop(sink.send(line)));
        });
        Self { child, lines }
    }

    /// Waits for a line that begins with `start`, and returns the rest of it.
    fn wait_for_line(&self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no line that starts with {start:?}"));
            if let Some(rest) = line.strip_prefix(start) {
                return rest.to_owned();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a control plane on free ports, and returns its addresses for gRPC and REST.
fn control_plane() -> (Running, String, String) {
    let it = Running::start(env!("CARGO_BIN_EXE_control_plane"), &["127.0.0.1:0", "127.0.0.1:0"]);
    let (grpc, rest) = (it.wait_for_line("serving gRPC on "), it.wait_for_line("serving REST on "));
    (it, grpc, rest)
}

#[test]
fn watchers_receive_changes() {
    let (_server, grpc, _) = control_plane();
    let watch = Running::start(env!("CARGO_BIN_EXE_watch"), &[&grpc, "cds", "web"]);
    let first = watch.wait_for_line("web version ");
    assert_ne!(first, watch.wait_for_line("web version "), "it changes");
}

#[test]
fn polling_client_receives_changes() {
    let (_server, _, rest) = control_plane();
    let polls = Running::start(env!("CARGO_BIN_EXE_rest_poll"), &[&rest]);
    let first = polls.wait_for_line("web version ");
    assert_ne!(first, polls.wait_for_line("web version "), "it changes");
}

#[test]
fn relay_passes_changes_on() {
    let (_server, grpc, _) = control_plane();
    let relay = Running::start(env!("CARGO_BIN_EXE_relay"), &[&grpc, "127.0.0.1:0"]);
    let address = relay.wait_for_line("serving gRPC on ");
    let watch = Running::start(env!("CARGO_BIN_EXE_watch"), &[&address, "cds", "web"]);
    let first = watch.wait_for_line("web version ");
    assert_ne!(first, watch.wait_for_line("web version "), "it changes");
}

#[test]
fn file_watch_receives_changes() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("file_watch_receives_changes");
    fs::create_dir_all(&directory).unwrap();
    let (file, next) = (directory.join("clusters.yaml"), directory.join("next.yaml"));
    let content = |version: u32| {
        format!(
            "version_info: '{version}'\nresources:\n- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: web\n  alt_stat_name: 'v{version}'\n"
        )
    };
    fs::write(&file, content(1)).unwrap();
    let path = file.to_str().unwrap();
    let watch = Running::start(env!("CARGO_BIN_EXE_file_watch"), &[path]);
    assert!(watch.wait_for_line("web version ").starts_with("1: "));
    fs::write(&next, content(2)).unwrap();
    fs::rename(&next, &file).unwrap();
    assert!(watch.wait_for_line("web version ").starts_with("2: "));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Management server in a thread of its own.
struct Management {
    server: ServerHandle,
    address: String,
}

impl Management {
    fn start() -> Self {
        let (sink, started) = channel();
        thread::spawn(move || {
            runtime().block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap().to_string();
                let server =
                    ManagementServer::start(ServerConfig::default(), ServerOptions::default());
                sink.send((server.handle(), address)).unwrap();
                server.serve(listener).await
            })
        });
        let (server, address) = started.recv().unwrap();
        Self { server, address }
    }

    fn serve(&self, yaml: &str) {
        let read = xds_format::parse(Schema::envoy(), "test", Format::Yaml, yaml.as_bytes());
        let mut change = Transaction::new();
        for it in read.unwrap().resources {
            change.set(it.type_url.as_str(), it.name.as_str(), it.bytes);
        }
        runtime().block_on(self.server.apply(change)).unwrap();
    }
}

#[test]
fn grpc_server_follows_listener_changes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("grpc/shop.yaml");
    let shop = fs::read_to_string(file).unwrap();
    let management = Management::start();
    management.serve(&shop);
    let arguments = [management.address.as_str(), "shop.example.com"];
    let resolve = Running::start(env!("CARGO_BIN_EXE_resolve"), &arguments);
    assert_eq!(resolve.wait_for_line("calls go to "), r#"{"carts", "everything"}"#);
    let endpoints = "127.0.0.1:50051, 127.0.0.1:50052 (xDS node ID: resolve)";
    assert_eq!(resolve.wait_for_line("  carts: "), endpoints);
    assert_eq!(
        resolve.wait_for_line("  elsewhere: "),
        "DNS name shop.example.net:443 (xDS node ID: resolve)"
    );
    assert_eq!(
        resolve.wait_for_line("  everything: "),
        r#"first available of: ["carts", "elsewhere"]"#
    );
    management.serve(&shop.replace("50052", "50053"));
    assert_eq!(resolve.wait_for_line("  carts: "), endpoints.replace("50052", "50053"));
    println!("covers: B44");
}

#[test]
fn custom_runtime_example_runs_without_tokio() {
    let output = Command::new(env!("CARGO_BIN_EXE_custom_runtime")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("received web version "), "{said}");
}

#[test]
fn channel_routes_a_call_by_xds_resources() {
    let output = Command::new(env!("CARGO_BIN_EXE_channel")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "shop.Cart is SERVING\n");
}

/// Returns an address at which a server can listen.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn server_serves_when_it_has_a_listener() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listener = fs::read_to_string(directory.join("server/listener.yaml")).unwrap();
    let bootstrap = fs::read_to_string(directory.join("server-bootstrap.json")).unwrap();
    let management = Management::start();
    let address = free_address();
    let port = address.rsplit(':').next().unwrap();
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join("server-bootstrap.json");
    fs::write(&own, bootstrap.replace("127.0.0.1:18000", &management.address)).unwrap();
    let server = Running::spawn(
        Command::new(env!("CARGO_BIN_EXE_grpc_server"))
            .arg(&address)
            .env("GRPC_XDS_BOOTSTRAP", &own),
    );
    let prefix = format!("{address}: ");
    assert!(server.wait_for_line(&prefix).starts_with("not serving: "));
    management.serve(&listener.replace("50051", port));
    assert_eq!(server.wait_for_line(&prefix), "serving");
    std::net::TcpStream::connect(&address).unwrap();
}

/// The files of examples are short enough to be read at once.
#[test]
fn examples_are_shorter_than_100_lines() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = |directory: &Path| fs::read_dir(directory).unwrap().map(|it| it.unwrap().path());
    let mut count = 0;
    for path in files(directory).chain(files(&directory.join("custom_runtime"))) {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines < 100, "{} has {lines} lines", path.display());
            count += 1;
        }
    }
    assert_eq!(count, 12);
}
