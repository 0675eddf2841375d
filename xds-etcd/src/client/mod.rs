//! Client of an etcd cluster: one connection to one member, and another member when it fails.

mod error;
mod options;

use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue};
use prost::Message;
use tokio::sync::Mutex;
use tonic::{Code, Status, Streaming};
use xds_grpc::{
    ClientOptions,
    client::{CallConnection, Service},
    runtime::{Runtime, SharedRuntime},
};

pub use self::{
    error::EtcdError,
    options::{EtcdOptions, User},
};
use crate::proto::{
    AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseRevokeRequest, LeaseRevokeResponse, RangeRequest, RangeResponse,
    TxnRequest, TxnResponse, WatchRequest,
};

/// Client of an etcd cluster, for any async runtime. Clones share their connection.
///
/// Calls use one member until it fails, and then the next one in the order of
/// [`EtcdOptions::members`]. A failed read is retried once at each member. A write is not retried,
/// because an interrupted write may have been applied.
#[derive(Clone, Debug)]
pub struct EtcdClient {
    runtime: SharedRuntime,
    options: Arc<EtcdOptions>,
    current: Arc<Mutex<Current>>,
}

/// Member in use.
#[derive(Debug, Default)]
struct Current {
    /// Index of the member, modulo their number.
    at: usize,
    connection: Option<Arc<Member>>,
}

/// Connection to a member.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) address: String,
    connection: CallConnection,
}

/// Paths of the methods.
mod method {
    pub(super) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
    pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
    pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
    pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
    pub(super) const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
    pub(super) const LEASE_KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
}

/// Header with the token of a user. etcd expects the bare token, without a scheme.
const TOKEN: HeaderName = HeaderName::from_static("token");

/// Header that makes a member end a stream when it loses its leader. Otherwise the stream would
/// stay open without updates.
const HAS_LEADER: HeaderName = HeaderName::from_static("hasleader");

impl EtcdClient {
    /// Creates a client, which connects with its first call.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault if the options have no address or an invalid one.
    pub fn new(runtime: impl Runtime, options: EtcdOptions) -> Result<Self, String> {
        options.check()?;
        Ok(Self {
            runtime: SharedRuntime::new(runtime),
            options: Arc::new(options),
            current: Arc::default(),
        })
    }

    pub(crate) const fn runtime(&self) -> &SharedRuntime {
        &self.runtime
    }

