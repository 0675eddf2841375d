//! `xds serve etcd://` with a real etcd. `XDS_ETCD` names its binary:
//! `XDS_ETCD=etcd cargo test -p xds-cli --test it etcd:: -- --ignored`.

use std::{
    collections::BTreeMap,
    env,
    io::{self, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use tokio::runtime::Builder;
use xds_core::types;
use xds_etcd::{EtcdClient, EtcdOptions, EtcdStore, Prune, StoredName};
use xds_tokio::Tokio;

use crate::{
    metrics::{metric, request},
    readiness::{NOT_SERVING, SERVING, health},
    support::{TempDir, Xds, eventually, eventually_within, free_address, run},
};

/// etcd with one member.
pub(crate) struct Etcd {
    process: Option<Child>,
    directory: TempDir,
    pub(crate) address: String,
    peers: String,
}

impl Etcd {
    pub(crate) fn start() -> Self {
        let directory = TempDir::new();
        let (address, peers) = (free_address(), free_address());
        let mut etcd = Self { process: None, directory, address, peers };
        etcd.restart();
        etcd
    }

    pub(crate) fn restart(&mut self) {
        let binary = env::var("XDS_ETCD").expect("XDS_ETCD names the binary of etcd");
        let clients = format!("http://{}", self.address);
        let process = Command::new(binary)
            .arg("--data-dir")
            .arg(self.directory.path())
            .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &format!("http://{}", self.peers)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.process = Some(process);
        let is_up = |store: EtcdStore| async move { store.read().await.is_ok() };
        eventually("etcd", || match self.with_store("/xds", is_up) {
            true => Ok(()),
            false => Err("not up".to_owned()),
        });
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn with_store<T, F: Future<Output = T>>(
        &self,
        prefix: &str,
        action: impl FnOnce(EtcdStore) -> F,
    ) -> T {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = EtcdOptions::new([self.address.as_str()]);
            let client = EtcdClient::new(Tokio, options).unwrap();
            action(EtcdStore::new(client, prefix)).await
        })
    }

    /// Writes clusters of a view, each given as `name=connect_timeout`.
    pub(crate) fn write(&self, view: &str, clusters: &str) {
        let resources = clusters.split_whitespace().map(|cluster| {
            let (name, timeout) = cluster.split_once('=').unwrap();
            let value = format!("name: {name}\nconnect_timeout: {timeout}\n");
            ((view.into(), types::CLUSTER.into(), name.into()), value.into())
        });
        self.put("/xds", resources.collect());
    }

    fn put(&self, prefix: &str, resources: BTreeMap<StoredName, Bytes>) {
        self.with_store(prefix, async |store| {
            let stored = store.read().await.unwrap();
            store.write(&stored, &resources, Prune::No).await.unwrap();
        });
    }

    /// Forgets all revisions before the newest one.
    pub(crate) fn compact(&self) {
        let revision = self.with_store("/xds", async |store| store.read().await.unwrap().revision);
        let body = format!(r#"{{"revision": "{revision}", "physical": true}}"#);
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = "POST /v3/kv/compaction HTTP/1.1\r\nhost: test\r\nconnection: close";
        let length = body.len();
        write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let answer = io::read_to_string(stream).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    pub(crate) fn source(&self) -> String {
        format!("etcd://{}/xds", self.address)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Relay of connections, which can be interrupted.
pub(crate) struct Relay {
    pub(crate) address: String,
    is_open: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    pub(crate) fn start(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (is_open, connections) =
            (Arc::new(AtomicBool::new(true)), Arc::<Mutex<Vec<_>>>::default());
        let (open, all, to) = (Arc::clone(&is_open), Arc::clone(&connections), to.to_owned());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if !open.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&to) else { continue };
                let ends = [client.try_clone().unwrap(), server.try_clone().unwrap()];
                all.lock().unwrap().extend(ends);
                for (mut from, mut to) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    thread::spawn(move || {
                        let _ = io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { address, is_open, connections }
    }

    pub(crate) fn close(&self) {
        self.is_open.store(false, Ordering::SeqCst);
        for stream in self.connections.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn open(&self) {
        self.is_open.store(true, Ordering::SeqCst);
    }
}

/// Server with its addresses.
struct Replica {
    serve: Xds,
    listen: String,
    csds: String,
    metrics: String,
}

impl Replica {
    fn start(source: &str, flags: &[&str]) -> Self {
        let any = "127.0.0.1:0";
        let args =
            ["serve", source, "-o", "ndjson", "--listen", any, "--csds", any, "--metrics", any];
        let serve = Xds::spawn(&[&args[..], flags].concat());
        let serving = serve.wait_event("serving", |event| event["event"] == "serving");
        let text = |field: &str| serving[field].as_str().unwrap().to_owned();
        let (listen, csds, metrics) = (text("listen"), text("csds"), text("metrics"));
        Self { serve, listen, csds, metrics }
    }

    fn watch(&self, node: &str) -> Xds {
        let args = ["watch", "--server", &self.listen, "--node-id", node, "-o", "ndjson", "cds"];
        Xds::spawn(&args)
    }
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn replica_that_is_behind_is_shown_and_catches_up() {
    let etcd = Etcd::start();
    etcd.write("", "a=1s b=1s");
    let relay = Relay::start(&etcd.address);
    let first = Replica::start(&etcd.source(), &[]);
    let second = Replica::start(&format!("etcd://{}/xds", relay.address), &[]);
    let watches = [first.watch("n1"), second.watch("n2")];
    watches.iter().for_each(|watch| drop(watch.wait_count("changed", 2)));
    let status = || run(&["status", &first.csds, &second.csds, "--replicas", "-o", "ndjson"]);
    eventually("agreement", || match status() {
        ended if ended.code == Some(0) => Ok(()),
        ended => Err(ended.stdout),
    });
    relay.close();
    etcd.write("", "a=2s");
    watches[0].wait_count("changed", 3);
    eventually("a replica that is behind", || {
        let ended = status();
        let is_behind = ended.stdout.contains(r#""behind":1,"#);
        let differs =
            ended.stdout.contains(r#""event":"differing","scope":"","type":"cds","name":"a""#);
        let is_unreachable = !ended.stdout.contains(r#""older_by":null},{"replica"#) || differs;
        match is_behind && differs && is_unreachable && ended.code == Some(1) {
            true => Ok(()),
            false => Err(ended.stdout),
        }
    });
    // Clients of the second replica keep what they have.
    assert_eq!(watches[1].events_of("removed").len(), 0);
    assert!(metric(&second.metrics, "xds_source_stale_seconds").unwrap() > 0.0);
    relay.open();
    watches[1].wait_count("changed", 3);
    eventually("agreement", || match status() {
        ended if ended.code == Some(0) => Ok(()),
        ended => Err(ended.stdout),
    });
    second.serve.wait_event("recovery", |event| event["event"] == "file_valid");
    assert_eq!(metric(&second.metrics, "xds_source_stale_seconds"), Some(0.0));
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn stale_replica_is_not_ready_until_etcd_is_back() {
    let mut etcd = Etcd::start();
    etcd.write("", "a=1s");
    let replica = Replica::start(&etcd.source(), &["--max-staleness", "1s"]);
    let connected = replica.watch("n1");
    connected.wait_count("changed", 1);
    assert_eq!(health(&replica.listen), SERVING);
    assert_eq!(request(&replica.metrics, "GET /ready").0, 200);
    etcd.kill();
    // No request and no client wakes the server up.
    eventually("NOT_SERVING", || match health(&replica.listen) {
        NOT_SERVING => Ok(()),
        other => Err(other.to_string()),
    });
    let (status, why) = request(&replica.metrics, "GET /ready");
    assert_eq!(status, 503);
    assert!(why.contains("the source has been unreachable for"), "{why}");
    assert_eq!(metric(&replica.metrics, "xds_source_revision"), Some(2.0));
    let refused = replica.watch("n2");
    refused
        .wait_event("a refusal", |event| event["event"] == "ambient" || event["event"] == "error");
    let shown = run(&["status", &replica.csds]);
    assert!(shown.stdout.starts_with("source unreachable for "), "{}", shown.stdout);
    assert_eq!(connected.events_of("removed").len(), 0);
    etcd.restart();
    eventually("SERVING", || match health(&replica.listen) {
        SERVING => Ok(()),
        other => Err(other.to_string()),
    });
    refused.wait_count("changed", 1);
    assert_eq!(connected.events_of("changed").len(), 1, "nothing is sent again");
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn clients_see_the_view_that_the_rules_select() {
    let etcd = Etcd::start();
    etcd.write("", "a=1s b=1s");
    etcd.write("canary", "b=2s");
    let file = TempDir::new();
    file.save(
        "views.yaml",
        "rules: [{ view: canary, when: { id: canary-* } }]\nviews: { canary: { base: default } }\n",
    );
    let views = file.join("views.yaml");
    let replica = Replica::start(&etcd.source(), &["--views", views.to_str().unwrap()]);
    let (canary, other) = (replica.watch("canary-1"), replica.watch("test"));
    let timeouts = |watch: &Xds| -> Vec<_> {
        let changed = watch.wait_count("changed", 2);
        let timeout = |it: &serde_json::Value| it["resource"]["connect_timeout"].to_string();
        changed.iter().map(timeout).collect()
    };
    assert_eq!(timeouts(&canary), [r#""1s""#, r#""2s""#]);
    assert_eq!(timeouts(&other), [r#""1s""#, r#""1s""#]);
    etcd.write("canary", "c=1s");
    canary.wait_count("changed", 3);
    assert_eq!(other.events_of("changed").len(), 2);
    let status = run(&["status", &replica.csds]).stdout;
    assert!(status.contains("canary-1 canary\n"), "{status}");
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn rejections_are_written_to_etcd_until_the_client_disconnects() {
    let etcd = Etcd::start();
    etcd.write("", "good=1s bad=0s");
    let replica = Replica::start(&etcd.source(), &["--report-rejections"]);
    // The client checks the constraints of the API.
    let watch = replica.watch("n1");
    let rejected = || {
        etcd.with_store("/xds/@rejected", async |store| {
            let stored = store.read().await.unwrap();
            let values = stored.resources.iter().map(|((_, _, name), value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value).into_owned())
            });
            values.collect::<Vec<_>>()
        })
    };
    eventually("a rejection", || match &rejected()[..] {
        [(name, value)] if name.starts_with("bad/") && value.contains(r#""clients":1"#) => {
            if value.contains("connect_timeout") { Ok(()) } else { Err(value.clone()) }
        }
        other => Err(format!("{other:?}")),
    });
    // It is no resource.
    assert_eq!(replica.serve.events_of("file_error").len(), 0);
    assert_eq!(metric(&replica.metrics, "xds_server_resources"), Some(2.0));
    drop(watch);
    // A key is written at most once in 30 seconds.
    eventually_within(Duration::from_secs(90), "no rejection", || match &rejected()[..] {
        [] => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

/// Removes clusters of the view without a name, in one transaction.
fn remove(etcd: &Etcd, clusters: &[&str]) {
    etcd.with_store("/xds", async |store| {
        let stored = store.read().await.unwrap();
        let kept = stored.resources.clone().into_iter();
        let kept = kept.filter(|((_, _, name), _)| !clusters.contains(&name.as_str())).collect();
        store.write(&stored, &kept, Prune::Yes).await.unwrap();
    });
}

/// Returns the values of the keys below `/xds/@rejected`, by view, type and the rest of the key.
fn rejected(etcd: &Etcd) -> Vec<(String, String)> {
    etcd.with_store("/xds/@rejected", async |store| {
        let stored = store.read().await.unwrap();
        let values = stored.resources.iter().map(|((_, _, name), value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value).into_owned())
        });
        values.collect()
    })
}

fn force(etcd: &Etcd, refused: &serde_json::Value) {
    let id = refused["change"].as_str().unwrap().parse().unwrap();
    etcd.with_store("/xds", async |store| store.force(&[id]).await.unwrap());
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn refused_change_is_reported_to_etcd_and_forced_by_a_key_on_all_replicas() {
    let etcd = Etcd::start();
    etcd.write("", "a=1s b=1s c=1s d=1s");
    let flags =
        ["--guard", "max-removal:cds=25", "--guard", "require:cds=a", "--report-rejections"];
    let replicas = [Replica::start(&etcd.source(), &flags), Replica::start(&etcd.source(), &flags)];
    let watches = [replicas[0].watch("n1"), replicas[1].watch("n2")];
    watches.iter().for_each(|watch| drop(watch.wait_count("changed", 4)));
    remove(&etcd, &["b", "c"]);
    let refused: Vec<_> =
        replicas.iter().map(|it| it.serve.wait_count("refused", 1).remove(0)).collect();
    let (id, revision) = (&refused[0]["change"], &refused[0]["revision"]);
    assert_eq!((&refused[1]["change"], &refused[1]["revision"]), (id, revision));
    let keys = ["/xds/default/clusters/b", "/xds/default/clusters/c"];
    assert_eq!(refused[0]["objects"], serde_json::json!(keys));
    let id = id.as_str().unwrap();
    assert_eq!(refused[0]["force"], format!("etcdctl put /xds/@force {id}"));
    // The deleted keys have a status, of each replica.
    eventually("the status of the keys", || {
        let rejected = rejected(&etcd);
        let of = |key: &str| rejected.iter().filter(|(name, _)| name.starts_with(key)).count();
        let text = "would remove 2 of 4 clusters (50 percent), the limit is 25 percent";
        let is_it = |value: &str| value.contains(id) && value.contains(text);
        match (of("b/"), of("c/"), rejected.iter().all(|(_, value)| is_it(value))) {
            (2, 2, true) => Ok(()),
            _ => Err(format!("{rejected:?}")),
        }
    });
    // The revision counts as reached, so clients do not wait, and another change is added to it.
    let shown = run(&["status", &replicas[0].csds, &replicas[1].csds, "--replicas"]).stdout;
    assert!(shown.contains(id), "{shown}");
    etcd.write("", "d=9s");
    let again = replicas.each_ref().map(|it| it.serve.wait_count("refused", 2).remove(1));
    assert_eq!(again[0]["change"], again[1]["change"]);
    assert_ne!(again[0]["change"], *id);
    watches.iter().for_each(|watch| assert_eq!(watch.events_of("changed").len(), 4));
    // A replica that starts now has nothing to compare with, and serves the state of etcd.
    let late = Replica::start(&etcd.source(), &flags);
    assert_eq!(late.serve.events_of("serving")[0]["resources"], 2);

    force(&etcd, &again[0]);
    for (replica, watch) in replicas.iter().zip(&watches) {
        replica.serve.wait_count("forced", 1);
        watch.wait_count("removed", 2);
        watch.wait_count("changed", 5);
        assert_eq!(metric(&replica.metrics, "xds_source_refused"), Some(0.0));
    }
    // The used id forces nothing else.
    remove(&etcd, &["a"]);
    let refused = replicas[0].serve.wait_count("refused", 3).remove(2);
    let errors: Vec<_> = refused["violations"].as_array().unwrap().iter().collect();
    assert_eq!(errors[1]["error"], "would remove cds `a`, which is required");
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn first_state_of_etcd_that_a_guard_refuses_is_not_served() {
    let etcd = Etcd::start();
    etcd.write("", "a=1s");
    let replica = Replica::start(&etcd.source(), &["--guard", "min:cds=2"]);
    let refused = replica.serve.wait_count("refused", 1).remove(0);
    assert_eq!(refused["violations"][0]["error"], "has 1 of at least 2 clusters");
    assert_eq!(health(&replica.listen), NOT_SERVING);
    let watch = replica.watch("n1");
    etcd.write("", "b=1s");
    watch.wait_count("changed", 2);
    assert_eq!(health(&replica.listen), SERVING);
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn source_that_was_never_reached_is_stale_and_named_by_the_readiness() {
    let mut etcd = Etcd::start();
    etcd.kill();
    let replica = Replica::start(&etcd.source(), &[]);
    eventually("staleness", || match metric(&replica.metrics, "xds_source_stale_seconds") {
        Some(seconds) if seconds > 0.0 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let expected = format!("not ready: nothing is served until {} has been read\n", etcd.source());
    assert_eq!(request(&replica.metrics, "GET /ready"), (503, expected));
    etcd.restart();
    eventually("no staleness", || match metric(&replica.metrics, "xds_source_stale_seconds") {
        Some(0.0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

/// While a generation is current, keys below the prefix itself are not served.
#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn keys_beside_the_current_generation_are_reported() {
    let etcd = Etcd::start();
    etcd.write("", "c0=2s c1=2s");
    let replica = Replica::start(&etcd.source(), &[]);
    let many: String = (0..200).map(|number| format!("c{number}=1s ")).collect();
    etcd.write("", &many);
    eventually("200 clusters", || match metric(&replica.metrics, "xds_server_resources") {
        Some(200.0) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert!(!replica.serve.stderr().contains("not served"), "{}", replica.serve.stderr());
    // The prefix and the view of this store make it a key below the prefix of the other one.
    let key = ("clusters".into(), types::CLUSTER.into(), "x".into());
    etcd.put("/xds/default", BTreeMap::from([(key, Bytes::from("name: x\n"))]));
    let text = "1 key is not served, because /xds/@current names a generation, whose keys are below \
                /xds/@generations/";
    replica.serve.wait_stderr(text);
    assert!(replica.serve.stderr().contains("/xds/default/clusters/clusters/x"));
    // A server that starts finds it too, also when another generation has become current.
    let more: String = (0..200).map(|number| format!("c{number}=2s ")).collect();
    etcd.write("", &more);
    let other = Replica::start(&etcd.source(), &[]);
    other.serve.wait_stderr(text);
    assert_eq!(metric(&other.metrics, "xds_server_ready"), Some(1.0));
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn bad_keys_are_reported_as_keys_and_lose_nothing() {
    let etcd = Etcd::start();
    etcd.write("", "a=1s b=1s");
    let source = etcd.source();
    let replica = Replica::start(&source, &[]);
    let table = Xds::spawn(&["serve", &source, "--listen", "127.0.0.1:0"]);
    table.wait_stdout("2 resources");
    let watch = replica.watch("n1");
    watch.wait_count("changed", 2);
    let named = |name: &str| ("".into(), types::CLUSTER.into(), name.into());
    // A value with an error, and a key that is no resource.
    etcd.put("/xds", BTreeMap::from([(named("a"), Bytes::from("name: a\nconnect_timeout: 5\n"))]));
    etcd.put("/xds/default", BTreeMap::from([(named("x"), Bytes::from("name: x\n"))]));
    let errors = replica.serve.wait_count("file_error", 2);
    let text = |at: usize| errors[at]["error"].as_str().unwrap();
    assert!(text(0).starts_with("/xds/default/clusters/a:2:18: connect_timeout: "), "{}", text(0));
    assert!(text(1).starts_with("/xds/default/default/clusters/x: unknown type"), "{}", text(1));
    table.wait_stderr("the last valid state of the key stays in use: 1 resource");
    assert!(!table.stderr().contains("file"), "{}", table.stderr());
    // Other keys go on, and the repaired one is used.
    etcd.write("", "b=2s");
    watch.wait_count("changed", 3);
    etcd.write("", "a=3s");
    watch.wait_count("changed", 4);
    assert_eq!(watch.events_of("removed").len(), 0);
}

#[test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
fn pull_prints_the_valid_resources_and_the_errors_of_the_others() {
    let etcd = Etcd::start();
    etcd.write("", "a=1s");
    let named = |name: &str| ("".into(), types::CLUSTER.into(), name.into());
    etcd.put("/xds", BTreeMap::from([(named("b"), Bytes::from("name: b\nconnect_timeout: 5\n"))]));
    let pulled = run(&["pull", &etcd.source()]);
    assert_eq!(pulled.code, Some(1), "{}", pulled.stderr);
    assert!(
        pulled.stdout.contains("name: a") && !pulled.stdout.contains("name: b"),
        "{}",
        pulled.stdout
    );
    assert!(pulled.stderr.contains("error: cds b:2:18: connect_timeout: "), "{}", pulled.stderr);
}
