//! The shipping drivers on a stage.

#![cfg(feature = "stack")]

mod apps;
mod budgets;
mod dates;
mod determinism;
mod documented;
mod ends;
mod faults;
#[cfg(unix)]
mod files;
mod greeter;
mod load_reports;
mod messages;
mod names;
mod pair;
mod raw;
mod regressions;
mod reports;
mod rest;
mod rollout;
mod served;
mod storms;
#[path = "../../../xds-routing/tests/it/support/mod.rs"]
mod support;
mod unread;
mod unsupported;
mod well;
mod worlds;

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::{Command, id},
    sync::atomic::{AtomicU64, Ordering},
};

/// Returns the message of the panic of `check`.
fn failure(check: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(check)).expect_err("the bug is found");
    *panic.downcast::<String>().expect("a text")
}

/// Requires that runs have the same hashes when they are repeated, and in another process, which
/// runs this test alone.
fn two_processes(test: &str, hashes: impl Fn() -> Vec<u64>) {
    const CHILD: &str = "XDS_STACK_CHILD";

    let own = hashes();
    if env::var_os(CHILD).is_some() {
        return println!("hashes: {own:?}");
    }
    assert_eq!(hashes(), own, "in one process");
    let child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(text.contains(&format!("hashes: {own:?}")), "{text}");
    let mut distinct = own.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), own.len(), "each seed is a run of its own");
}

/// Directory of one run, removed when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);

        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("xds-stack-{}-{number}", id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