    /// Reads keys. If a member fails, the read is retried at the others.
    pub(crate) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
        let mut left = self.options.members.len();
        loop {
            left -= 1;
            match self.call(method::RANGE, &request).await {
                Err(why) if why.is_of_member() && left > 0 => {}
                result => return result,
            }
        }
    }

    /// Performs a transaction. It is not retried, because an interrupted one may have been applied.
    pub(crate) async fn txn(&self, request: &TxnRequest) -> Result<TxnResponse, EtcdError> {
        self.call(method::TXN, request).await
    }

    pub(crate) async fn grant(&self, seconds: i64) -> Result<LeaseGrantResponse, EtcdError> {
        let request = LeaseGrantRequest { ttl: seconds, id: 0 };
        self.call(method::LEASE_GRANT, &request).await
    }

    pub(crate) async fn revoke(&self, lease: i64) -> Result<(), EtcdError> {
        let request = LeaseRevokeRequest { id: lease };
        let LeaseRevokeResponse { .. } = self.call(method::LEASE_REVOKE, &request).await?;
        Ok(())
    }

    /// Opens a stream of watches on a connection of its own.
    pub(crate) async fn watch(
        &self,
        requests: impl Stream<Item = WatchRequest> + Send + 'static,
    ) -> Result<(Arc<Member>, Streaming<Bytes>), EtcdError> {
        self.open(method::WATCH, requests).await
    }

    /// Opens a stream of renewals of leases.
    pub(crate) async fn keep_alive(
        &self,
        requests: impl Stream<Item = LeaseKeepAliveRequest> + Send + 'static,
    ) -> Result<(Arc<Member>, Streaming<Bytes>), EtcdError> {
        self.open(method::LEASE_KEEP_ALIVE, requests).await
    }

    /// Notes that a member has failed, so that the next call uses another one.
    pub(crate) async fn leave(&self, member: &Arc<Member>) {
        let mut current = self.current.lock().await;
        if current.connection.as_ref().is_some_and(|it| Arc::ptr_eq(it, member)) {
            current.connection = None;
            current.at += 1;
        }
    }

    async fn open<M: Message + 'static>(
        &self,
        method: &str,
        requests: impl Stream<Item = M> + Send + 'static,
    ) -> Result<(Arc<Member>, Streaming<Bytes>), EtcdError> {
        let member = self.member().await?;
        let requests = requests.map(|request| Bytes::from(request.encode_to_vec()));
        let opening = member.connection.stream(method, requests);
        match self.limited(&member, opening).await {
            Ok(responses) => Ok((member, responses)),
            Err(why) => Err(self.failed(&member, why).await),
        }
    }

    /// Calls a method. If the token has expired, the call was rejected: the client authenticates
    /// again and repeats the call.
    async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<A, EtcdError> {
        match self.call_once(method, request).await {
            Err(why) if why.is_expired_token() && self.options.user.is_some() => {
                self.call_once(method, request).await
            }
            result => result,
        }
    }

    async fn call_once<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<A, EtcdError> {
        let member = self.member().await?;
        let calling = member.connection.call(method, request.encode_to_vec().into());
        match self.limited(&member, calling).await {
            Ok(response) => decode(&member.address, response),
            Err(why) => Err(self.failed(&member, why).await),
        }
    }

    /// Whether calls have a token, which may expire.
    pub(crate) fn has_user(&self) -> bool {
        self.options.user.is_some()
    }

    /// Authenticates the user again before the next call.
    pub(crate) async fn forget_token(&self) {
        self.current.lock().await.connection = None;
    }

    /// Limits a call in time.
    pub(crate) async fn limited<T>(
        &self,
        member: &Member,
        calling: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, EtcdError> {
        let limit = self.options.call_timeout;
        let late = || Status::new(Code::DeadlineExceeded, format!("no answer within {limit:?}"));
        let result = self.runtime.timeout(limit, calling).await.unwrap_or_else(|| Err(late()));
        result.map_err(|status| EtcdError::of_status(&member.address, status))
    }

    /// Leaves a member that failed, or whose connection has an expired token.
    async fn failed(&self, member: &Arc<Member>, why: EtcdError) -> EtcdError {
        if why.is_of_member() {
            self.leave(member).await;
        } else if why.is_expired_token() {
            let mut current = self.current.lock().await;
            current.connection.take_if(|it| Arc::ptr_eq(it, member));
        }
        why
    }

    /// Returns the connection in use, or connects to the members in turn.
    async fn member(&self) -> Result<Arc<Member>, EtcdError> {
        let mut current = self.current.lock().await;
        if let Some(member) = &current.connection {
            return Ok(Arc::clone(member));
        }
        let members = &self.options.members;
        let mut failures = Vec::new();
        for _ in 0..members.len() {
            let Some(address) = members.get(current.at % members.len()) else { break };
            match self.connect(address).await {
                Ok(member) => {
                    let member = Arc::new(member);
                    current.connection = Some(Arc::clone(&member));
                    return Ok(member);
                }
                Err(denied @ EtcdError::Denied(_)) => return Err(denied),
                Err(EtcdError::Unreachable(why)) => failures.push(format!("{address}: {why}")),
                Err(why) => failures.push(why.to_string()),
            }
            current.at += 1;
        }
        Err(EtcdError::Unreachable(failures.join("; ")))
    }

    async fn connect(&self, address: &str) -> Result<Member, EtcdError> {
        let options = &self.options;
        let service = Service::new(address, options.credentials.clone())
            .with_max_response_bytes(options.max_response_bytes)
            .with_metadata(HAS_LEADER, HeaderValue::from_static("true"));
        let transport = ClientOptions::default()
            .with_connect_timeout(options.connect_timeout)
            .with_keepalive(options.keepalive);
        let runtime = self.runtime.clone();
        let opening = CallConnection::open(runtime, service, &transport);
        let connection = opening.await.map_err(|why| EtcdError::Unreachable(why.to_string()))?;
        let member = Member { address: address.to_owned(), connection };
        match &options.user {
            None => Ok(member),
            Some(user) => self.authenticate(member, user).await,
        }
    }

    /// Adds the token of the user to a connection.
    async fn authenticate(&self, member: Member, user: &User) -> Result<Member, EtcdError> {
        let User { name, password } = user.clone();
        let request = AuthenticateRequest { name, password }.encode_to_vec().into();
        let calling = member.connection.call(method::AUTHENTICATE, request);
        let response = self.limited(&member, calling).await.map_err(|why| match why {
            EtcdError::Denied(why) => EtcdError::Denied(format!("user {}: {why}", user.name)),
            why => why,
        })?;
        let AuthenticateResponse { token, .. } = decode(&member.address, response)?;
        let token = HeaderValue::try_from(token).map_err(|_| EtcdError::Malformed {
            member: member.address.clone(),
            why: "the token is no header value".to_owned(),
        })?;
        let Member { address, connection } = member;
        Ok(Member { address, connection: connection.with_metadata(TOKEN, token) })
    }
}

pub(crate) fn decode<M: Message + Default>(member: &str, bytes: Bytes) -> Result<M, EtcdError> {
    M::decode(bytes)
        .map_err(|why| EtcdError::Malformed { member: member.to_owned(), why: why.to_string() })
}
