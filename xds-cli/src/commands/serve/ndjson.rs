//! Output format `ndjson`: one JSON object per line and event.

use serde_json::{Value as Json, json};

use super::events::{ServeEvent, ServePrinter};
use crate::{
    commands::check::{error_object, finding_object},
    directory::Rejected,
    failure::Failure,
    output,
    server_table::{Row, Subscribed},
};

#[derive(Debug)]
pub(crate) struct ServeNdjson;

impl ServePrinter for ServeNdjson {
    fn print(&mut self, event: ServeEvent<'_>) -> Result<(), Failure> {
        let is_status = matches!(event, ServeEvent::Status(_));
        let line = output::event_line(object(event));
        if is_status { output::print(&line) } else { output::offer(&line) }
    }
}

fn object(event: ServeEvent<'_>) -> Json {
    match event {
        ServeEvent::Serving { directory: _, listen, rest, csds, export, resources, is_ready } => {
            let mut object = json!({
                "event": "serving",
                "listen": listen.to_string(),
                "resources": resources,
                "ready": is_ready,
            });
            if let Some(export) = export {
                object["export"] = export.display().to_string().into();
            }
            for (service, address) in [("rest", rest), ("csds", csds)] {
                if let Some(address) = address {
                    object[service] = address.to_string().into();
                }
            }
            object
        }
        ServeEvent::NotReady { files } => {
            let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            json!({ "event": "not_ready", "files": files })
        }
        ServeEvent::Ready { resources } => json!({ "event": "ready", "resources": resources }),
        ServeEvent::FileError(error) => error_object(error),
        ServeEvent::Dangling(finding) => finding_object(finding),
        ServeEvent::Rejected { rejected: Rejected::Dangling(dangling), resources } => json!({
            "event": "refused",
            "dangling": dangling,
            "resources": resources,
        }),
        ServeEvent::Rejected { rejected: Rejected::Removal(removal), resources } => json!({
            "event": "refused",
            "removed": removal.removed,
            "max_removal": removal.allowed,
            "resources": resources,
        }),
        ServeEvent::Reloaded { resources, applied } => json!({
            "event": "reloaded",
            "resources": resources,
            "changed": applied.changed,
            "removed": applied.removed,
        }),
        ServeEvent::Status(changes) => {
            let rows: Vec<Json> = changes.rows.iter().map(row).collect();
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
    use crate::server_table::{RowChanges, tests::row};

    #[test]
    fn status_event_has_the_complete_error() {
        assert_eq!(
            object(ServeEvent::Status(&RowChanges::between(&[], vec![row()]))).to_string(),
            r#"{"event":"status","rows":[{"node":"envoy-1","stream":"s1","type":"cds","subscribed":"*","#
                .to_owned()
                + r#""sent":"9f31c2aa01bb02cc","acked":"81aa00bb11cc22dd","state":"NACKED","#
                + r#""responses":2,"acks":1,"nacks":1,"error":"bad cluster:\nname: x\n"}]}"#
        );
        let none = RowChanges::between(&[row()], Vec::new());
        assert_eq!(
            object(ServeEvent::Status(&none)).to_string(),
            r#"{"event":"status","rows":[]}"#
        );
    }
}
