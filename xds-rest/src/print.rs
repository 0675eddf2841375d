//! Printing of responses as JSON, resource by resource.

use core::mem;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::lock::Mutex;
use http::StatusCode;
use prost::Message as _;
use xds_core::proto::DiscoveryResponse;
use xds_format::{FormatError, PrintOptions, Schema, to_json};

use crate::{
    budget::ResponseBudget,
    http_response::ErrorResponse,
    json,
    pause::let_others_run,
    printed::{MessageHash, Printed, PrintedResponse},
    unprintable::{IncompleteVersions, LeftOut, Reported},
};

/// Number of bytes of resources that are printed before other tasks of the thread run.
const AT_ONCE: usize = 32 << 10;

/// Printer of the responses of a gateway, with a cache.
pub(crate) struct ResponsePrinter {
    schema: &'static Schema,
    options: PrintOptions,
    printed: Printed,
    /// Lock that lets only one response be printed at a time.
    turn: Mutex<()>,
    reported: Reported,
    incomplete: IncompleteVersions,
}

impl ResponsePrinter {
    /// Creates a printer whose cache has at most `cached` bytes.
    pub(crate) fn new(schema: &'static Schema, options: PrintOptions, cached: usize) -> Self {
        Self {
            schema,
            options: json::for_programs(options),
            printed: Printed::new(cached),
            turn: Mutex::new(()),
            reported: Reported::default(),
            incomplete: IncompleteVersions::default(),
        }
    }

    /// Returns the number of resources without a JSON form so far.
    pub(crate) fn unprintable(&self) -> u64 {
        self.reported.count()
    }

    /// Versions of incomplete responses, which clients may state.
    pub(crate) fn incomplete_versions(&self) -> &IncompleteVersions {
        &self.incomplete
    }

    /// Prints a response of a method, without its resources that have no JSON form. Returns `None`
    /// if the client has that response already, and an error if the client may have one of the
    /// omitted resources. `stated` is the version that the client has.
    pub(crate) async fn print(
        &self,
        method: &'static str,
        message: &Bytes,
        stated: &str,
        budget: Option<&ResponseBudget>,
    ) -> Result<Option<Bytes>, ErrorResponse> {
        let response = self.cached(message, budget).await?;
        let json = response.json.clone();
        let Some(omission) = &response.omission else { return Ok(Some(json)) };
        self.reported.report(omission);
        if !omission.is_lacked_at(stated) {
            return Err(refusal(omission.text.clone()));
        }
        self.incomplete.add(method, &response.version);
        Ok((response.version != stated).then_some(json))
    }

    /// Returns the printed response from the cache, or prints it.
    async fn cached(
        &self,
        message: &Bytes,
        budget: Option<&ResponseBudget>,
    ) -> Result<Arc<PrintedResponse>, ErrorResponse> {
        let hash = MessageHash::of(message).await;
        // One at a time, so that few responses exist in both forms.
        let _turn = match self.printed.find(hash) {
            Some(_) => None,
            None => Some(self.turn.lock().await),
        };
        if budget.is_some_and(|budget| !budget.memory().has_room()) {
            let why = "too many responses that their clients do not read: try again later";
            return Err(ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, why.into()));
        }
        if let Some(response) = self.printed.find(hash) {
            return Ok(response);
        }
        let response = print_response(self.schema, message, &self.options)
            .await
            .map_err(|why| refusal(format!("cannot print the response: {why}")))?;
        let response = Arc::new(response);
        self.printed.keep(hash, &response);
        Ok(response)
    }
}

fn refusal(why: String) -> ErrorResponse {
    ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR, why)
}

