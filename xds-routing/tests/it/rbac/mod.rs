//! The RBAC filter (gRFC A41).

mod conditions;
mod decisions;
mod invalid;
mod naive;

use xds_routing::{
    filters::{AccessDenied, FilterConfig, HttpFilter, Rbac, RbacRequest},
    listener::{Listener, ListenerKind},
    proto::envoy::{
        config::{
            core::v3::CidrRange,
            rbac::v3::{
                Permission, Policy, Principal, Rbac as Policies, permission::Rule,
                principal::Identifier, rbac::Action,
            },
        },
        extensions::filters::{
            http::rbac::v3::Rbac as Config,
            network::http_connection_manager::v3::http_filter::ConfigType,
        },
    },
    serving::{ClientIdentity, Connection, ConnectionSecurity},
};

use crate::{
    support::*,
    validation::{listeners::listener, servers},
};

fn permission(rule: Rule) -> Permission {
    Permission { rule: Some(rule) }
}

fn principal(identifier: Identifier) -> Principal {
    Principal { identifier: Some(identifier) }
}

fn policy(rule: Rule, identifier: Identifier) -> Policy {
    Policy {
        permissions: vec![permission(rule)],
        principals: vec![principal(identifier)],
        ..Policy::default()
    }
}

fn rules<const N: usize>(action: Action, policies: [(&str, Policy); N]) -> Config {
    let policies = policies.map(|(name, policy)| (name.into(), policy)).into();
    let rules = Policies { action: action.into(), policies, audit_logging_options: None };
    Config { rules: Some(rules), matcher: None }
}

fn range(prefix: &str, bits: u32) -> CidrRange {
    CidrRange { address_prefix: prefix.into(), prefix_len: number(bits) }
}

/// Validates a server listener with this filter before the router.
fn in_listener(config: &Config) -> Result<HttpFilter, String> {
    let mut manager = manager(rds("r"));
    let mut rbac = filter("rbac", "");
    rbac.config_type = Some(ConfigType::TypedConfig(packed(config)));
    manager.http_filters.insert(0, rbac);
    let listener: Listener = listener(&servers::server(vec![servers::chain_of(&manager)]))?;
    let ListenerKind::Socket(socket) = listener.kind() else { panic!("of servers") };
    Ok(socket.filter_chains[0].http.filters[0].clone())
}

fn valid(config: &Config) -> Rbac {
    match in_listener(config).expect("valid").config {
        FilterConfig::Rbac(rbac) => rbac,
        other => panic!("{other:?}"),
    }
}

/// A request whose properties the tests set.
#[derive(Clone)]
struct Request {
    path: &'static str,
    method: Option<&'static str>,
    authority: Option<&'static str>,
    headers: Vec<(&'static str, &'static str)>,
    connection: Connection,
}

fn connection(server: &str, client: &str) -> Connection {
    Connection::new(server.parse().expect("an address"), client.parse().expect("an address"))
}

/// A request to `/shop.Cart/Add` of `shop`, from 10.1.2.3 to 10.0.0.1:443 without TLS.
fn request() -> Request {
    Request {
        path: "/shop.Cart/Add",
        method: None,
        authority: Some("shop"),
        headers: Vec::new(),
        connection: connection("10.0.0.1:443", "10.1.2.3:5000"),
    }
}

fn from(client: ClientIdentity) -> Request {
    secured(ConnectionSecurity::MutualTls(client))
}

fn secured(security: ConnectionSecurity) -> Request {
    let request = request();
    Request { connection: request.connection.clone().with_security(security), ..request }
}

impl Request {
    fn with(headers: &[(&'static str, &'static str)]) -> Self {
        Self { headers: headers.into(), ..request() }
    }

    fn decide(&self, rbac: &Rbac) -> Result<(), AccessDenied> {
        let headers = self.headers.as_slice();
        let request = RbacRequest::new(self.path, self.authority, headers, &self.connection);
        match self.method {
            None => rbac.decide(&request),
            Some(method) => rbac.decide(&request.with_method(method)),
        }
    }

    fn is_allowed(&self, config: &Config) -> bool {
        self.decide(&valid(config)).is_ok()
    }
}
