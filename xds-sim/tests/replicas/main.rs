//! Replicas that follow one source.

#![cfg(feature = "replicas")]

use std::sync::{Mutex, MutexGuard, PoisonError};

mod storms;
mod zoo;

/// A deliberate bug of the follower is active in the whole process, so tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
