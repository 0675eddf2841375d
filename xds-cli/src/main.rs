//! The `xds` command.
//!
//! | file | contents |
//! |---|---|
//! | `args/` | command-line arguments |
//! | `commands/` | `demo`, `serve`, `watch`, `get`, `status`, `check`, `compat`, `convert`, `rollout`, `route`, `sim`, `completions`, `man` |
//! | `upstream/`, `resource_events/` | servers that a client connects to, and events about resources |
//! | `directory/` | resources in files: their changes and their last valid states |
//! | `diagnostic.rs` | findings about files, with their positions |
//! | `resource_types.rs`, `schema.rs` | validation; schema with `--descriptors` |
//! | `facts.rs`, `json_diff.rs` | summaries of resources, and differences between two states |
//! | `client_status/` | status of clients, from CSDS and from Envoy's configuration dump |
//! | `rollouts/` | policy, state and progress of rollouts |
//! | `settings_file.rs` | files of settings in YAML: views, policies of rollouts |
//! | `server_table.rs` | table of subscriptions and accepted versions |
//! | `output/` | standard output, standard error and logs |
//! | `process_name.rs` | name of this process for others that use the same source |
//! | `bounded.rs` | input of limited size |
//! | `tls_advice.rs` | options in advice about TLS |
//! | `failure.rs`, `stop.rs`, `place.rs`, `style.rs`, `text.rs` | errors, signals, places in files, text |

mod args;
mod bootstrap_kind;
mod bounded;
mod client_status;
mod commands;
mod diagnostic;
mod directory;
mod facts;
mod failure;
mod json_diff;
mod numbers;
mod output;
mod place;
#[cfg(any(feature = "etcd", feature = "kube"))]
mod process_name;
mod resource_events;
mod resource_types;
mod rollouts;
mod schema;
mod server_table;
mod settings_file;
mod stop;
mod style;
mod text;
mod tls_advice;
mod upstream;
mod views;

use std::{
    io::{self, Write as _},
    panic::resume_unwind,
    process::ExitCode,
};

use clap::{ColorChoice, Parser as _};
use tokio::{runtime::Handle, select, task::spawn_blocking};

use crate::{
    failure::Failure, output::log_format::LogFormat, stop::Signals, style::Style,
    text::escaped_lines,
};

/// Allocator. Simulations allocate many short-lived objects; the default allocator takes a sixth of
/// their time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First, because the kernel does not split the huge pages that exist.
    prevent_huge_pages(true);
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(help_or_error) => return print_usage(&help_or_error),
    };
    // Simulations are faster with huge pages.
    if matches!(cli.command, args::Command::Sim(_)) {
        prevent_huge_pages(false);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK).build();
    let runtime = match runtime.map_err(Failure::Runtime) {
        Ok(runtime) => runtime,
        Err(failure) => {
            // Without a runtime there is no output queue.
            let _ = writeln!(io::stderr(), "xds: {failure}");
            return failure.exit_code();
        }
    };
    let code = runtime.block_on(async {
        let code = match run_until_signal(cli).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                if !failure.is_silent() {
                    let text = escaped_lines(&failure.to_string());
                    output::print_failure(&format!("xds: {text}"));
                }
                failure.exit_code()
            }
        };
        output::finish().await;
        code
    });
    // A command that blocks must not delay the exit. Its thread may still use timers, and panics if
    // the runtime shuts down.
    core::mem::forget(runtime);
    code
}

/// Size of the stack of each thread: that of a main thread on most systems.
const STACK: usize = 8 << 20;

/// Runs the command until it ends or receives a signal that it does not handle. It has a thread of
/// its own, so that a signal also ends a command that waits for a file or for a reader.
async fn run_until_signal(cli: args::Cli) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let is_ended_by_signals =
        matches!(cli.command, args::Command::Serve(_) | args::Command::Watch(_));
    let handle = Handle::current();
    let running = spawn_blocking(move || handle.block_on(run(cli)));
    select! {
        biased;
        result = running => match result {
            Ok(result) => result,
            Err(why) => resume_unwind(why.into_panic()),
        },
        () = signals.unhandled() => match is_ended_by_signals {
            true => Ok(()),
            false => Err(Failure::Interrupted),
        },
    }
}

