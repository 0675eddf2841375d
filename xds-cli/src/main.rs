//! The `xds` command.
//!
//! | file | contents |
//! |---|---|
//! | `args.rs` | command-line arguments |
//! | `commands/` | `demo`, `serve`, `watch`, `check`, `compat`, `sim` |
//! | `directory/` | resources in files: their changes and their last valid states |
//! | `resource_types.rs`, `schema.rs` | validation; schema with `--descriptors` |
//! | `facts.rs`, `json_diff.rs` | summaries of resources, and differences between two states |
//! | `server_table.rs` | table of subscriptions and accepted versions |
//! | `output/` | standard output and standard error, which may not be read |
//! | `failure.rs`, `logging.rs`, `stop.rs`, `style.rs`, `text.rs` | errors, logs, signals, text |

mod args;
mod commands;
mod directory;
mod facts;
mod failure;
mod json_diff;
mod logging;
mod output;
mod resource_types;
mod schema;
mod server_table;
mod stop;
mod style;
mod text;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;

use crate::{
    args::{Cli, Command},
    failure::Failure,
};

/// Allocator. Simulations allocate many short-lived objects; the default allocator takes a sixth of
/// their time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime.map_err(Failure::Runtime) {
        Ok(runtime) => runtime,
        Err(failure) => {
            // Without a runtime there is no output queue.
            let _ = writeln!(io::stderr(), "xds: {failure}");
            return failure.exit_code();
        }
    };
    let code = runtime.block_on(async {
        let code = match run(cli).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if !failure.is_silent() {
                    output::print_to_stderr(&format!("xds: {failure}"));
                }
                failure.exit_code()
            }
        };
        output::finish().await;
        code
    });
    // A blocking read of a file must not delay the exit.
    runtime.shutdown_background();
    code
}

async fn run(cli: Cli) -> Result<(), Failure> {
    let quietest = match cli.command {
        // The demo reports problems in its story, and causes some of them on purpose.
        Command::Demo => logging::Quietest::Errors,
        Command::Serve(_)
        | Command::Watch(_)
        | Command::Check(_)
        | Command::Compat(_)
        | Command::Sim(_) => logging::Quietest::Warnings,
    };
    logging::init(quietest, cli.verbose, cli.color);
    schema::extend(cli.command.descriptors())?;
    match cli.command {
        Command::Demo => commands::demo::run(cli.color).await,
        Command::Serve(args) => commands::serve::run(args, cli.color).await,
        Command::Watch(args) => commands::watch::run(args, cli.color).await,
        Command::Check(args) => commands::check::run(args, cli.color),
        Command::Compat(args) => commands::compat::run(args, cli.color),
        Command::Sim(command) => commands::sim::run(command, cli.color),
    }
}
