//! Rollouts, from the arguments.

use std::{path::Path, sync::Arc};

use tokio::task::spawn_blocking;
use xds_source::RolloutDirectory;
use xds_tokio::ServerHandle;

use super::events::{ServeEvent, ServePrinter};
use crate::{
    args::ServeArgs,
    directory::{FollowedRollouts, RestoredRollouts},
    failure::Failure,
    rollouts::{self, RolloutObserver, RolloutSettings},
};

/// Returns the settings that the flags select; `None` without rollouts.
pub(super) fn settings(
    args: &ServeArgs,
    printer: &mut dyn ServePrinter,
) -> Result<Option<RolloutSettings>, Failure> {
    let flags = &args.rollouts;
    if let Some(file) = &flags.rollout_policy {
        return match rollouts::read(file) {
            Ok(settings) => Ok(Some(settings)),
            Err(errors) => {
                printer.print(ServeEvent::InvalidSettings(&errors))?;
                let errors = u32::try_from(errors.len()).unwrap_or(u32::MAX);
                Err(Failure::InvalidPolicy { file: file.clone(), errors })
            }
        };
    }
    let policy = flags.canary().map_err(|why| Failure::Usage(format!("--canary: {why}")))?;
    let settings = policy.map(|policy| RolloutSettings { policy, metrics: Vec::new() });
    match settings.is_none() && flags.state.is_some() {
        true => Err(Failure::Usage(
            "--state has an effect only with --canary or --rollout-policy".to_owned(),
        )),
        false => Ok(settings),
    }
}

/// Starts the rollouts of a server, with what an earlier process has left.
pub(super) async fn start(
    settings: RolloutSettings,
    state: &Path,
    server: ServerHandle,
) -> Result<(FollowedRollouts, RolloutObserver), Failure> {
    let failed = |why: &dyn core::fmt::Display| {
        Failure::Rollout(format!("rollouts cannot start (--state): {why}"))
    };
    let path = state.to_owned();
    let opened = spawn_blocking(move || RolloutDirectory::open_for_server(path)).await;
    let directory = opened.map_err(|why| failed(&why))?.map_err(|why| failed(&why))?;
    let (directory, settings) = (Arc::new(directory), Arc::new(settings));
    let (started, observer) = RolloutObserver::start(Arc::clone(&settings), Arc::clone(&directory));
    let restored = RestoredRollouts::restore(&directory, &settings, &server, &started).await;
    let restored = restored.map_err(|why| failed(&why))?;
    let kept = rollouts::keep(Arc::clone(&directory), restored.state.clone(), server).await;
    let states = kept.map_err(|why| failed(&why))?;
    Ok((FollowedRollouts { settings, directory, states, started, restored }, observer))
}
