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
//! | `narrator.rs` | output, with pauses for reading |

mod follower;
mod narrator;
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
    failure::{DemoFailure, Failure},
    output,
};

/// Time limit of the whole demo.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn run(color: ColorChoice) -> Result<(), Failure> {
    output::queue_stdout(output::not_printed, output::ReaderLoss::Ends);
    let steps = DemoSteps::run(Narrator::new(color));
    timeout(LIMIT, steps).await.unwrap_or_else(|_| {
        Err(DemoFailure::TooLate { what: "the end of the demo", limit: LIMIT }.into())
    })
}
