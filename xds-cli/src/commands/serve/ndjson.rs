//! Output format `ndjson`: one JSON object per line and event.

use serde_json::{Value as Json, json};
use xds_core::{
    guards::{GuardViolation, RefusedChange, Violation},
    server::Applied,
};

use super::events::{ServeEvent, ServePrinter};
use crate::{
    diagnostic::Diagnostic,
    directory::{ChangedResources, FileError, Key, MovedClients},
    failure::Failure,
    output,
    rollouts::progress_json,
    server_table::{Row, Subscribed},
    text::type_name,
};

#[derive(Debug)]
pub(crate) struct ServeNdjson;

impl ServePrinter for ServeNdjson {
    fn print(&mut self, event: ServeEvent<'_>) -> Result<(), Failure> {
        let is_status = matches!(event, ServeEvent::Status(_));
        let events: Vec<_> = match event {
            ServeEvent::FileError(error) => file_errors(error),
            ServeEvent::InvalidSettings(errors) => errors.iter().map(Diagnostic::to_json).collect(),
            event => vec![object(event)],
        };
        events.into_iter().map(output::event_line).try_for_each(|line| match is_status {
            true => output::print(&line),
            false => output::offer(&line),
        })
    }
}

/// Maximum number of resources that an event lists for each kind of change.
const MOST_LISTED: usize = 1_000;

/// Formats each error of a file as an event.
fn file_errors(error: &FileError) -> Vec<Json> {
    let mut events: Vec<_> = error.problems.first.iter().map(Diagnostic::to_json).collect();
    if error.problems.more > 0 {
        events.push(Diagnostic::of_more(&error.file, error.problems.more).to_json());
    }
    events
}

fn reloaded(resources: usize, applied: Applied, changes: &ChangedResources) -> Json {
    let mut event = json!({
        "event": "reloaded",
        "resources": resources,
        "changed": applied.changed,
        "removed": applied.removed,
    });
    list(&mut event, changes);
    event
}

/// Adds the resources that a change concerns.
fn list(event: &mut Json, changes: &ChangedResources) {
    let object =
        |key: &Key| json!({ "type": type_name(key.type_url.as_str()), "name": key.name.as_str() });
    for (field, keys) in [
        ("added_resources", &changes.added),
        ("changed_resources", &changes.changed),
        ("removed_resources", &changes.removed),
    ] {
        event[field] = keys.iter().take(MOST_LISTED).map(object).collect();
    }
}

fn object(event: ServeEvent<'_>) -> Json {
    match event {
        ServeEvent::Serving {
            directory: _,
            listen,
            rest,
            csds,
            metrics,
            export,
            resources,
            is_ready,
        } => {
            let mut object = json!({
                "event": "serving",
                "listen": listen.to_string(),
                "resources": resources,
                "ready": is_ready,
            });
            if let Some(export) = export {
                object["export"] = export.display().to_string().into();
            }
            if let Some(metrics) = metrics {
                object["metrics"] = metrics.to_string().into();
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
        ServeEvent::FileError(error) => file_errors(error).into(),
        ServeEvent::Repaired(file) => {
            json!({ "event": "file_valid", "file": file.display().to_string() })
        }
        ServeEvent::Finding(finding) => finding.to_json(),
        ServeEvent::LoadReport(load) => load.to_json(),
        ServeEvent::InvalidSettings(errors) => errors.iter().map(Diagnostic::to_json).collect(),
        ServeEvent::ViewsRejected => json!({ "event": "views_refused" }),
        ServeEvent::ViewsUsed(MovedClients { moved, refused }) => {
            json!({ "event": "views", "moved": moved, "refused": refused })
        }
        ServeEvent::Refused { refused, source, resources } => {
            let mut event = violations("refused", &refused.change);
            event["revision"] = refused.revision.map(|it| it.0).into();
            let objects = refused.objects.iter().take(MOST_LISTED);
            event["objects"] = objects.map(|it| it.display().to_string()).collect();
            let ids = refused.stated.ids.iter().map(ToString::to_string);
            event["stated"] = ids.chain(refused.stated.invalid.iter().cloned()).collect();
            event["force"] = source.force(refused.change.id).into();
            event["resources"] = resources.into();
            event
        }
        ServeEvent::Forced(change) => violations("forced", change),
        ServeEvent::Reloaded { resources, applied, changes } => {
            reloaded(resources, applied, changes)
        }
        ServeEvent::RolloutBegins { rollout, changes } => {
            let mut event = json!({ "event": "rollout_begins", "rollout": rollout.0 });
            list(&mut event, changes);
            event
        }
        ServeEvent::Rollout(progress) => {
            let mut event = progress_json(progress);
            event["event"] = "rollout".into();
            event
        }
        ServeEvent::Status(changes) => {
            let rows: Vec<Json> = changes.rows.iter().map(row).collect();
            json!({ "event": "status", "rows": rows })
        }
    }
}

/// Formats a change that guards refuse, with the numbers of dangling references and of removals of
/// any type.
fn violations(name: &str, change: &RefusedChange) -> Json {
    let object = |it: &GuardViolation| json!({ "guard": it.guard, "view": it.view.as_str(), "error": it.violation.to_string() });
    let listed: Vec<_> = change.violations.iter().map(object).collect();
    let mut event = json!({ "event": name, "change": change.id.to_string(), "violations": listed });
    for GuardViolation { violation, .. } in &change.violations {
        match violation {
            Violation::Dangling(found) => event["dangling"] = found.len().into(),
            Violation::Removal { type_url: None, removed, limit, .. } => {
                event["removed"] = (*removed).into();
                event["max_removal"] = (*limit).into();
            }
            _ => {}
        }
    }
    event
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
