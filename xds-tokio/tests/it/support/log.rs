//! Captured log of a test.

use std::{
    io,
    sync::{Arc, Mutex, Once},
};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        MakeWriter, SubscriberBuilder,
        format::{DefaultFields, Format, Full},
    },
};

fn subscriber() -> SubscriberBuilder<DefaultFields, Format<Full, ()>, EnvFilter> {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("xds_grpc=trace"))
        .with_ansi(false)
        .without_time()
}

/// Log of the current thread, which is complete in a single-threaded runtime.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn start() -> (Self, DefaultGuard) {
        // A thread without a subscriber that registers a callsite while this one is set would
        // disable the callsite for all threads. A global subscriber prevents this.
        static GLOBAL: Once = Once::new();
        GLOBAL.call_once(|| {
            let subscriber = subscriber().with_writer(io::sink).finish();
            tracing::subscriber::set_global_default(subscriber).expect("only this one is set");
        });
        let log = Self::default();
        let subscriber = subscriber().with_writer(log.clone()).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        tracing::callsite::rebuild_interest_cache();
        (log, guard)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Returns the lines that contain all of the words.
    pub(crate) fn lines(&self, words: &[&str]) -> Vec<String> {
        let text = self.text();
        text.lines()
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .map(str::to_owned)
            .collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
