//! `-o ndjson`: one JSON object on a line for each event.

use serde_json::{Value as Json, json};

use super::{Printer, events::Event};
use crate::{
    commands::check::{error_object, finding_object},
    failure::Failure,
    output,
    server_table::{Row, Subscribed},
};

#[derive(Debug)]
pub(crate) struct Ndjson;

impl Printer for Ndjson {
    fn print(&mut self, event: Event<'_>) -> Result<(), Failure> {
        output::print(&object(event).to_string())
    }
}

fn object(event: Event<'_>) -> Json {
    match event {
        Event::Serving { directory: _, listen, rest, csds, resources } => {
            let mut object = json!({
                "event": "serving",
                "listen": listen.to_string(),
                "resources": resources,
            });
            for (service, address) in [("rest", rest), ("csds", csds)] {
                if let Some(address) = address {
                    object[service] = address.to_string().into();
                }
            }
            object
        }
        Event::FileError(error) => error_object(error),
        Event::Dangling(finding) => finding_object(finding),
        Event::Refused { refused, resources } => json!({
            "event": "refused",
            "dangling": refused.dangling,
            "resources": resources,
        }),
        Event::Reloaded { resources, applied } => json!({
            "event": "reloaded",
            "resources": resources,
            "changed": applied.changed,
            "removed": applied.removed,
        }),
        Event::Status(rows) => {
            let rows: Vec<Json> = rows.iter().map(row).collect();
            json!({ "event": "status", "rows": rows })
        }
    }
}

fn row(row: &Row) -> Json {
    json!({
        "node": row.node,
        "stream": row.stream,
        "type": row.type_name,
        "subscribed": match row.subscribed {
            Subscribed::All => json!("*"),
            Subscribed::Names(count) => json!(count),
        },
        "sent": row.sent,
        "acked": row.acked,
        "state": row.state.name(),
        "responses": row.responses,
        "acks": row.acks,
        "nacks": row.nacks,
        "error": row.error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_table::tests::row;

    #[test]
    fn a_status_event_has_the_whole_reason() {
        assert_eq!(
            object(Event::Status(&[row()])).to_string(),
            r#"{"event":"status","rows":[{"node":"envoy-1","stream":"s1","type":"cds","subscribed":"*","#
                .to_owned()
                + r#""sent":"9f31c2aa01bb02cc","acked":"81aa00bb11cc22dd","state":"NACKED","#
                + r#""responses":2,"acks":1,"nacks":1,"error":"bad cluster:\nname: x\n"}]}"#
        );
        assert_eq!(object(Event::Status(&[])).to_string(), r#"{"event":"status","rows":[]}"#);
    }
}
