//! etcd and an API server, which end with their value. No controller runs, so only tests write.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio, id},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use kube_client::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{sleep, timeout},
};
use xds_kube::{KubeClient, KubeOptions, KubeSource};

use crate::proxy::Proxy;

/// User with all permissions.
pub(crate) const ADMIN: &str = "admin";
/// User without permissions.
pub(crate) const STRANGER: &str = "stranger";
/// Service account of the manifests in `deploy/kubernetes/`.
pub(crate) const SERVER: &str = "server";

pub(crate) struct Cluster {
    etcd: Child,
    apiserver: Option<Child>,
    etcd_port: u16,
    port: u16,
    directory: PathBuf,
    admin: Option<Client>,
    /// Two API servers at once are too much for small machines.
    _one: MutexGuard<'static, ()>,
}

static ONE: Mutex<()> = Mutex::const_new(());
static STARTED: AtomicU32 = AtomicU32::new(0);

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(120), future).await.expect("it takes longer than two minutes")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let one = ONE.lock().await;
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = env::temp_dir().join(format!("xds-kube-{}-{number}", id()));
        fs::create_dir_all(&directory).unwrap();
        let (etcd_port, peers, port) = (free_port(), free_port(), free_port());
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let etcd = Command::new(env::var("XDS_ETCD").expect("XDS_ETCD names the binary of etcd"))
            .arg("--data-dir")
            .arg(directory.join("etcd"))
            .args(["--listen-client-urls", &url(etcd_port)])
            .args(["--advertise-client-urls", &url(etcd_port)])
            .args(["--listen-peer-urls", &url(peers)])
            .args(["--initial-advertise-peer-urls", &url(peers)])
            .args(["--initial-cluster", &format!("default={}", url(peers))])
            .arg("--unsafe-no-fsync")
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.join("etcd.log")).unwrap())
            .spawn()
            .unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["accounts".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        fs::write(directory.join("accounts.key"), key.serialize_pem()).unwrap();
        fs::write(directory.join("accounts.crt"), certificate.pem()).unwrap();
        let tokens = format!(
            "{ADMIN},admin,admin,system:masters\n{STRANGER},stranger,stranger\n\
             {SERVER},system:serviceaccount:xds-system:xds-server,server,system:serviceaccounts\n"
        );
        fs::write(directory.join("tokens.csv"), tokens).unwrap();
        let mut cluster =
            Self { etcd, apiserver: None, etcd_port, port, directory, admin: None, _one: one };
        cluster.start_apiserver().await;
        cluster
    }

    /// Starts the API server, and waits until it is ready.
    pub(crate) async fn start_apiserver(&mut self) {
        let binary = env::var("XDS_KUBE_APISERVER");
        let binary = binary.expect("XDS_KUBE_APISERVER names the binary of kube-apiserver");
        let file = |name: &str| self.directory.join(name);
        let log = fs::File::options().create(true).append(true).open(file("apiserver.log"));
        let apiserver = Command::new(binary)
            .args(["--etcd-servers", &format!("http://127.0.0.1:{}", self.etcd_port)])
            .args(["--bind-address", "127.0.0.1", "--secure-port", &self.port.to_string()])
            .arg("--cert-dir")
            .arg(file("certificates"))
            .args(["--service-account-issuer", "https://kubernetes.default"])
            .arg("--service-account-signing-key-file")
            .arg(file("accounts.key"))
            .arg("--service-account-key-file")
            .arg(file("accounts.crt"))
            .args(["--service-cluster-ip-range", "10.0.0.0/16", "--authorization-mode", "RBAC"])
            .arg("--token-auth-file")
            .arg(file("tokens.csv"))
            .args(["--disable-admission-plugins", "ServiceAccount"])
            // Loopback is no valid address for the endpoints of the Service `kubernetes`.
            .args(["--endpoint-reconciler-type", "none"])
            // Requests of one client are not limited, so that many objects are quickly made.
            .args(["--max-mutating-requests-inflight", "0", "--max-requests-inflight", "0"])
            .args(["--enable-priority-and-fairness=false"])
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        self.apiserver = Some(apiserver);
        soon(async {
            loop {
                if let Some(apiserver) = &mut self.apiserver {
                    let ended = apiserver.try_wait().unwrap();
                    assert_eq!(ended, None, "the API server has ended");
                }
                if self.directory.join("certificates/apiserver.crt").exists() {
                    let admin = self.client_of(ADMIN).await;
                    let ready = http::Request::get("/readyz").body(Vec::new()).unwrap();
                    let is_ready = admin.request_text(ready).await.is_ok();
                    let path = "/api/v1/namespaces/default";
                    let namespace = http::Request::get(path).body(Vec::new()).unwrap();
                    if is_ready && admin.request_text(namespace).await.is_ok() {
                        self.admin = Some(admin);
                        return;
                    }
                }
                sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
    }

    pub(crate) fn stop_apiserver(&mut self) {
        if let Some(mut apiserver) = self.apiserver.take() {
            let _ = apiserver.kill();
            let _ = apiserver.wait();
        }
    }

    /// Writes a kubeconfig with the token of a user, and the port of the API server or of a proxy.
    fn kubeconfig(&self, token: &str, port: u16) -> PathBuf {
        let file = self.directory.join(format!("kubeconfig-{token}-{port}.json"));
        let authority = self.directory.join("certificates/apiserver.crt");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority": authority,
            }}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        fs::write(&file, config.to_string()).unwrap();
        file
    }

    async fn client_of(&self, token: &str) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(token, self.port)).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    pub(crate) fn options(&self, token: &str) -> KubeOptions {
        KubeOptions::default().with_kubeconfig(self.kubeconfig(token, self.port))
    }

    /// Starts a proxy in front of the API server. Returns the options for a client behind it too.
    pub(crate) async fn proxy(&self, token: &str) -> (Proxy, KubeOptions) {
        let proxy = Proxy::start(self.port).await;
        let options = KubeOptions::default().with_kubeconfig(self.kubeconfig(token, proxy.port));
        (proxy, options)
    }

    pub(crate) async fn source_with(&self, options: KubeOptions) -> KubeSource {
        KubeSource::new(KubeClient::new(options).await.unwrap())
    }

    pub(crate) async fn source(&self) -> KubeSource {
        self.source_with(self.options(ADMIN)).await
    }

    /// Sends a request of the administrator, and returns the object in the response.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let sent = self.try_send(method, path, body).await;
        sent.unwrap_or_else(|why| panic!("{method} {path}: {why}"))
    }

    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, String> {
        let patch = "application/merge-patch+json";
        let content_type = if method == "PATCH" { patch } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type).body(body).unwrap();
        let admin = self.admin.as_ref().unwrap();
        soon(admin.request(request)).await.map_err(|why| why.to_string())
    }

    pub(crate) async fn create(&self, path: &str, object: &Value) -> Value {
        self.send("POST", path, object).await
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, &Value::Null).await;
    }

    /// Compacts etcd at its newest revision.
    pub(crate) fn compact(&self) {
        let range = self.etcd("/v3/kv/range", &json!({"key": "AA=="}));
        let revision = range["header"]["revision"].as_str().unwrap().to_owned();
        self.etcd("/v3/kv/compaction", &json!({"revision": revision, "physical": true}));
    }

    fn etcd(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.etcd_port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|why| panic!("{why}: {response}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop_apiserver();
        let _ = self.etcd.kill();
        let _ = self.etcd.wait();
        if std::thread::panicking() {
            eprintln!("the logs are in {}", self.directory.display());
        } else {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}
