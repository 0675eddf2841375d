//! A binary of its own, because its tests are generated (`harness = false`): conformance tests of the adapter for tokio.

use std::{process::ExitCode, sync::LazyLock};

use libtest_mimic::{Arguments, run};
use tokio::runtime::{EnterGuard, Runtime};
use xds_conformance::ours::trials;
use xds_tokio::Tokio;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("threads"));

fn main() -> ExitCode {
    let enter = || -> EnterGuard<'static> { RUNTIME.enter() };
    run(&Arguments::from_args(), trials::<Tokio, _>("tokio", enter)).exit_code()
}
