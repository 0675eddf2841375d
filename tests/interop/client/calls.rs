//! Calls over the xDS channel, like those of a generated client, but with messages as bytes.

use core::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use serde_json::{Value as Json, json};
use tonic::{
    Request, Status,
    client::Grpc,
    metadata::{Ascii, MetadataKey},
};
use xds_channel::XdsChannel;
use xds_tokio::RawCodec;

use crate::routing::CallToMake;

/// Time limit of a call without a response.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the calls. Returns for each the port of the backend that answered, or the status code.
pub(crate) async fn make(channel: XdsChannel, calls: Vec<CallToMake>) -> Vec<Json> {
    let mut client = Grpc::new(channel);
    let mut outcomes = Vec::with_capacity(calls.len());
    for call in &calls {
        outcomes.push(match answer(&mut client, call).await {
            Ok(port) => json!({ "port": port }),
            Err(status) => json!({ "code": i32::from(status.code()) }),
        });
    }
    outcomes
}

async fn answer(client: &mut Grpc<XdsChannel>, call: &CallToMake) -> Result<u16, Status> {
    let misuse = |_| Status::invalid_argument("nothing that can be sent");
    let mut request = Request::new(Bytes::new());
    request.set_timeout(PATIENCE);
    for (name, value) in &call.metadata {
        let name: MetadataKey<Ascii> = name.parse().map_err(|_| misuse(()))?;
        request.metadata_mut().append(name, value.parse().map_err(|_| misuse(()))?);
    }
    let path = PathAndQuery::try_from(&*call.path).map_err(|_| misuse(()))?;
    client.ready().await?;
    let answer = client.unary(request, path, RawCodec).await?.into_inner();
    let port = core::str::from_utf8(&answer).ok().and_then(|text| text.parse().ok());
    port.ok_or_else(|| Status::data_loss("an answer that is no port"))
}
