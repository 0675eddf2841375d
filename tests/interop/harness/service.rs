//! The suite's adapter service, and the server whose resources it sets.

use core::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use std::error::Error;

use bytes::Bytes;
use prost::{DecodeError, Message as _};
use tokio::{net::TcpListener, select};
use tonic::{
    Request, Response, Status,
    body::Body,
    server::{Grpc, NamedService, UnaryService},
    transport::{self, server::TcpIncoming},
};
use xds_core::server::Transaction;
use xds_tokio::{
    ManagementServer, RawCodec, ServerOptions,
    server::{Admitted, AuthorizationDecision, AuthorizationRequest, ServerHandle},
};

use super::adapter::{self, ResourceRequest, SetStateRequest};

/// Serves the adapter on one socket and the discovery services on the other until one
/// of them fails.
pub(crate) async fn serve(
    adapter: TcpListener,
    listener: TcpListener,
) -> Result<(), Box<dyn Error>> {
    let options = ServerOptions::default().with_authorizer(view_of_its_node);
    let server = ManagementServer::start(adapter::config(), options);
    let calls = transport::Server::builder().add_service(Adapter { server: server.handle() });
    select! {
        result = server.serve(listener) => result?,
        result = calls.serve_with_incoming(TcpIncoming::from(adapter)) => result?,
    }
    Ok(())
}

async fn view_of_its_node(client: AuthorizationRequest) -> AuthorizationDecision {
    Ok(Admitted::to(&*client.node_id))
}

/// Service `adapter.Adapter`.
#[derive(Clone, Debug)]
struct Adapter {
    server: ServerHandle,
}

/// Response to `ClearState`.
#[derive(Clone, PartialEq, prost::Message)]
struct Cleared {
    #[prost(string, tag = "1")]
    response: String,
}

/// Response to all other methods.
#[derive(Clone, PartialEq, prost::Message)]
struct Done {
    #[prost(bool, tag = "1")]
    success: bool,
}

impl Adapter {
    async fn call(self, path: String, request: Bytes) -> Result<Bytes, Status> {
        let unreadable = |why: DecodeError| Status::invalid_argument(why.to_string());
        let method = path.strip_prefix("/adapter.Adapter/").unwrap_or_default();
        let applied = match method {
            "SetState" => {
                let state = SetStateRequest::decode(request).map_err(unreadable)?;
                self.server.apply(state.snapshot()).await
            }
            // The request has the node in the same field as a request about one resource.
            "ClearState" => {
                let node = ResourceRequest::decode(request).map_err(unreadable)?.node;
                self.server.apply(Transaction::snapshot(&*node)).await
            }
            "AddResource" | "UpdateResource" => {
                let change = ResourceRequest::decode(request).map_err(unreadable)?;
                self.server.apply(change.set()).await
            }
            "RemoveResource" => {
                let change = ResourceRequest::decode(request).map_err(unreadable)?;
                self.server.apply(change.remove()).await
            }
            _ => return Err(Status::unimplemented(path)),
        };
        applied.map_err(|why| Status::failed_precondition(why.to_string()))?;
        Ok(match method {
            "ClearState" => Cleared { response: "cleared".into() }.encode_to_vec().into(),
            _ => Done { success: true }.encode_to_vec().into(),
        })
    }
}

impl NamedService for Adapter {
    const NAME: &'static str = "adapter.Adapter";
}

impl tower_service::Service<http::Request<Body>> for Adapter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = Method { adapter: self.clone(), path: request.uri().path().to_owned() };
        Box::pin(async { Ok(Grpc::new(RawCodec).unary(method, request).await) })
    }
}

/// Call of one method of the service.
struct Method {
    adapter: Adapter,
    path: String,
}

impl UnaryService<Bytes> for Method {
    type Response = Bytes;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let answer = self.adapter.clone().call(self.path.clone(), request.into_inner());
        Box::pin(async { answer.await.map(Response::new) })
    }
}
