//! What every adapter has to do, on async-std and on smol.

use std::process::ExitCode;

use libtest_mimic::{Arguments, run};
use xds_asyncstd::{AsyncIo, async_std::AsyncStd, smol::Smol};
use xds_conformance::ours::trials;

fn main() -> ExitCode {
    let mut tests = trials::<AsyncIo<AsyncStd>, _>("async-std", || {});
    tests.extend(trials::<AsyncIo<Smol>, _>("smol", || {}));
    run(&Arguments::from_args(), tests).exit_code()
}
