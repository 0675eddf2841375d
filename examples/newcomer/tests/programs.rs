//! Runs the programs against each other and against servers of these tests.

use std::{
    env, fs,
    io::{BufRead, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio, id},
    time::Duration,
};

use tokio::{net::TcpListener, time::timeout};
use tonic::transport::{Server, server::TcpIncoming};
use xds::{
    Client, ManagementServer, bootstrap::TlsFiles, client::Event, credentials::Credentials,
    resources::Cluster, server::Transaction,
};

/// Resources from the name of the channel to the port of the service.
const RESOURCES: &str = r#"
resources:
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: greeter
  api_listener:
    api_listener:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      rds: { route_config_name: greeter, config_source: { ads: {} } }
      http_filters:
      - name: router
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: greeter
  virtual_hosts:
  - { name: greeter, domains: [greeter], routes: [{ match: { prefix: "" }, route: { cluster: health } }] }
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: health
  type: EDS
  eds_cluster_config: { eds_config: { ads: {} } }
- "@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: health
  endpoints:
  - locality: { zone: here }
    load_balancing_weight: 1
    lb_endpoints:
    - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: PORT } } }
"#;

/// Program that ends with its value.
struct Running(Child, Lines<BufReader<ChildStdout>>);

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    /// Returns the rest of the next line that begins like this.
    fn wait_for(&mut self, start: &str) -> String {
        loop {
            let line = self.1.next().expect("the program has ended").unwrap();
            if let Some(rest) = line.strip_prefix(start) {
                return rest.into();
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn directory(name: &str) -> PathBuf {
    let directory = env::temp_dir().join(format!("newcomer-{name}-{}", id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_clusters_as_they_change() {
    let server = ManagementServer::builder().bind("127.0.0.1:0").await.unwrap();
    let web = Cluster { name: "web".into(), ..Cluster::default() };
    server.apply(Transaction::snapshot("").with(&web).unwrap()).await.unwrap();
    let address = server.address().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watch"));
    let mut watch = Running::start(command.arg(address));
    watch.wait_for("web ");
    watch.wait_for("Synced");
    let db = Cluster { name: "db".into(), ..Cluster::default() };
    server.apply(Transaction::in_view("").with(&db).unwrap()).await.unwrap();
    watch.wait_for("db ");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_serves_each_zone_over_tls() {
    let directory = directory("tls");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["localhost".into()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    fs::write(directory.join("cert.pem"), certificate.pem()).unwrap();
    fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_control_plane"));
    let mut server = Running::start(command.arg("127.0.0.1:0").current_dir(&directory));
    let address = server.wait_for("serving on ").replace("127.0.0.1", "localhost");
    for zone in ["zone-a", "zone-b"] {
        let client = Client::connect(format!("https://{address}"))
            .node_id("test")
            .locality("", zone, "")
            .credentials(trusting(&directory.join("cert.pem")))
            .start()
            .unwrap();
        let mut own = client.watch::<Cluster>(zone);
        let event = timeout(Duration::from_secs(30), own.next()).await.unwrap();
        assert!(matches!(event, Some(Event::Applied(_))), "{event:?}");
    }
    drop(server);
    fs::remove_dir_all(directory).unwrap();
}

fn trusting(certificate: &Path) -> Credentials {
    Credentials::tls(TlsFiles::default().with_ca_certificate(certificate))
}

#[tokio::test(flavor = "multi_thread")]
async fn greeter_calls_the_endpoint_that_xds_names() {
    let greeter = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = greeter.local_addr().unwrap().port();
    let (_, health) = tonic_health::server::health_reporter();
    tokio::spawn(
        Server::builder().add_service(health).serve_with_incoming(TcpIncoming::from(greeter)),
    );

    let server = ManagementServer::builder().bind("127.0.0.1:0").await.unwrap();
    let resources = RESOURCES.replace("PORT", &port.to_string());
    server.apply(Transaction::snapshot("").with_yaml(&resources).unwrap()).await.unwrap();
    let bootstrap = format!(
        r#"{{"xds_servers": [{{"server_uri": "{}", "channel_creds": [{{"type": "insecure"}}]}}],
            "node": {{"id": "greeter"}}}}"#,
        server.address()
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_greeter"));
    let mut program = Running::start(command.env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap));
    assert_eq!(program.wait_for("HealthCheckResponse "), "{ status: Serving }");
}
