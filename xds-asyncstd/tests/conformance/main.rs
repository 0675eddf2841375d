//! A process of its own, because it checks that no thread of tokio is in the process: conformance tests of the adapters
//! for async-std and smol.

#[cfg(target_os = "linux")]
mod threads;

use std::process::ExitCode;

use libtest_mimic::{Arguments, run};
use xds_asyncstd::{AsyncIo, async_std::AsyncStd, smol::Smol};
use xds_conformance::ours::trials;

fn main() -> ExitCode {
    let mut tests = trials::<AsyncIo<AsyncStd>, _>("async-std", || WithoutTokio);
    tests.extend(trials::<AsyncIo<Smol>, _>("smol", || WithoutTokio));
    #[cfg(target_os = "linux")]
    tests.push(threads::trial());
    run(&Arguments::from_args(), tests).exit_code()
}

/// Fails a test if a thread of tokio is left.
struct WithoutTokio;

impl Drop for WithoutTokio {
    #[cfg(target_os = "linux")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for task in std::fs::read_dir("/proc/self/task").expect("Linux has it") {
            // The thread may end meanwhile.
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
