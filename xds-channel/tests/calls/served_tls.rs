//! Servers with mutual TLS as their listener says (gRFC A29), and access rules about the names in
//! client certificates (gRFC A41). The client is a channel.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use http::{Request, Response};
use prost::Message as _;
use tonic::{
    Code, Status, body::Body, server::NamedService, service::Routes,
    transport::server::TcpConnectInfo,
};
use tonic_health::{
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tower_service::Service;
use xds_channel::{ChannelOptions, XdsServer, XdsServerOptions};
use xds_core::{
    proto::{BoolValue, StringMatcher, envoy::r#type::matcher::v3::string_matcher::MatchPattern},
    types,
};
use xds_routing::{
    proto::envoy::{
        config::{
            core::v3::{TransportSocket, transport_socket},
            listener::v3::{Filter, FilterChain, Listener, filter},
            rbac::v3::{self as rules, Permission, Policy, Principal, permission, principal},
            route::v3::{NonForwardingAction, Route, route::Action},
        },
        extensions::{
            filters::{
                http::rbac::v3::Rbac,
                network::http_connection_manager::v3::{HttpFilter, http_filter},
            },
            transport_sockets::tls::v3::{
                CertificateProviderPluginInstance, CertificateValidationContext, CommonTlsContext,
                DownstreamTlsContext, common_tls_context::ValidationContextType,
            },
        },
    },
    serving::{Connection, ConnectionSecurity},
};

use crate::{
    secured::{Files, secured, to},
    served::free_address,
    support::*,
    world::{Change, World, check, soon},
};

/// Connection of the last call, and the address that tonic reports.
type LastConnection = Arc<Mutex<Option<(Connection, Option<SocketAddr>)>>>;

/// Health service that notes the connection of the last call.
#[derive(Clone)]
struct Noting {
    inner: HealthServer<HealthService>,
    last: LastConnection,
}

impl NamedService for Noting {
    const NAME: &'static str = <HealthServer<HealthService> as NamedService>::NAME;
}

impl Service<Request<Body>> for Noting {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <HealthServer<HealthService> as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let connection = request.extensions().get::<Connection>().cloned();
        // `tonic::Request::remote_addr` reads this.
        let addresses = request.extensions().get::<TcpConnectInfo>();
        let remote = addresses.and_then(TcpConnectInfo::remote_addr);
        *self.last.lock().unwrap() = connection.map(|connection| (connection, remote));
        self.inner.call(request)
    }
}

fn instance(name: &str) -> Option<CertificateProviderPluginInstance> {
    Some(CertificateProviderPluginInstance {
        instance_name: name.into(),
        certificate_name: String::new(),
    })
}

/// Server, and a channel to it.
struct Secured {
    world: World,
    files: Files,
    address: SocketAddr,
    last: LastConnection,
}

impl Secured {
    async fn new() -> Self {
        let (world, files) = (World::new().await, Files::new());
        let address = free_address().await;
        let own = files.identity("server", &["server.example"]);
        let options = XdsServerOptions::new("server")
            .with_certificate_provider("own", own)
            .with_certificate_provider("roots", files.roots());
        let server = XdsServer::new(&world.client, address, options);
        let last = Arc::default();
        let reporter = HealthReporter::new();
        let inner = HealthServer::new(HealthService::from_health_reporter(reporter));
        let service = Noting { inner, last: Arc::clone(&last) };
        tokio::spawn(server.serve(Routes::new(service)));
        let change = Change::new().routes(to("c")).cluster_as(secured("roots", &[]));
        world.apply(change.endpoints("c", &[address]).0).await;
        Self { world, files, address, last }
    }

    /// Sets the listener of the server: whether it requires client certificates, and which client
    /// may make calls.
    async fn listen(&self, provider: &str, requires: bool, allowed: principal::Identifier) {
        let validation = CertificateValidationContext {
            ca_certificate_provider_instance: instance("roots"),
            ..CertificateValidationContext::default()
        };
        let context = DownstreamTlsContext {
            common_tls_context: Some(CommonTlsContext {
                tls_certificate_provider_instance: instance(provider),
                validation_context_type: Some(ValidationContextType::ValidationContext(validation)),
                ..CommonTlsContext::default()
            }),
            require_client_certificate: Some(BoolValue { value: requires }),
            ..DownstreamTlsContext::default()
        };
        let config_type = Some(transport_socket::ConfigType::TypedConfig(packed(&context)));
        let chain = FilterChain {
            filters: vec![Filter {
                name: "hcm".into(),
                config_type: Some(filter::ConfigType::TypedConfig(packed(&self.manager(allowed)))),
            }],
            transport_socket: Some(TransportSocket { name: "tls".into(), config_type }),
            ..FilterChain::default()
        };
        let listener = Listener {
            name: "server".into(),
            address: Some(address("127.0.0.1", self.address.port().into())),
            filter_chains: vec![chain],
            ..Listener::default()
        };
        let mut change = xds_core::server::Transaction::new();
        change.set(types::LISTENER, "server", listener.encode_to_vec());
        self.world.apply(change).await;
    }

    fn manager(
        &self,
        allowed: principal::Identifier,
    ) -> xds_routing::proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager
    {
        use xds_routing::proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;

        let route = Route {
            r#match: Some(prefix("")),
            action: Some(Action::NonForwardingAction(NonForwardingAction {})),
            ..Route::default()
        };
        let table = routes("inline", vec![host(&["*"], vec![route])]);
        let mut manager = manager(RouteSpecifier::RouteConfig(table));
        let any = Permission { rule: Some(permission::Rule::Any(true)) };
        let policy = Policy {
            permissions: vec![any],
            principals: vec![Principal { identifier: Some(allowed) }],
            ..Policy::default()
        };
        let policies = [("allowed".into(), policy)].into();
        let rules = Some(rules::Rbac { policies, ..rules::Rbac::default() });
        let rbac = packed(&Rbac { rules, ..Rbac::default() });
        let config_type = Some(http_filter::ConfigType::TypedConfig(rbac));
        let filter = HttpFilter { name: "rbac".into(), config_type, ..HttpFilter::default() };
        manager.http_filters.insert(0, filter);
        manager
    }

    /// Makes calls through a new channel until one has this result.
    async fn expect(
        &self,
        options: &ChannelOptions,
        expected: impl Fn(&Result<(), Status>) -> bool,
    ) {
        soon(async {
            loop {
                let result = check(&mut self.world.health_with(options.clone()), &[]).await;
                if expected(&result) {
                    return;
                }
                tokio::time::sleep(core::time::Duration::from_millis(20)).await;
            }
        })
        .await;
    }
}

fn exactly(name: &str) -> principal::Identifier {
    let pattern = Some(MatchPattern::Exact(name.into()));
    principal::Identifier::Authenticated(principal::Authenticated {
        principal_name: Some(StringMatcher { match_pattern: pattern, ..StringMatcher::default() }),
    })
}

fn any_tls() -> principal::Identifier {
    principal::Identifier::Authenticated(principal::Authenticated::default())
}

#[tokio::test]
async fn access_depends_on_the_names_in_the_client_certificate() {
    let secured = Secured::new().await;
    let options = ChannelOptions::new("node-1")
        .with_certificate_provider("roots", secured.files.roots())
        .with_certificate_provider("own", secured.files.own());
    secured.listen("own", true, exactly("client.example")).await;
    secured.expect(&options, Result::is_ok).await;
    let (connection, remote) = secured.last.lock().unwrap().clone().expect("a connection");
    assert_eq!(remote, Some(connection.remote));
    assert_eq!(connection.local, secured.address);
    let ConnectionSecurity::MutualTls(identity) = connection.security else { panic!("no names") };
    assert_eq!(identity.dns_names, ["client.example"]);

    let is_denied = |result: &Result<(), Status>| match result {
        Err(status) => {
            status.code() == Code::PermissionDenied
                && status.message() == "unauthorized RPC rejected"
        }
        Ok(()) => false,
    };
    secured.listen("own", true, exactly("other.example")).await;
    secured.expect(&options, is_denied).await;
    secured.listen("own", true, any_tls()).await;
    secured.expect(&options, Result::is_ok).await;
}

#[tokio::test]
async fn client_certificate_is_required_only_if_the_listener_says_so() {
    let secured = Secured::new().await;
    let mut change = Change::new();
    change = change.cluster_as(crate::secured::without_identity("roots"));
    secured.world.apply(change.0).await;
    let options =
        ChannelOptions::new("node-1").with_certificate_provider("roots", secured.files.roots());
    secured.listen("own", false, any_tls()).await;
    secured.expect(&options, Result::is_ok).await;
    let (connection, _) = secured.last.lock().unwrap().clone().expect("a connection");
    assert_eq!(connection.security, ConnectionSecurity::Tls);
    // Without a certificate, the name is empty.
    secured.listen("own", false, exactly("")).await;
    secured.expect(&options, Result::is_ok).await;
    secured.listen("own", true, any_tls()).await;
    secured
        .expect(&options, |result| match result {
            Err(status) => status.code() == Code::Unavailable && status.message().contains("TLS"),
            Ok(()) => false,
        })
        .await;
}

/// No connection falls back to weaker settings.
#[tokio::test]
async fn connections_are_closed_while_certificates_are_not_available() {
    let secured = Secured::new().await;
    let options = ChannelOptions::new("node-1")
        .with_certificate_provider("roots", secured.files.roots())
        .with_certificate_provider("own", secured.files.own());
    // One is unknown, and the other one has no certificate.
    for provider in ["unknown", "roots"] {
        secured.listen("own", true, any_tls()).await;
        secured.expect(&options, Result::is_ok).await;
        secured.listen(provider, true, any_tls()).await;
        secured
            .expect(&options, |result| {
                result.as_ref().is_err_and(|status| status.code() == Code::Unavailable)
            })
            .await;
    }
}
