//! Calls over the xDS channel, like those of a generated client, but with messages as bytes.

use core::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use serde_json::{Value as Json, json};
use tonic::{
    Request, Status,
    client::Grpc,
    metadata::{Ascii, MetadataKey, MetadataMap},
};
use xds_channel::XdsChannel;
use xds_tokio::RawCodec;

use crate::routing::CallToMake;

/// Time limit of a call without a response.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the calls. Returns for each the port of the backend that answered, or the status code, and
/// the cookie that the response sets.
pub(crate) async fn make(channel: XdsChannel, calls: Vec<CallToMake>) -> Vec<Json> {
    let mut client = Grpc::new(channel);
    let mut outcomes = Vec::with_capacity(calls.len());
    for call in &calls {
        outcomes.push(match answer(&mut client, call).await {
            Ok((port, metadata)) => with_cookie(json!({ "port": port }), &metadata),
            Err(status) => {
                with_cookie(json!({ "code": i32::from(status.code()) }), status.metadata())
            }
        });
    }
    outcomes
}

/// Adds the cookie that a response sets.
fn with_cookie(mut outcome: Json, metadata: &MetadataMap) -> Json {
    let cookies = metadata.get_all("set-cookie").iter().filter_map(|it| it.to_str().ok());
    let cookies = cookies.collect::<Vec<_>>().join(", ");
    if !cookies.is_empty() {
        outcome["cookie"] = cookies.into();
    }
    outcome
}

async fn answer(
    client: &mut Grpc<XdsChannel>,
    call: &CallToMake,
) -> Result<(u16, MetadataMap), Status> {
    let misuse = |_| Status::invalid_argument("nothing that can be sent");
    let mut request = Request::new(Bytes::new());
    request.set_timeout(PATIENCE);
    for (name, value) in &call.metadata {
        let name: MetadataKey<Ascii> = name.parse().map_err(|_| misuse(()))?;
        request.metadata_mut().append(name, value.parse().map_err(|_| misuse(()))?);
    }
    let path = PathAndQuery::try_from(&*call.path).map_err(|_| misuse(()))?;
    client.ready().await?;
    let (metadata, answer, _) = client.unary(request, path, RawCodec).await?.into_parts();
    let port = core::str::from_utf8(&answer).ok().and_then(|text| text.parse().ok());
    let port = port.ok_or_else(|| Status::data_loss("an answer that is no port"))?;
    Ok((port, metadata))
}
