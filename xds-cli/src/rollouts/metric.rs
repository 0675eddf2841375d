//! Commands that observe the clients of a rollout.

use core::time::Duration;
use std::process::Stdio;

use tokio::{
    process::Command,
    time::{sleep, timeout},
};
use xds_core::rollout::MetricVerdict;
use xds_tokio::server::RolloutHandle;

use super::MetricCommand;
use crate::text::one_line;

/// Maximum time of one run.
const LONGEST_RUN: Duration = Duration::from_secs(60);
/// Maximum number of characters of a reason.
const LONGEST_REASON: usize = 200;

/// Runs a command again and again, and reports its verdicts, until the rollout has ended.
pub(super) async fn observe(metric: MetricCommand, rollout: RolloutHandle) {
    loop {
        let verdict = verdict_of(&metric, &rollout).await;
        if rollout.metric(&*metric.name, verdict).await.is_err() {
            return;
        }
        sleep(metric.every).await;
    }
}

/// Runs the command. The exit code 0 is good; otherwise the last line of its output is the reason.
async fn verdict_of(metric: &MetricCommand, rollout: &RolloutHandle) -> MetricVerdict {
    let Some((program, arguments)) = metric.command.split_first() else {
        return MetricVerdict::Bad("it has no command".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).env("XDS_ROLLOUT", rollout.id().0.to_string());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = match timeout(LONGEST_RUN, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(why)) => return MetricVerdict::Bad(format!("cannot run {program}: {why}")),
        Err(_) => {
            let limit = LONGEST_RUN.as_secs();
            return MetricVerdict::Bad(format!("{program} takes longer than {limit} s"));
        }
    };
    if output.status.success() {
        return MetricVerdict::Good;
    }
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    let last = text.iter().rev().find_map(|it| it.lines().rfind(|line| !line.trim().is_empty()));
    let said = last.map(|it| one_line(it, LONGEST_REASON)).unwrap_or_default();
    match said.is_empty() {
        true => MetricVerdict::Bad(format!("{program}: {}", output.status)),
        false => MetricVerdict::Bad(said),
    }
}
