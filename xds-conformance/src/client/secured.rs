//! Test cases for streams over TLS.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use xds_bootstrap::TlsFiles;
use xds_core::types::CLUSTER;

use super::{at, config};
use crate::{
    ClientAdapter, ClientSettings,
    certificates::{Authority, mutual_tls},
    folder::Folder,
    peer::{Headers, Peer},
    wait::{no_value, value},
};

/// Name of the transport that [`ClientSettings::tls`] applies to.
const SECURED: &str = "secured";

struct SecuredPeer {
    peer: Peer,
    settings: ClientSettings,
    token: String,
    _folder: Folder,
}

/// Starts a server with a certificate of `servers`, for a client that trusts `trusted`.
fn stage(servers: &Authority, trusted: &Authority) -> SecuredPeer {
    let (clients, folder) = (Authority::new("clients"), Folder::new());
    let peer =
        Peer::start_with(Headers::AtOnce, Some(mutual_tls(&servers.issue("127.0.0.1"), &clients)));
    let own = clients.issue("client");
    let tls =
        TlsFiles::default().with_ca_certificate(folder.put("ca.pem", &trusted.pem)).with_identity(
            folder.put("own.pem", &own.certificate),
            folder.put("own.key", &own.private_key),
        );
    let token = token();
    let settings = ClientSettings {
        tls: Some(tls),
        token: Some(folder.put("token", &token)),
        ..ClientSettings::default()
    };
    SecuredPeer { peer, settings, token, _folder: folder }
}

pub(super) async fn mutual_tls_and_token(adapter: &dyn ClientAdapter) {
    let servers = Authority::new("servers");
    let mut stage = stage(&servers, &servers);
    let server = at(stage.peer.address).with_transport(SECURED);
    let client = adapter.connect(config(server), &stage.settings);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let mut call = stage.peer.call().await;
    let authorization = call.headers.get("authorization").map(|it| it.as_bytes().to_vec());
    assert_eq!(authorization, Some(format!("Bearer {}", stage.token).into_bytes()));
    call.sotw().await;
    call.respond(CLUSTER, "1", "n1", &[("a", "one")]);
    value(&mut watch).await;
    println!("covers: B42");
}

pub(super) async fn strangers(adapter: &dyn ClientAdapter) {
    let stage = stage(&Authority::new("servers"), &Authority::new("others"));
    let server = at(stage.peer.address).with_transport(SECURED);
    let client = adapter.connect(config(server), &stage.settings);
    let mut watch = client.watch_untyped(CLUSTER, "a");
    let why = no_value(&mut watch).await.to_string();
    assert!(why.contains("certificate"), "{why}");
}

/// Returns a token that is valid for one hour.
fn token() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock that is set");
    let claims = format!("{{\"exp\": {}}}", now.as_secs() + 3_600);
    format!("e30.{}.c2lnbmF0dXJl", URL_SAFE_NO_PAD.encode(claims))
}
