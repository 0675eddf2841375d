//! The `xds` command.
//!
//! | file | what it does |
//! |---|---|
//! | `args.rs` | what can be said on the command line |
//! | `commands/` | `demo`, `serve`, `watch`, `check`, `compat`, `sim` |
//! | `directory/` | resources in files: which there are, what changed, which are the last good ones |
//! | `resource_types.rs`, `schema.rs` | what our clients accept; the schema, with what `--descriptors` adds |
//! | `facts.rs`, `json_diff.rs` | what a resource says, and which of its fields changed |
//! | `server_table.rs` | who has accepted what, as a table |
//! | `output/` | standard output and error, which nobody may be reading |
//! | `failure.rs`, `logging.rs`, `stop.rs`, `style.rs`, `text.rs` | how a command ends, logs, prints |

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

/// A simulation is made of short-lived things: a sixth of its time is the allocator's otherwise.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime.map_err(Failure::Runtime) {
        Ok(runtime) => runtime,
        Err(failure) => {
            // Without a runtime nothing is queued.
            let _ = writeln!(io::stderr(), "xds: {failure}");
            return failure.exit_code();
        }
    };
    let code = runtime.block_on(async {
        let code = match run(cli).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if !failure.is_silent() {
                    output::complain(&format!("xds: {failure}"));
                }
                failure.exit_code()
            }
        };
        output::finish().await;
        code
    });
    // A file that is being read must not hold up the end.
    runtime.shutdown_background();
    code
}

async fn run(cli: Cli) -> Result<(), Failure> {
    let quietest = match cli.command {
        // It tells in its own words what goes wrong, and some of it goes wrong on purpose.
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
