//! Dates in virtual time: certificates that expire, and times in a status.

use core::time::Duration;
use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use prost::Message as _;
use rcgen::{CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio::time::{sleep, timeout};
use xds_bootstrap::{IdentityFiles, TlsFiles};
use xds_core::{
    client::{ClientConfig, Node, Notice, OpaqueType, ServerAddress},
    proto::ClientStatusResponse,
    server::{ServerConfig, Transaction},
    types::CLUSTER,
};
use xds_grpc::{
    ClientOptions, Credentials, ManagementServer, RawCodec, ServerHandle, ServerOptions,
    client::connect, credentials::ServerCredentials, csds::ServerCsdsService,
};
use xds_handle::Watch;
use xds_sim::stack::{Stage, certificates};

use crate::{
    Directory,
    pair::{Served, client, cluster, value},
    raw::PORT,
    two_processes,
};

const DAY: Duration = Duration::from_secs(86_400);

/// 2030-01-01, at which runs start.
fn start() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_893_456_000)
}

/// Writes an authority, and a certificate for `server` that is valid on one day of January 2030.
fn certify(directory: &Path, day: u8) -> [std::path::PathBuf; 3] {
    // The keys are known, so every byte is.
    let key = |pem| KeyPair::from_pem(pem).expect("a key");
    let (authority_key, own_key) = (key(certificates::CLIENT_KEY), key(certificates::SERVER_KEY));
    let mut authority = CertificateParams::new(vec![]).expect("parameters");
    authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key).expect("a certificate");
    let mut own = CertificateParams::new(vec!["server".into()]).expect("parameters");
    own.not_before = date_time_ymd(2030, 1, day);
    own.not_after = date_time_ymd(2030, 1, day + 1);
    let issuer = Issuer::new(authority, authority_key);
    let own = own.signed_by(&own_key, &issuer).expect("a certificate");
    let write = |name: &str, content: &str| {
        let path = directory.join(name);
        fs::write(&path, content).expect("it is written");
        path
    };
    [
        write("ca.pem", &root.pem()),
        write("server.pem", &own.pem()),
        write("server-key.pem", certificates::SERVER_KEY),
    ]
}

/// Waits for an error with a text.
async fn error(watch: &mut Watch, text: &str) {
    loop {
        let notice = watch.next().await.expect("the client lives").expect("a sound watch");
        watch.handled();
        if let Notice::Ambient(Some(why)) | Notice::Changed(Err(why)) = notice
            && why.to_string().contains(text)
        {
            return;
        }
    }
}

/// A day passes: new connections fail when the certificate has expired, and succeed when it is
/// renewed.
async fn pass_a_day(stage: &Stage) {
    let directory = Directory::new();
    let [authority, certificate, key] = certify(directory.path(), 1);
    let (near, far) = (stage.host("client"), stage.server_host("server"));
    let credentials = ServerCredentials::tls(IdentityFiles { certificate, private_key: key });
    let options = ServerOptions::default().with_credentials(credentials);
    let server = ManagementServer::start_on(far.clone(), ServerConfig::default(), options);
    let serving = server.serve(far.listen((far.address(), PORT).into()).expect("a free port"));
    far.start(async move { drop(serving.await) });
    let set = async |text: &str| {
        let mut change = Transaction::new();
        change.set(CLUSTER, "web", cluster("web", text));
        server.handle().apply(change).await.expect("a sound change");
    };
    let connect = || {
        let address = ServerAddress::new(format!("https://server:{PORT}")).with_transport("tls");
        let config =
            ClientConfig::new(Node::new("client"), address).with_type(OpaqueType::new(CLUSTER));
        let files = TlsFiles::default().with_ca_certificate(authority.clone());
        let options =
            ClientOptions::default().with_credentials("tls".into(), Credentials::tls(files));
        connect(near.clone(), config, options)
    };
    let client = connect();
    let mut watch = client.watch_untyped(CLUSTER, "web");
    set("valid").await;
    value(&mut watch, "web", "valid").await;

    sleep(DAY - Duration::from_secs(60)).await;
    stage.reset(&near, &far);
    set("still valid").await;
    value(&mut watch, "web", "still valid").await;

    sleep(Duration::from_secs(61)).await;
    stage.reset(&near, &far);
    // TLS resumes the session of this client, without another look at the certificate.
    set("resumed").await;
    value(&mut watch, "web", "resumed").await;
    let other = connect();
    let mut watch = other.watch_untyped(CLUSTER, "web");
    let refused = error(&mut watch, "certificate has expired");
    timeout(Duration::from_secs(60), refused).await.expect("a new session is refused");

    certify(directory.path(), 2);
    set("renewed").await;
    value(&mut watch, "web", "renewed").await;
}

#[test]
fn certificate_expires_in_virtual_time() {
    let report = Stage::run(1, pass_a_day);
    assert_eq!(report.trace.violation, None);
}

#[test]
fn runs_over_a_day_with_tls_are_equal_in_two_processes() {
    let hashes = || -> Vec<u64> {
        (1..4).map(|seed| Stage::run(seed, pass_a_day).trace.header.hash).collect()
    };
    two_processes("dates::runs_over_a_day_with_tls_are_equal_in_two_processes", hashes);
}

#[test]
fn host_has_a_date_of_its_own() {
    Stage::run(1, async |stage| {
        let (one, other) = (stage.host("one"), stage.host("other"));
        sleep(DAY).await;
        other.set_date(start());
        sleep(DAY).await;
        assert_eq!((one.date(), other.date()), (start() + 2 * DAY, start() + DAY));
    });
}

/// Calls the status service of a server.
async fn status_of(server: ServerHandle) -> ClientStatusResponse {
    let service = ServerCsdsService::new(server).with_unrestricted_access();
    let mut grpc = tonic::client::Grpc::new(service);
    grpc.ready().await.expect("it is ready");
    let path = http::uri::PathAndQuery::from_static(
        "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus",
    );
    let request = tonic::Request::new(bytes::Bytes::new());
    let answer = grpc.unary(request, path, RawCodec).await.expect("a status");
    ClientStatusResponse::decode(answer.into_inner()).expect("a message")
}

#[test]
fn times_in_a_status_are_those_of_the_run() {
    Stage::run(1, async |stage| {
        let served = Served::start(stage, "server");
        let client =
            client(&stage.host("client"), &["server"], xds_core::service::Variant::Incremental);
        let mut watch = client.watch_untyped(CLUSTER, "web");
        sleep(DAY).await;
        served.set("web", "v").await;
        value(&mut watch, "web", "v").await;
        sleep(DAY).await;
        let status = client.status().await.expect("it lives");
        assert_eq!(status[0].updated, Some(start() + DAY));
        let all = xds_core::client::Contents::default();
        let csds = client.csds("", all).await.expect("it lives");
        let of_server = status_of(served.server.handle()).await;
        for config in [&csds, &of_server.config[0]] {
            let updated = config.generic_xds_configs[0].last_updated.as_ref().expect("a time");
            assert_eq!(updated.seconds, 1_893_456_000 + 86_400, "{config:?}");
        }
    });
}