/// Prints help, the version or an error in the arguments. A failure to print an error is ignored,
/// because nothing else can be done.
fn print_usage(usage: &clap::Error) -> ExitCode {
    let color = style::choice_in(std::env::args_os());
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let is_error = usage.use_stderr();
    let (style, stream): (_, &mut dyn io::Write) = match is_error {
        true => (Style::of(color, &err), &mut err),
        false => (Style::of(color, &out), &mut out),
    };
    let text = usage.render();
    let printed = match style.is_on() {
        true => write!(stream, "{}", text.ansi()),
        false => write!(stream, "{text}"),
    };
    let printed = printed.and_then(|()| stream.flush()).map_err(Failure::Output);
    if let Err(failure) = printed
        && !is_error
        && !failure.is_silent()
    {
        let _ = writeln!(io::stderr(), "xds: {failure}");
        return failure.exit_code();
    }
    u8::try_from(usage.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Sets whether the process gets no transparent huge pages. The allocator asks for them, and a mostly
/// empty one takes 2 MiB: they are more than half of the memory of an idle server.
#[cfg(target_os = "linux")]
fn prevent_huge_pages(is_prevented: bool) {
    // If it fails, the settings of the system apply.
    let _ = rustix::thread::disable_transparent_huge_pages(is_prevented);
}

#[cfg(not(target_os = "linux"))]
fn prevent_huge_pages(_: bool) {}

async fn run(cli: args::Cli) -> Result<(), Failure> {
    let quietest = match cli.command {
        // The demo reports problems in its story, and causes some of them on purpose.
        args::Command::Demo(_) => output::logging::Quietest::Errors,
        args::Command::Serve(_)
        | args::Command::Watch(_)
        | args::Command::Get(_)
        | args::Command::Status(_)
        | args::Command::Check(_)
        | args::Command::Compat(_)
        | args::Command::Convert(_)
        | args::Command::Rollout(_)
        | args::Command::Route(_)
        | args::Command::Sim(_)
        | args::Command::Load(_)
        | args::Command::Completions(_)
        | args::Command::Man(_) => output::logging::Quietest::Warnings,
        #[cfg(feature = "etcd")]
        args::Command::Apply(_) | args::Command::Pull(_) | args::Command::Register(_) => {
            output::logging::Quietest::Warnings
        }
    };
    let color = match cli.log_format {
        LogFormat::Text => cli.color,
        LogFormat::Json => ColorChoice::Never,
    };
    output::logging::init(quietest, cli.verbose, color, cli.log_format);
    schema::extend(cli.command.descriptors())?;
    match cli.command {
        args::Command::Demo(args) => commands::demo::run(&args, color).await,
        args::Command::Serve(args) => commands::serve::run(*args, color).await,
        args::Command::Watch(args) => commands::watch::run(args, color).await,
        args::Command::Get(args) => commands::get::run(args, color).await,
        args::Command::Status(args) => commands::status::run(args, color).await,
        args::Command::Check(args) => commands::check::run(args, color).await,
        args::Command::Compat(args) => commands::compat::run(args, color),
        args::Command::Convert(args) => commands::convert::run(&args),
        args::Command::Rollout(command) => commands::rollout::run(&command).await,
        args::Command::Route(command) => commands::route::run(command, color).await,
        args::Command::Load(args) => commands::load::run(args).await,
        args::Command::Sim(command) => commands::sim::run(command, color),
        #[cfg(feature = "etcd")]
        args::Command::Apply(args) => commands::etcd::apply(&args).await,
        #[cfg(feature = "etcd")]
        args::Command::Pull(args) => commands::etcd::pull(&args).await,
        #[cfg(feature = "etcd")]
        args::Command::Register(args) => commands::etcd::register(&args).await,
        args::Command::Completions(args) => commands::shell::completions(&args),
        args::Command::Man(args) => commands::shell::man(&args),
    }
}
