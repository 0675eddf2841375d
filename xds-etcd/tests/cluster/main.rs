//! Reading, watching and writing at a real etcd. `XDS_ETCD` names its binary:
//! `XDS_ETCD=etcd cargo test -p xds-etcd --test cluster -- --ignored`.

mod rollouts;

use std::{
    collections::BTreeMap,
    env, fs,
    future::pending,
    net::TcpListener,
    path::PathBuf,
    pin::pin,
    process::{Child, Command, Stdio, id},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::TcpStream,
    select,
    sync::watch,
    time::{sleep, timeout},
};
use xds_core::types;
use xds_etcd::{
    Endpoint, EtcdClient, EtcdOptions, EtcdSource, EtcdStore, Prune, Registration, StoredName,
    TransactionLimits, WriteError,
};
use xds_grpc::Keepalive;
use xds_source::{Change, Content, ObjectChange, Revision, Source as _, SourceError, WatchError};
use xds_tokio::Tokio;

/// etcd with one member, which ends with its value.
struct Etcd {
    process: Child,
    address: String,
    directory: PathBuf,
}

static STARTED: AtomicU32 = AtomicU32::new(0);

impl Etcd {
    async fn start(flags: &[&str]) -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = env::temp_dir().join(format!("xds-etcd-{}-{number}", id()));
        fs::create_dir_all(&directory).unwrap();
        let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (clients, peers) = (port(), port());
        let clients_url = format!("http://127.0.0.1:{clients}");
        let binary = env::var("XDS_ETCD").expect("XDS_ETCD names the binary of etcd");
        let process = Command::new(binary)
            .arg("--data-dir")
            .arg(&directory)
            .args(["--listen-client-urls", &clients_url, "--advertise-client-urls", &clients_url])
            .args(["--listen-peer-urls", &format!("http://127.0.0.1:{peers}")])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let etcd = Self { process, address: format!("127.0.0.1:{clients}"), directory };
        let store = etcd.store();
        while store.read().await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
        etcd
    }

    fn client(&self) -> EtcdClient {
        EtcdClient::new(Tokio, EtcdOptions::new([self.address.as_str()])).unwrap()
    }

    fn store(&self) -> EtcdStore {
        EtcdStore::new(self.client(), "/xds")
    }

    /// Deletes a key through the JSON gateway, as other programs do.
    async fn delete(&self, key: &str) {
        let body = format!(r#"{{"key": "{}"}}"#, STANDARD.encode(key));
        let request = format!(
            "POST /v3/kv/deleterange HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len(),
        );
        let mut socket = TcpStream::connect(&self.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains(r#""deleted":"1""#), "{answer}");
    }

    fn source(&self) -> EtcdSource {
        EtcdSource::new(self.client(), "/xds")
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn cluster(name: &str) -> StoredName {
    ("".into(), types::CLUSTER.into(), name.into())
}

fn clusters(names: &[&str], value: &str) -> BTreeMap<StoredName, Bytes> {
    let value = |name: &str| Bytes::from(format!("name: {name}\nalt_stat_name: {value}\n"));
    names.iter().map(|name| (cluster(name), value(name))).collect()
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future).await.expect("it takes longer than 30 s")
}

/// Returns the next change with objects.
async fn next(
    changes: &mut (impl Stream<Item = Result<Change, WatchError>> + Unpin),
) -> Result<Change, WatchError> {
    loop {
        match soon(changes.next()).await.expect("the watch has ended") {
            Ok(change) if change.objects.is_empty() => {}
            result => return result,
        }
    }
}

/// Returns the changed objects in short form, sorted.
fn shown(change: &Change) -> String {
    let mut shown: Vec<_> = change
        .objects
        .iter()
        .map(|change| match change {
            ObjectChange::Set(object) => {
                let mark = if matches!(object.content, Content::Invalid(_)) { '!' } else { '+' };
                format!("{mark}{}", object.id)
            }
            ObjectChange::Delete(id) => format!("-{id}"),
        })
        .collect();
    shown.sort();
    shown.join(" ")
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn transaction_is_one_change_and_a_watch_resumes_behind_it() {
    let etcd = Etcd::start(&[]).await;
    let (store, source) = (etcd.store(), etcd.source());
    let written = clusters(&["a", "b"], "1");
    let empty = soon(store.read()).await.unwrap();
    let diff = soon(store.write(&empty, &written, Prune::No)).await.unwrap();
    assert_eq!((diff.added.len(), diff.changed.len(), diff.removed.len()), (2, 0, 0));
    let list = soon(source.list()).await.unwrap();
    assert_eq!(list.objects.len(), 2);

    let mut watch = pin!(source.watch(list.revision));
    let stored = soon(store.read()).await.unwrap();
    assert_eq!(stored.resources, written);
    let changed = clusters(&["b", "c"], "2");
    soon(store.write(&stored, &changed, Prune::Yes)).await.unwrap();
    let change = next(&mut watch).await.unwrap();
    let keys = ["-/xds/default/clusters/a", "+/xds/default/clusters/b", "+/xds/default/clusters/c"];
    let mut expected = keys;
    expected.sort();
    assert_eq!(shown(&change), expected.join(" "));

    // Two further transactions while nobody watches are two changes of the next watch.
    for value in ["3", "4"] {
        let stored = soon(store.read()).await.unwrap();
        soon(store.write(&stored, &clusters(&["c"], value), Prune::No)).await.unwrap();
    }
    let mut resumed = pin!(source.watch(change.revision));
    let revisions = [next(&mut resumed).await.unwrap(), next(&mut resumed).await.unwrap()];
    assert!(revisions.iter().all(|it| shown(it) == "+/xds/default/clusters/c"));
    assert!(change.revision < revisions[0].revision);
    assert!(revisions[0].revision < revisions[1].revision);
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn slower_writer_loses_nothing_of_the_faster_one() {
    let etcd = Etcd::start(&[]).await;
    let store = etcd.store();
    let stored = soon(store.read()).await.unwrap();
    soon(store.write(&stored, &clusters(&["a"], "1"), Prune::No)).await.unwrap();
    let late = soon(store.write(&stored, &clusters(&["a"], "2"), Prune::No)).await;
    assert!(matches!(late, Err(WriteError::Conflict)), "{late:?}");
    let stored = soon(store.read()).await.unwrap();
    assert_eq!(stored.resources, clusters(&["a"], "1"));
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn large_change_becomes_current_at_once() {
    let etcd = Etcd::start(&[]).await;
    let (store, source) = (etcd.store(), etcd.source());
    let stored = soon(store.read()).await.unwrap();
    soon(store.write(&stored, &clusters(&["old"], "1"), Prune::No)).await.unwrap();
    let list = soon(source.list()).await.unwrap();
    let mut watch = pin!(source.watch(list.revision));
    let names: Vec<_> = (0..1_000).map(|number| format!("c{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for value in ["1", "2", "3"] {
        let stored = soon(store.read()).await.unwrap();
        soon(store.write(&stored, &clusters(&names, value), Prune::Yes)).await.unwrap();
        assert_eq!(next(&mut watch).await.unwrap_err(), WatchError::Replaced);
        let list = soon(source.list()).await.unwrap();
        assert_eq!(list.objects.len(), 1_000);
        watch.set(source.watch(list.revision));
    }
    // Small changes are made within the generation.
    let stored = soon(store.read()).await.unwrap();
    soon(store.write(&stored, &clusters(&["c7"], "9"), Prune::No)).await.unwrap();
    assert!(shown(&next(&mut watch).await.unwrap()).ends_with("/default/clusters/c7"));
    // Conflicts are found in it too.
    let late = soon(store.write(&stored, &clusters(&names, "late"), Prune::Yes)).await;
    assert!(matches!(late, Err(WriteError::Conflict)), "{late:?}");
}

/// A large change copies all resources into a new generation, also those that it does not concern.
#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn large_change_does_not_bring_back_what_was_removed_meanwhile() {
    let etcd = Etcd::start(&[]).await;
    let store = etcd.store();
    let names: Vec<_> = (0..300).map(|number| format!("c{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let large = |value| clusters(&names, value);
    let none = soon(store.read()).await.unwrap();
    soon(store.write(&none, &clusters(&["a", "b", "c"], "1"), Prune::No)).await.unwrap();
    let before = soon(store.read()).await.unwrap();
    let rest = clusters(&["b", "c"], "1");
    soon(store.write(&before, &rest, Prune::Yes)).await.unwrap();
    let late = soon(store.write(&before, &large("1"), Prune::No)).await;
    assert!(matches!(late, Err(WriteError::Conflict)), "{late:?}");

    // Another program removes keys without a mark.
    let before = soon(store.read()).await.unwrap();
    etcd.delete("/xds/default/clusters/b").await;
    let late = soon(store.write(&before, &large("1"), Prune::No)).await;
    assert!(matches!(late, Err(WriteError::Conflict)), "{late:?}");

    let now = soon(store.read()).await.unwrap();
    soon(store.write(&now, &large("1"), Prune::No)).await.unwrap();
    let after = soon(store.read()).await.unwrap();
    assert_eq!(after.resources.len(), 301, "{:?}", after.resources.keys());
    assert!(after.resources.contains_key(&cluster("c")));
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn value_that_is_too_large_is_refused_before_the_write() {
    let etcd = Etcd::start(&[]).await;
    let store = etcd.store();
    let stored = soon(store.read()).await.unwrap();
    let mut resources = clusters(&["a"], "1");
    resources.insert(cluster("big"), vec![b'#'; 2 << 20].into());
    let error = soon(store.write(&stored, &resources, Prune::No)).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("/xds/default/clusters/big has 2097152 bytes"), "{text}");
    assert_eq!(soon(store.read()).await.unwrap().resources.len(), 0);
    // A limit that the cluster does not have is its error.
    let limits = TransactionLimits::default().with_operations(1_000);
    let names: Vec<_> = (0..300).map(|number| format!("c{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let greedy = etcd.store().with_limits(limits);
    let error = soon(greedy.write(&stored, &clusters(&names, "1"), Prune::No)).await.unwrap_err();
    assert!(error.to_string().contains("too many operations"), "{error}");
}

/// Returns the document of the object that a change sets.
fn document(change: &Change) -> String {
    let found = change.objects.iter().find_map(|change| match change {
        ObjectChange::Set(object) => match &object.content {
            Content::Document { bytes, .. } => Some(bytes.clone()),
            _ => None,
        },
        ObjectChange::Delete(_) => None,
    });
    String::from_utf8(found.unwrap().to_vec()).unwrap()
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn newest_registration_of_an_address_is_used() {
    let etcd = Etcd::start(&[]).await;
    let source = etcd.source();
    let list = soon(source.list()).await.unwrap();
    let mut watch = pin!(source.watch(list.revision));
    let register = |id, address, weight| {
        let client = etcd.client();
        async move {
            let endpoint = Endpoint::new(address, 80).with_weight(weight);
            let ttl = Duration::from_secs(60);
            Registration::start(&client, "/xds", "", "web", id, endpoint, ttl).await.unwrap()
        }
    };
    let same = |change: &Change, weight: u32| {
        let text = document(change);
        assert_eq!(text.matches("port_value").count(), 1, "{text}");
        let weight = format!(r#""load_balancing_weight":{weight}"#);
        assert_eq!(text.matches(&weight).count(), 2, "endpoint and locality: {text}");
    };
    let _old = soon(register("2", "::1", 2)).await;
    same(&next(&mut watch).await.unwrap(), 2);
    let new = soon(register("1", "0:0:0:0:0:0:0:1", 3)).await;
    same(&next(&mut watch).await.unwrap(), 3);
    // A source that reads the registrations later has the same endpoints.
    let read = soon(etcd.source().list()).await.unwrap();
    let set = read.objects.into_iter().map(ObjectChange::Set).collect();
    same(&Change { revision: read.revision, objects: set }, 3);
    soon(new.end()).await.unwrap();
    same(&next(&mut watch).await.unwrap(), 2);
}

/// The connection becomes silent, so the call that revokes the lease gets no response.
#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn registration_is_not_renewed_while_it_ends() {
    let etcd = Etcd::start(&[]).await;
    let (_target, target) = watch::channel(etcd.address.clone());
    let (address, silent) = relay(target).await;
    let client = EtcdClient::new(Tokio, EtcdOptions::new([address])).unwrap();
    let endpoint = Endpoint::new("127.0.0.1", 80);
    let ttl = Duration::from_secs(2);
    let starting = Registration::start(&client, "/xds", "", "web", "1", endpoint, ttl);
    let registration = soon(starting).await.unwrap();
    assert_eq!(soon(etcd.source().list()).await.unwrap().objects.len(), 1);
    silent.send_replace(true);
    sleep(Duration::from_millis(100)).await;
    // Further connections are forwarded.
    silent.send_replace(false);
    let ending = timeout(Duration::from_secs(6), registration.end()).await;
    assert!(ending.is_err(), "{ending:?}");
    assert_eq!(soon(etcd.source().list()).await.unwrap().objects.len(), 0);
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn endpoint_is_removed_when_its_lease_ends() {
    let etcd = Etcd::start(&[]).await;
    let source = etcd.source();
    let list = soon(source.list()).await.unwrap();
    let mut watch = pin!(source.watch(list.revision));
    let register = |id, port| {
        let client = etcd.client();
        async move {
            let endpoint = Endpoint::new("127.0.0.1", port);
            let ttl = Duration::from_secs(2);
            Registration::start(&client, "/xds", "", "web", id, endpoint, ttl).await.unwrap()
        }
    };
    let endpoints = |change: &Change| document(change).matches("port_value").count();
    let ended = soon(register("1", 80)).await;
    assert_eq!(endpoints(&next(&mut watch).await.unwrap()), 1);
    let lost = soon(register("2", 81)).await;
    assert_eq!(endpoints(&next(&mut watch).await.unwrap()), 2);
    // It is renewed for longer than its time to live.
    sleep(Duration::from_secs(5)).await;
    let list = soon(source.list()).await.unwrap();
    assert_eq!(list.objects.len(), 1);
    soon(ended.end()).await.unwrap();
    assert_eq!(endpoints(&next(&mut watch).await.unwrap()), 1);
    drop(lost);
    assert_eq!(endpoints(&next(&mut watch).await.unwrap()), 0);
}

/// Registrations and a resource with the endpoints of one cluster.
#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn resource_defines_the_endpoints_once_the_last_registration_has_ended() {
    let etcd = Etcd::start(&[]).await;
    let (store, source) = (etcd.store(), etcd.source());
    let list = soon(source.list()).await.unwrap();
    let mut watch = pin!(source.watch(list.revision));
    let register = || {
        let client = etcd.client();
        let endpoint = Endpoint::new("127.0.0.1", 80);
        async move {
            let ttl = Duration::from_secs(60);
            Registration::start(&client, "/xds", "", "web", "1", endpoint, ttl).await.unwrap()
        }
    };
    let name: StoredName = ("".into(), types::CLUSTER_LOAD_ASSIGNMENT.into(), "web".into());
    let resource = BTreeMap::from([(name, Bytes::from("cluster_name: web\n"))]);
    let registrations = "default/endpoints/web (registrations)";
    let key = "/xds/default/endpoints/web";

    // The resource is written after the end of the registration.
    let ended = soon(register()).await;
    assert_eq!(shown(&next(&mut watch).await.unwrap()), format!("+{registrations} -{key}/1"));
    soon(ended.end()).await.unwrap();
    assert_eq!(shown(&next(&mut watch).await.unwrap()), format!("+{registrations} -{key}/1"));
    let stored = soon(store.read()).await.unwrap();
    soon(store.write(&stored, &resource, Prune::No)).await.unwrap();
    assert_eq!(shown(&next(&mut watch).await.unwrap()), format!("+{key} -{registrations}"));

    // A registration ends while the resource exists.
    let ended = soon(register()).await;
    assert_eq!(shown(&next(&mut watch).await.unwrap()), format!("+{registrations} -{key}/1"));
    soon(ended.end()).await.unwrap();
    assert_eq!(shown(&next(&mut watch).await.unwrap()), format!("-{key}/1 -{registrations}"));

    // Deleted, the resource leaves nothing behind.
    let stored = soon(store.read()).await.unwrap();
    soon(store.write(&stored, &BTreeMap::new(), Prune::Yes)).await.unwrap();
    assert_eq!(shown(&next(&mut watch).await.unwrap()), format!("-{key}"));
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn registrations_that_end_unwatched_leave_an_empty_resource() {
    let etcd = Etcd::start(&[]).await;
    let source = etcd.source();
    let client = etcd.client();
    let endpoint = Endpoint::new("127.0.0.1", 80);
    let ttl = Duration::from_secs(60);
    let starting = Registration::start(&client, "/xds", "", "web", "1", endpoint, ttl);
    let registration = soon(starting).await.unwrap();
    assert_eq!(soon(source.list()).await.unwrap().objects.len(), 1);
    soon(registration.end()).await.unwrap();
    let list = soon(source.list()).await.unwrap();
    let [object] = list.objects.as_slice() else { panic!("{list:?}") };
    let Content::Document { bytes, .. } = &object.content else { panic!("{object:?}") };
    assert!(!String::from_utf8_lossy(bytes).contains("port_value"), "{bytes:?}");
    // A source that has never seen the registration has nothing of it.
    assert_eq!(soon(etcd.source().list()).await.unwrap().objects.len(), 0);
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn keys_that_are_no_resources_are_invalid_objects() {
    let etcd = Etcd::start(&[]).await;
    let stored = soon(etcd.store().read()).await.unwrap();
    // The store writes any type; these keys have none.
    let odd = EtcdStore::new(etcd.client(), "/xds/default");
    soon(odd.write(&stored, &clusters(&["a"], "1"), Prune::No)).await.unwrap();
    let list = soon(etcd.source().list()).await.unwrap();
    let [object] = list.objects.as_slice() else { panic!("{list:?}") };
    assert_eq!(object.id.as_str(), "/xds/default/default/clusters/a");
    let Content::Invalid(why) = &object.content else { panic!("{object:?}") };
    assert!(why.contains("unknown type \"default\""), "{why}");
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn value_of_two_mebibytes_is_read_and_watched() {
    let etcd = Etcd::start(&["--max-request-bytes", "8388608"]).await;
    let store = etcd.store().with_limits(TransactionLimits::default().with_bytes(8 << 20));
    let source = etcd.source();
    let list = soon(source.list()).await.unwrap();
    let mut watch = pin!(source.watch(list.revision));
    let big = |letter: u8| BTreeMap::from([(cluster("big"), vec![letter; 2 << 20].into())]);
    for letter in [b'a', b'b'] {
        let stored = soon(store.read()).await.unwrap();
        soon(store.write(&stored, &big(letter), Prune::No)).await.unwrap();
        assert_eq!(shown(&next(&mut watch).await.unwrap()), "+/xds/default/clusters/big");
    }
    let list = soon(source.list()).await.unwrap();
    let [object] = list.objects.as_slice() else { panic!("{} objects", list.objects.len()) };
    let Content::Document { bytes, .. } = &object.content else { panic!("no document") };
    assert_eq!((bytes.len(), bytes[0]), (2 << 20, b'b'));
}

/// Calls the JSON gateway of etcd.
async fn gateway(address: &str, path: &str, body: &str) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200 "), "{path}: {response}");
}

/// Tokens of this cluster expire after two seconds.
#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary, and openssl"]
async fn expired_token_is_renewed_and_wrong_credentials_are_named() {
    let keys = env::temp_dir().join(format!("xds-etcd-keys-{}", id()));
    fs::create_dir_all(&keys).unwrap();
    let (private, public) = (keys.join("private.pem"), keys.join("public.pem"));
    let openssl = |args: &[&str]| {
        let status = Command::new("openssl").args(args).stderr(Stdio::null()).status();
        assert!(status.unwrap().success());
    };
    let (private, public) = (private.to_str().unwrap(), public.to_str().unwrap());
    openssl(&["genrsa", "-out", private, "2048"]);
    openssl(&["rsa", "-in", private, "-pubout", "-out", public]);
    let token = format!("jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl=2s");
    let etcd = Etcd::start(&["--auth-token", &token]).await;
    for (path, body) in [
        ("role/add", r#"{"name": "root"}"#),
        ("user/add", r#"{"name": "root", "password": "secret"}"#),
        ("user/grant", r#"{"user": "root", "role": "root"}"#),
        ("enable", "{}"),
    ] {
        gateway(&etcd.address, &format!("/v3/auth/{path}"), body).await;
    }
    let client = |user: Option<(&str, &str)>| {
        let options = EtcdOptions::new([etcd.address.as_str()]);
        let options = match user {
            Some((name, password)) => options.with_user(name, password),
            None => options,
        };
        EtcdClient::new(Tokio, options).unwrap()
    };
    let source = EtcdSource::new(client(Some(("root", "secret"))), "/xds");
    let store = EtcdStore::new(client(Some(("root", "secret"))), "/xds");
    let list = soon(source.list()).await.unwrap();
    let mut watch = pin!(source.watch(list.revision));
    for value in ["1", "2"] {
        let stored = soon(store.read()).await.unwrap();
        soon(store.write(&stored, &clusters(&["a"], value), Prune::No)).await.unwrap();
        let change = next(&mut watch).await.unwrap();
        assert_eq!(shown(&change), "+/xds/default/clusters/a");
        // The tokens of both clients expire.
        sleep(Duration::from_secs(3)).await;
        watch.set(source.watch(change.revision));
    }
    assert_eq!(soon(source.list()).await.unwrap().objects.len(), 1);

    let denied = async |user| {
        let error = EtcdSource::new(client(user), "/xds").list().await.unwrap_err();
        assert!(matches!(error, SourceError::Denied(_)), "{error:?}");
        error.to_string()
    };
    let wrong = soon(denied(Some(("root", "wrong")))).await;
    assert!(wrong.contains("user root: ") && wrong.contains("authentication failed"), "{wrong}");
    let nobody = soon(denied(None)).await;
    assert!(nobody.contains("the cluster requires a user with a password"), "{nobody}");
    fs::remove_dir_all(keys).unwrap();
}

#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn unreachable_cluster_is_an_error_with_all_members() {
    let options = EtcdOptions::new(["127.0.0.1:1", "127.0.0.1:2"]);
    let client = EtcdClient::new(Tokio, options).unwrap();
    let error = soon(EtcdStore::new(client, "/xds").read()).await.unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1: ") && error.contains("127.0.0.1:2: "), "{error}");
    assert_eq!(Revision::default(), Revision(0));
}

/// Changes of other keys have revisions too, which a watch reports only on request.
#[tokio::test]
#[ignore = "needs etcd"]
async fn progress_of_the_watch_reaches_the_newest_revision() {
    let etcd = Etcd::start(&[]).await;
    let source = etcd.source();
    let list = source.list().await.unwrap();
    let mut changes = pin!(source.watch(list.revision));
    // Below another prefix.
    let other = EtcdStore::new(etcd.client(), "/other");
    let before = other.read().await.unwrap();
    let written = other.write(&before, &clusters(&["a"], "1"), Prune::No).await;
    written.unwrap();
    let newest = source.newest_revision().await.unwrap().expect("etcd has revisions");
    assert!(newest > list.revision, "{newest} after {}", list.revision);
    let reported = async {
        loop {
            source.report_progress();
            let next = timeout(Duration::from_millis(100), changes.next()).await;
            if let Ok(Some(change)) = next {
                let change = change.unwrap();
                assert!(change.objects.is_empty());
                if change.revision >= newest {
                    return change.revision;
                }
            }
        }
    };
    assert_eq!(soon(reported).await, newest);
}

/// Starts a relay that forwards connections to the address in `target`. While it is silent, it stops
/// forwarding on its connections for good, and keeps them open.
async fn relay(target: watch::Receiver<String>) -> (String, watch::Sender<bool>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (silent, is_silent) = watch::channel(false);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let (target, mut is_silent) = (target.borrow().clone(), is_silent.clone());
            tokio::spawn(async move {
                let mut far = TcpStream::connect(target).await.unwrap();
                let silence = async { drop(is_silent.wait_for(|it| *it).await) };
                let is_silent = select! {
                    _ = copy_bidirectional(&mut near, &mut far) => false,
                    () = silence => true,
                };
                if is_silent {
                    pending::<()>().await;
                }
            });
        }
    });
    (address, silent)
}

/// A watch waits for changes without a time limit.
#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn watch_ends_when_the_network_becomes_silent() {
    let etcd = Etcd::start(&["--grpc-keepalive-min-time", "50ms"]).await;
    let (_target, target) = watch::channel(etcd.address.clone());
    let (address, silent) = relay(target).await;
    let keepalive = Keepalive::new(Duration::from_millis(200), Duration::from_millis(200));
    let options = EtcdOptions::new([address]).with_keepalive(keepalive);
    let source = EtcdSource::new(EtcdClient::new(Tokio, options).unwrap(), "/xds");
    let list = soon(source.list()).await.unwrap();
    let mut changes = pin!(source.watch(list.revision));
    let store = etcd.store();
    let stored = soon(store.read()).await.unwrap();
    soon(store.write(&stored, &clusters(&["a"], "1"), Prune::No)).await.unwrap();
    assert_eq!(shown(&next(&mut changes).await.unwrap()), "+/xds/default/clusters/a");
    silent.send_replace(true);
    let end = next(&mut changes).await.unwrap_err();
    let WatchError::Source(SourceError::Unavailable(why)) = end else { panic!("{end:?}") };
    assert!(why.contains("the connection broke"), "{why}");
}

/// etcd ends connections on which pings arrive while there is no call.
#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn store_that_was_not_used_for_a_while_can_be_written() {
    let etcd = Etcd::start(&["--grpc-keepalive-min-time", "50ms"]).await;
    let keepalive = Keepalive::new(Duration::from_millis(100), Duration::from_millis(200));
    let options = EtcdOptions::new([etcd.address.as_str()]).with_keepalive(keepalive);
    let store = EtcdStore::new(EtcdClient::new(Tokio, options).unwrap(), "/xds");
    let stored = soon(store.read()).await.unwrap();
    // Many pings.
    sleep(Duration::from_secs(2)).await;
    soon(store.write(&stored, &clusters(&["a"], "1"), Prune::No)).await.unwrap();
}

/// Writes one more value of a cluster, and so a revision.
async fn write_next(store: &EtcdStore, value: &str) {
    let stored = soon(store.read()).await.unwrap();
    soon(store.write(&stored, &clusters(&["a"], value), Prune::No)).await.unwrap();
}

/// The second etcd stands for the first one, restored from a backup.
#[tokio::test]
#[ignore = "needs etcd: XDS_ETCD names the binary"]
async fn etcd_at_an_older_revision_fails_the_watch_and_the_newest_revision() {
    let (first, second) = (Etcd::start(&[]).await, Etcd::start(&[]).await);
    let (target, receiver) = watch::channel(first.address.clone());
    let (address, _silent) = relay(receiver).await;
    let source =
        EtcdSource::new(EtcdClient::new(Tokio, EtcdOptions::new([address])).unwrap(), "/xds");
    for value in ["1", "2", "3"] {
        write_next(&first.store(), value).await;
    }
    write_next(&second.store(), "1").await;
    let older = soon(second.source().list()).await.unwrap().revision;
    let list = soon(source.list()).await.unwrap();
    let mut changes = pin!(source.watch(list.revision));
    write_next(&first.store(), "4").await;
    let read = next(&mut changes).await.unwrap().revision;
    assert!(older < list.revision && list.revision < read);
    assert_eq!(soon(source.newest_revision()).await.unwrap(), Some(read));

    target.send_replace(second.address.clone());
    drop(first);
    let end = next(&mut changes).await.unwrap_err();
    assert!(matches!(end, WatchError::Source(SourceError::Unavailable(_))), "{end:?}");
    let expected = SourceError::Failed(format!(
        "etcd is at revision {older}, and this server has read {read}: it was restored from a \
         backup; restart this server"
    ));
    changes.set(source.watch(read));
    assert_eq!(next(&mut changes).await.unwrap_err(), WatchError::Source(expected.clone()));
    assert_eq!(soon(source.newest_revision()).await.unwrap_err(), expected);
    // A source that begins with the restored cluster reads and watches it.
    let restarted = second.source();
    let list = soon(restarted.list()).await.unwrap();
    let mut changes = pin!(restarted.watch(list.revision));
    write_next(&second.store(), "2").await;
    assert_eq!(shown(&next(&mut changes).await.unwrap()), "+/xds/default/clusters/a");
}
