//! What every adapter has to do, on async-std and on smol, where there is no tokio runtime.

use std::process::ExitCode;

use libtest_mimic::{Arguments, run};
use xds_asyncstd::{AsyncIo, async_std::AsyncStd, smol::Smol};
use xds_conformance::ours::trials;

fn main() -> ExitCode {
    let mut tests = trials::<AsyncIo<AsyncStd>, _>("async-std", || WithoutTokio);
    tests.extend(trials::<AsyncIo<Smol>, _>("smol", || WithoutTokio));
    run(&Arguments::from_args(), tests).exit_code()
}

/// Fails a test if it leaves a thread of tokio's.
struct WithoutTokio;

impl Drop for WithoutTokio {
    #[cfg(target_os = "linux")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for task in std::fs::read_dir("/proc/self/task").expect("Linux has it") {
            // A thread may end meanwhile.
            let Ok(name) = std::fs::read_to_string(task.expect("a thread").path().join("comm"))
            else {
                continue;
            };
            assert!(!name.contains("tokio"), "there is a thread {name}");
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn drop(&mut self) {}
}
