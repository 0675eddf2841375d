//! Addresses and credentials of a cluster.

use core::{fmt, time::Duration};

use xds_grpc::{Credentials, Keepalive, client::check_address};

/// Addresses and credentials of an etcd cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EtcdOptions {
    /// Addresses of the members, at least one, in the forms of
    /// [`check_address`](xds_grpc::client::check_address). The first member that can be reached is
    /// used until it fails.
    pub members: Vec<String>,
    /// Credentials of connections. By default, the form of the address determines whether TLS is
    /// used.
    pub credentials: Credentials,
    /// User and password; `None` if the cluster does not require authentication.
    pub user: Option<User>,
    /// Time limit for an attempt to connect to a member; 5 s by default.
    pub connect_timeout: Duration,
    /// Time limit for a call; 10 s by default. Watches have none.
    pub call_timeout: Duration,
    /// Keepalive pings, which detect members that no longer answer a watch. By default, a ping is
    /// sent after 10 s without received data and must be answered within 5 s. etcd closes
    /// connections that send pings more often than `--grpc-keepalive-min-time`, 5 s by default.
    pub keepalive: Keepalive,
    /// Largest response to accept, in bytes; 64 MiB by default.
    pub max_response_bytes: usize,
}

/// User with a password.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct User {
    /// Name of the user.
    pub name: String,
    /// Password of the user.
    pub password: String,
}

impl User {
    /// Creates a user.
    #[must_use]
    pub fn new(name: impl Into<String>, password: impl Into<String>) -> Self {
        Self { name: name.into(), password: password.into() }
    }
}

/// Prints the name only.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

impl EtcdOptions {
    /// Creates options for a cluster with these members.
    pub fn new<M: Into<String>>(members: impl IntoIterator<Item = M>) -> Self {
        Self {
            members: members.into_iter().map(Into::into).collect(),
            credentials: Credentials::default(),
            user: None,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(10),
            keepalive: Keepalive::new(Duration::from_secs(10), Duration::from_secs(5)),
            max_response_bytes: 64 << 20,
        }
    }

    /// Sets the credentials of connections.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Sets the user.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(User::new(name, password));
        self
    }

    /// Sets the keepalive pings.
    #[must_use]
    pub const fn with_keepalive(mut self, keepalive: Keepalive) -> Self {
        self.keepalive = keepalive;
        self
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.members.is_empty() {
            return Err("no address of a member".to_owned());
        }
        let check = |member: &String| {
            check_address(member).map_err(|fault| format!("invalid address {member:?}: {fault}"))
        };
        self.members.iter().try_for_each(check)
    }
}
