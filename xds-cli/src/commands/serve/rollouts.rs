//! Rollouts, from the arguments.

use std::sync::Arc;

use xds_source::RolloutStore;
use xds_tokio::ServerHandle;

use super::{
    events::{ServeEvent, ServePrinter},
    origin::{OpenedSource, subdirectories},
    served_files,
};
use crate::{
    args::ServeArgs,
    directory::{FollowedRollouts, KnownRollouts},
    failure::Failure,
    rollouts::{self, LocalRollouts, RolloutObserver, RolloutSettings},
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

/// Starts the rollouts of a server, with what an earlier process has left. Their state is in the
/// directory of --state, or in the cluster that is the source.
pub(super) async fn start(
    settings: RolloutSettings,
    args: &ServeArgs,
    source: &OpenedSource,
    server: ServerHandle,
) -> Result<(FollowedRollouts, RolloutObserver), Failure> {
    let failed = |why: &dyn core::fmt::Display| {
        Failure::Rollout(format!("rollouts cannot start (--state): {why}"))
    };
    let store: Arc<dyn RolloutStore> = match (&args.rollouts.state, source.rollouts()) {
        (Some(state), _) => {
            if served_files::are_in(state, args.source.directory(), subdirectories(args)) {
                return Err(failed(
                    &"the directory must not be the served directory, or one of its views",
                ));
            }
            let opened = LocalRollouts::open_for_server(state.clone()).await;
            Arc::new(opened.map_err(|why| failed(&why))?)
        }
        (None, Some(store)) => store,
        (None, None) => {
            return Err(Failure::Usage(
                "--canary and --rollout-policy need --state DIR: the source is a directory, or \
                 --kube-read-only is given"
                    .to_owned(),
            ));
        }
    };
    let settings = Arc::new(settings);
    let states = rollouts::keep(Arc::clone(&store), server.clone()).await;
    let states = states.map_err(|why| failed(&why))?;
    let (started, observer) = RolloutObserver::start(Arc::clone(&settings), Arc::clone(&store));
    let known = KnownRollouts::default();
    let mut followed = FollowedRollouts { settings, store, states, started, known };
    // A shared state is read with the source, which may be unreachable now.
    if !followed.store.is_shared() {
        followed.restore(&server).await.map_err(|why| failed(&why))?;
    }
    Ok((followed, observer))
}
