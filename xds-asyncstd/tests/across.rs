//! A process of its own, because it has a runtime of tokio, which `conformance` forbids: conformance tests of clients
//! and servers on different runtimes in one process.

use std::{process::ExitCode, sync::LazyLock};

use libtest_mimic::{Arguments, run};
use tokio::runtime::{EnterGuard, Runtime};
use xds_asyncstd::{AsyncIo, async_std::AsyncStd, smol::Smol};
use xds_conformance::ours::trials_of_both;
use xds_tokio::Tokio;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("threads"));

fn main() -> ExitCode {
    let enter = || -> EnterGuard<'static> { RUNTIME.enter() };
    let mut tests = trials_of_both::<Tokio, AsyncIo<Smol>, _>("tokio and smol", enter);
    tests.extend(trials_of_both::<AsyncIo<AsyncStd>, Tokio, _>("async-std and tokio", enter));
    run(&Arguments::from_args(), tests).exit_code()
}
