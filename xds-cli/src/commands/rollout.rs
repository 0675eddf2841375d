//! `xds rollout`: shows rollouts, and stores commands for them.

use std::{
    fs, io,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value as Json, json};
use xds_core::{
    proto::Timestamp,
    rollout::{RolloutCommand as Command, RolloutState, StoreResult},
};
use xds_source::{EndedRollout, RolloutStore, SourceError};

use crate::{
    args::{RolloutCommand, RolloutFormat, RolloutStateArgs, SourceAddress},
    client_status::timestamp_text,
    failure::Failure,
    output,
    rollouts::{LocalRollouts, state_json, state_line},
    text::escaped,
    tls_advice::TlsOptions,
};

/// Number of attempts to store a command while servers store states.
const ATTEMPTS: u32 = 20;

pub(crate) async fn run(command: &RolloutCommand) -> Result<(), Failure> {
    let args = command.state();
    let store = Opened { store: open(args).await?, address: args.state.place() };
    let change = match command {
        RolloutCommand::Pause(_) => Command::Pause,
        RolloutCommand::Resume(_) => Command::Resume,
        RolloutCommand::Abort(_) => Command::Abort,
        RolloutCommand::Promote(_) => Command::Promote,
        RolloutCommand::Status(args) => return status(&store, args.output).await,
        RolloutCommand::History(args) => return history(&store, args.output).await,
    };
    let state = carry_out(&store, change).await?;
    output::print(&state_line(&state))
}

/// State of rollouts.
struct Opened {
    store: Box<dyn RolloutStore>,
    /// Address for errors.
    address: PathBuf,
}

impl Opened {
    /// Returns the error of the command if the state cannot be read or stored.
    fn failed(&self, why: SourceError) -> Failure {
        let address = self.address.display().to_string();
        match why {
            SourceError::Unavailable(why) => {
                Failure::Unreached { address, why: TlsOptions::Etcd.named_in(&why) }
            }
            SourceError::Denied(why) => {
                let reason = why.strip_prefix("etcd denies access: ").unwrap_or(&why);
                Failure::Denied { address, why: reason.to_owned() }
            }
            why => failed(why),
        }
    }

    async fn state(&self) -> Result<Option<RolloutState>, Failure> {
        self.store.state().await.map_err(|why| self.failed(why))
    }
}

/// Opens the place of a state, which exists.
async fn open(args: &RolloutStateArgs) -> Result<Box<dyn RolloutStore>, Failure> {
    match &args.state {
        SourceAddress::Directory(path) => {
            let unreadable = |why| Failure::Unreadable { file: path.to_owned(), why };
            if !fs::metadata(path).map_err(unreadable)?.is_dir() {
                return Err(unreadable(io::ErrorKind::NotADirectory.into()));
            }
            let opened = LocalRollouts::open(path.clone()).await;
            Ok(Box::new(opened.map_err(unreadable)?))
        }
        #[cfg(feature = "etcd")]
        SourceAddress::Etcd(address) => {
            let client = super::etcd::client(address, &args.etcd)?;
            Ok(Box::new(super::etcd::rollouts(&client, address)))
        }
        #[cfg(not(feature = "etcd"))]
        SourceAddress::Etcd(_) => Err(Failure::Usage(
            "this build has no support for etcd: build it with --features etcd".to_owned(),
        )),
        #[cfg(feature = "kube")]
        SourceAddress::Kube => {
            let client = super::kube::cluster_client(&args.kube).await?;
            Ok(Box::new(super::kube::rollouts(&client, &args.kube)))
        }
        #[cfg(not(feature = "kube"))]
        SourceAddress::Kube => Err(Failure::Usage(
            "this build has no support for Kubernetes: cargo install --path xds-cli --features kube \
             builds one that has"
                .to_owned(),
        )),
    }
}

fn failed(why: impl ToString) -> Failure {
    Failure::Rollout(why.to_string())
}

/// Stores a command as the next state.
async fn carry_out(opened: &Opened, command: Command) -> Result<RolloutState, Failure> {
    for _ in 0..ATTEMPTS {
        let state = opened.state().await?.filter(|it| it.steps > 0);
        let state = state.ok_or_else(|| {
            failed(format!("there was no rollout yet, so there is nothing to {command}"))
        })?;
        let next = state.commanded(command).map_err(failed)?;
        // Another state may have come between.
        let stored = opened.store.replace(&next).await;
        if stored.map_err(|why| opened.failed(why))? == StoreResult::Stored {
            return Ok(next);
        }
    }
    Err(failed("the servers keep changing the state: try again"))
}

async fn status(opened: &Opened, format: RolloutFormat) -> Result<(), Failure> {
    let state = opened.state().await?;
    let reported = opened.store.progress().await.map_err(|why| opened.failed(why))?;
    let reported = reported.into_iter().filter_map(|it| {
        let mut progress: Json = serde_json::from_str(&it.json).ok()?;
        // What was reported of an earlier rollout or another step says nothing of this one.
        let state = state.as_ref()?;
        let is_of_step = progress["rollout"] == state.id.0
            && progress["step"].as_u64() == u64::try_from(state.step + 1).ok();
        if !it.server.is_empty() {
            progress["server"] = it.server.into();
        }
        is_of_step.then_some(progress)
    });
    let mut reported: Vec<_> = reported.collect();
    match format {
        RolloutFormat::Ndjson => {
            let state = state.as_ref().map(state_json);
            let progress = match opened.store.is_shared() {
                true => Json::Array(reported),
                false => reported.pop().unwrap_or_default(),
            };
            let event = json!({ "event": "rollout", "state": state, "progress": progress });
            output::print(&output::event_line(event))
        }
        RolloutFormat::Text => {
            let Some(state) = state else {
                return output::print("no state was stored yet: no rollout has begun");
            };
            let mut text = state_line(&state);
            if !state.phase.is_final() {
                reported.iter().for_each(|it| text += &format!("\n{}", reported_line(it)));
            }
            output::print(&text)
        }
    }
}

fn reported_line(progress: &Json) -> String {
    let number = |field: &str| progress[field].as_u64().unwrap_or_default();
    let server = progress["server"].as_str();
    format!(
        "{}{}: {} of {} clients of the cohort have accepted the change",
        server.map(|it| format!("{}: ", escaped(it))).unwrap_or_default(),
        progress["phase"].as_str().unwrap_or_default(),
        number("acknowledged"),
        number("clients"),
    )
}

async fn history(opened: &Opened, format: RolloutFormat) -> Result<(), Failure> {
    let ended = opened.store.history().await.map_err(|why| opened.failed(why))?;
    if ended.is_empty() && format == RolloutFormat::Text {
        return output::print("no rollout has ended yet");
    }
    ended.iter().try_for_each(|EndedRollout { at, state }| match format {
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