/// Prints an encoded `DiscoveryResponse`.
///
/// A response can have many megabytes, which take a second to print. Other tasks of the thread run
/// in between.
async fn print_response(
    schema: &Schema,
    message: &Bytes,
    options: &PrintOptions,
) -> Result<PrintedResponse, FormatError> {
    let Ok(mut response) = DiscoveryResponse::decode(message.clone()) else {
        // The error comes from the schema's parser, which describes the fault.
        let json = json::print_response(schema, message, options)?.into();
        return Ok(PrintedResponse { json, version: String::new(), omission: None });
    };
    let resources = mem::take(&mut response.resources);
    let mut left_out = LeftOut::new(response.type_url.clone(), resources.len());
    let (mut list, mut since_pause) = (Vec::new(), 0);
    for resource in resources {
        since_pause += resource.value.len();
        if since_pause > AT_ONCE {
            since_pause = 0;
            let_others_run().await;
        }
        match to_json(schema, &resource.type_url, &resource.value, options) {
            Ok(json) => {
                list.push(if list.is_empty() { b'[' } else { b',' });
                list.extend_from_slice(json.to_string().as_bytes());
            }
            Err(why) => left_out.add(schema, &resource, why),
        }
    }
    let omission = left_out.omission();
    if let Some(omission) = &omission {
        response.version_info.push_str(&omission.mark);
    }
    let head = json::print_response(schema, &response.encode_to_vec(), options)?;
    let json = if list.is_empty() { head } else { with_resources(head, list) };
    Ok(PrintedResponse { json: json.into(), version: response.version_info, omission })
}

/// Inserts a list that lacks its last bracket into a JSON object as the member `resources`.
fn with_resources(object: Vec<u8>, list: Vec<u8>) -> Vec<u8> {
    let others = object.strip_prefix(b"{").unwrap_or(&object);
    let separator: &[u8] = if others == b"}" { b"]" } else { b"]," };
    [&b"{\"resources\":"[..], &list, separator, others].concat()
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Wake},
    };

    use serde_json::{Value, json};
    use xds_core::{proto::Any, types};
    use xds_format::{Format, encode_message};

    use super::*;

    #[derive(Default)]
    struct CountedWakes(AtomicUsize);

    impl Wake for CountedWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Prints a response, and returns the JSON and the number of pauses.
    fn printed(response: &DiscoveryResponse) -> (Value, usize) {
        let message = Bytes::from(response.encode_to_vec());
        let options = json::for_programs(PrintOptions::default());
        let mut printing = pin!(print_response(Schema::envoy(), &message, &options));
        let wakes = Arc::new(CountedWakes::default());
        let waker = Arc::clone(&wakes).into();
        for pauses in 0.. {
            // Each pause asks to be polled again.
            assert_eq!(wakes.0.load(Ordering::Relaxed), pauses);
            if let Poll::Ready(response) = printing.as_mut().poll(&mut Context::from_waker(&waker))
            {
                let json = response.expect("it can be printed").json;
                return (serde_json::from_slice(&json).expect("valid JSON"), pauses);
            }
        }
        unreachable!("printing ends");
    }

    fn cluster(name: &str) -> Any {
        let text = format!("name: '{name}'");
        let message = "envoy.config.cluster.v3.Cluster";
        let value = encode_message(Schema::envoy(), "", message, Format::Text, text.as_bytes());
        Any { type_url: types::CLUSTER.into(), value: value.expect("a cluster").into() }
    }

    #[test]
    fn response_has_its_other_fields_with_and_without_resources() {
        let mut response = DiscoveryResponse::default();
        assert_eq!(printed(&response).0, json!({}));
        response.resources = vec![cluster("a"), cluster("b")];
        let resource = |name| json!({"@type": types::CLUSTER, "name": name});
        let list = json!([resource("a"), resource("b")]);
        assert_eq!(printed(&response).0, json!({"resources": list}));
        response.version_info = "7".into();
        assert_eq!(printed(&response).0, json!({"version_info": "7", "resources": list}));
        response.resources.clear();
        assert_eq!(printed(&response).0, json!({"version_info": "7"}));
    }

    #[test]
    fn other_tasks_run_while_a_long_response_is_printed() {
        let resources = (0..100).map(|_| cluster(&"n".repeat(AT_ONCE / 2))).collect();
        let long = DiscoveryResponse { resources, ..DiscoveryResponse::default() };
        let (json, pauses) = printed(&long);
        assert_eq!(json["resources"].as_array().map(Vec::len), Some(100));
        assert!(pauses >= 50, "{pauses} pauses");
    }
}
