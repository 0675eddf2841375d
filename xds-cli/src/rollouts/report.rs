//! Progress and states of rollouts, as JSON and as text.

use serde_json::{Value as Json, json};
use xds_core::rollout::{
    HaltReason, HaltingClient, RolloutPhase, RolloutProgress, RolloutState, StoredPhase,
};

use crate::text::{count, escaped, reason_line, type_name};

/// Number of resources of a client that are listed.
const MOST_NAMES: usize = 10;
/// Number of clients that are listed for people.
const MOST_CLIENTS: usize = 10;
/// Number of characters of a client's message.
const LONGEST_MESSAGE: usize = 200;

/// Formats progress as an object.
pub(crate) fn progress_json(progress: &RolloutProgress) -> Json {
    json!({
        "rollout": progress.id.0,
        "phase": progress.phase.as_str(),
        "step": progress.step + 1,
        "steps": progress.steps,
        "clients": progress.members,
        "acknowledged": progress.acknowledged,
        "reason": progress.reason.as_ref().map(reason_json),
    })
}

fn reason_json(reason: &HaltReason) -> Json {
    let clients = reason.culprits.listed().iter().map(|it| {
        let names = it.names.iter().take(MOST_NAMES).map(|name| name.as_str());
        json!({
            "node": &*it.node_id,
            "type": it.type_url.as_ref().map(|it| type_name(it.as_str())),
            "resources": names.collect::<Vec<_>>(),
            "message": it.reason,
        })
    });
    json!({
        "text": reason.to_string(),
        "clients": clients.collect::<Vec<_>>(),
        "omitted_clients": reason.culprits.omitted(),
    })
}

/// Formats a state as an object.
pub(crate) fn state_json(state: &RolloutState) -> Json {
    json!({
        "rollout": state.id.0,
        "generation": state.generation,
        "phase": state.phase.as_str(),
        "step": state.step + 1,
        "steps": state.steps,
        "stable": state.stable.0,
        "why": state.why,
    })
}

/// Describes a state for people.
pub(crate) fn state_line(state: &RolloutState) -> String {
    let id = state.id.0;
    let why = match state.why.is_empty() {
        true => String::new(),
        false => format!(": {}", escaped(&state.why)),
    };
    let step = format!("step {} of {}", state.step + 1, state.steps);
    match state.phase {
        _ if state.steps == 0 => format!("no rollout is under way; all clients have state {id}"),
        StoredPhase::Completed => format!("rollout {id} is completed: all clients have the change"),
        StoredPhase::RolledBack => format!("rollout {id} is rolled back{why}"),
        phase => format!("rollout {id} is {}, {step}{why}", phase.as_str()),
    }
}

/// Describes progress for people: a line, and one for each client that caused a halt.
pub(crate) fn progress_lines(progress: &RolloutProgress) -> Vec<String> {
    let RolloutProgress { id, phase, step, steps, members, acknowledged, reason, .. } = progress;
    let (id, step) = (id.0, format!("step {} of {steps}", step + 1));
    let accepted = format!("accepted by {acknowledged} of {}", count(*members, "client"));
    let why = reason.as_ref().map(|it| it.cause.to_string());
    let why = why.map(|it| format!(": {}", escaped(&it))).unwrap_or_default();
    let first = match phase {
        RolloutPhase::Starting => format!("rollout {id} starts"),
        RolloutPhase::Deploying => format!("rollout {id}: {step} is {accepted}"),
        RolloutPhase::Soaking => format!("rollout {id}: {step} is {accepted}, and observed"),
        RolloutPhase::Judging => format!("rollout {id}: {step} waits for its metrics"),
        RolloutPhase::Paused => format!("rollout {id}: paused at {step}"),
        RolloutPhase::Halted => format!("rollout {id}: halted at {step}{why}"),
        RolloutPhase::RolledBack => format!("rollout {id}: rolled back at {step}{why}"),
        RolloutPhase::Completed => format!("rollout {id}: completed, all clients get the change"),
        other => format!("rollout {id}: {}", other.as_str()),
    };
    let culprits = reason.as_ref().map(|it| &it.culprits);
    let listed = culprits.map(|it| it.listed()).unwrap_or_default();
    let mut lines: Vec<_> =
        core::iter::once(first).chain(listed.iter().take(MOST_CLIENTS).map(client_line)).collect();
    let omitted = listed.len().saturating_sub(MOST_CLIENTS);
    let omitted = omitted + culprits.map_or(0, |it| it.omitted());
    if omitted > 0 {
        lines.push(format!("and {}", count(omitted as u64, "more client")));
    }
    lines
}

fn client_line(client: &HaltingClient) -> String {
    let node = if client.node_id.is_empty() { "(no id)" } else { &*client.node_id };
    let names = client.names.iter().take(MOST_NAMES).map(|it| escaped(it.as_str()));
    let names = names.collect::<Vec<_>>().join(", ");
    let kind = client.type_url.as_ref().map(|it| format!(" {}", type_name(it.as_str())));
    let names = if names.is_empty() { names } else { format!(" {names}") };
    let message = reason_line(&client.reason, LONGEST_MESSAGE);
    format!("node {}:{}{names}: {message}", escaped(node), kind.unwrap_or_default())
}
