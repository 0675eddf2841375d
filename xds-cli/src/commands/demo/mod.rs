//! `xds demo`: a management server and a client in one process, with explanations.
//!
//! | file | contents |
//! |---|---|
//! | `steps.rs` | steps, each of which waits for its expected result |
//! | `setup.rs` | server with embedded files, client, and the state of both |
//! | `follower.rs` | client that watches a listener and the resources it refers to |
//! | `view.rs` | the client's resources as a tree, and their changes |
//! | `wire.rs` | the order in which a client receives a change with make before break |
//! | `try_out.rs` | the commands with which the reader goes on |
//! | `replicas/` | the same with several servers over etcd |
//! | `narrator.rs` | output, with pauses for reading |

mod follower;
mod narrator;
#[cfg(feature = "etcd")]
mod replicas;
mod setup;
mod steps;
mod try_out;
mod view;
mod wire;

use clap::ColorChoice;
use core::time::Duration;
use tokio::time::timeout;

use self::{narrator::Narrator, steps::DemoSteps};
use crate::{
    args::DemoArgs,
    failure::{DemoFailure, Failure},
    output,
};

/// Time limit of the whole demo.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn run(args: &DemoArgs, color: ColorChoice) -> Result<(), Failure> {
    output::queue_stdout(output::not_printed, output::ReaderLoss::Ends);
    let narrator = Narrator::new(color);
    if let Some(count) = args.replicas {
        return run_replicas(args, count, narrator).await;
    }
    let steps = DemoSteps::run(narrator);
    timeout(LIMIT, steps).await.unwrap_or_else(|_| {
        Err(DemoFailure::TooLate { what: "the end of the demo", limit: LIMIT }.into())
    })
}

#[cfg(feature = "etcd")]
use self::replicas::run as run_replicas;

#[cfg(not(feature = "etcd"))]
async fn run_replicas(_: &DemoArgs, _: u8, _: Narrator) -> Result<(), Failure> {
    let why = "this build of xds lacks etcd; install it with `cargo install --path xds-cli --features etcd`";
    Err(Failure::Usage(why.to_owned()))
}
