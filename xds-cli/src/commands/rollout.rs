//! `xds rollout`: shows rollouts, and stores commands for them.

use std::{
    io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value as Json, json};
use xds_core::{
    proto::Timestamp,
    rollout::{RolloutCommand as Command, RolloutState, StoreResult},
};
use xds_source::{EndedRollout, RolloutDirectory};

use crate::{
    args::{RolloutCommand, RolloutFormat},
    client_status::timestamp_text,
    failure::Failure,
    output,
    rollouts::{state_json, state_line},
};

/// Number of attempts to store a command while the server stores states.
const ATTEMPTS: u32 = 20;

pub(crate) fn run(command: &RolloutCommand) -> Result<(), Failure> {
    if let Some((directory, change)) = command.change() {
        let state = carry_out(&opened(directory)?, change)?;
        return output::print(&state_line(&state));
    }
    match command {
        RolloutCommand::Status(args) => status(&opened(&args.state.state)?, args.output),
        RolloutCommand::History(args) => history(&opened(&args.state.state)?, args.output),
        _ => Ok(()),
    }
}

/// Opens a directory that exists.
fn opened(path: &Path) -> Result<RolloutDirectory, Failure> {
    let unreadable = |why| Failure::Unreadable { file: path.to_owned(), why };
    if !path.is_dir() {
        return Err(unreadable(io::Error::new(io::ErrorKind::NotFound, "it is no directory")));
    }
    RolloutDirectory::open(path).map_err(unreadable)
}

fn failed(why: impl ToString) -> Failure {
    Failure::Rollout(why.to_string())
}

/// Stores a command as the next state.
fn carry_out(directory: &RolloutDirectory, command: Command) -> Result<RolloutState, Failure> {
    for _ in 0..ATTEMPTS {
        let state = directory.state().map_err(failed)?;
        let state = state.filter(|it| it.steps > 0);
        let state = state.ok_or_else(|| {
            failed(format!("there was no rollout yet, so there is nothing to {command}"))
        })?;
        let next = state.commanded(command).map_err(failed)?;
        // Another state may have come between.
        if directory.replace(&next).map_err(failed)? == StoreResult::Stored {
            return Ok(next);
        }
    }
    Err(failed("the server keeps changing the state: try again"))
}

fn status(directory: &RolloutDirectory, format: RolloutFormat) -> Result<(), Failure> {
    let state = directory.state().map_err(failed)?;
    let progress = directory.progress().map_err(failed)?;
    let progress: Option<Json> = progress.and_then(|it| serde_json::from_str(&it).ok());
    // What was reported of an earlier rollout or another step says nothing of this one.
    let progress = progress.filter(|it| {
        state.as_ref().is_some_and(|state| {
            it["rollout"] == state.id.0 && it["step"].as_u64() == u64::try_from(state.step + 1).ok()
        })
    });
    match format {
        RolloutFormat::Ndjson => {
            let state = state.as_ref().map(state_json);
            let event = json!({ "event": "rollout", "state": state, "progress": progress });
            output::print(&output::event_line(event))
        }
        RolloutFormat::Text => {
            let Some(state) = state else {
                return output::print("no state was stored yet: no rollout has begun");
            };
            let mut text = state_line(&state);
            if let Some(progress) = progress.filter(|_| !state.phase.is_final()) {
                let number = |field: &str| progress[field].as_u64().unwrap_or_default();
                text += &format!(
                    "\n{}: {} of {} clients of the cohort have accepted the change",
                    progress["phase"].as_str().unwrap_or_default(),
                    number("acknowledged"),
                    number("clients"),
                );
            }
            output::print(&text)
        }
    }
}

fn history(directory: &RolloutDirectory, format: RolloutFormat) -> Result<(), Failure> {
    let ended = directory.history().map_err(failed)?;
    if ended.is_empty() && format == RolloutFormat::Text {
        return output::print("no rollout has ended yet");
    }
    ended.iter().try_for_each(|EndedRollout { at, state, .. }| match format {
        RolloutFormat::Ndjson => {
            let mut event = state_json(state);
            event["event"] = "rollout_ended".into();
            event["ended"] = time_of(*at).into();
            output::print(&event.to_string())
        }
        RolloutFormat::Text => output::print(&format!("{}  {}", time_of(*at), state_line(state))),
    })
}

fn time_of(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    timestamp_text(Timestamp { seconds, nanos: 0 }).unwrap_or_default()
}
