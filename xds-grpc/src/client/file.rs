//! Link to a server that is a file.

use core::task::{Context, Poll, ready};
use std::sync::Arc;

use xds_core::client::{Call, FilePolicy};
use xds_format::Schema;
use xds_fs::{Content, FileSubscription};

use super::{
    link::{LinkEvent, ReadMode},
    options::ClientOptions,
};
use crate::runtime::SharedRuntime;

/// File subscription and the last error logged for it.
#[derive(Debug)]
pub(crate) struct FileLink {
    subscription: FileSubscription,
    error: Option<Arc<str>>,
}

impl FileLink {
    /// Creates a link without reading or watching the file yet. Returns `None` if the call has no
    /// resource type.
    pub(crate) fn new(
        call: &Call,
        policy: &FilePolicy,
        options: &ClientOptions,
        runtime: &SharedRuntime,
    ) -> Option<Self> {
        let path = Arc::clone(&call.server.uri);
        let schema = options.schema.unwrap_or_else(|| Schema::envoy());
        let type_url = call.type_url.clone()?;
        let subscription = FileSubscription::new(path, type_url, policy.clone(), schema);
        let runtime = runtime.clone();
        let start = move |task| runtime.runtime().watch_files(task);
        let subscription = subscription.with_start(start);
        Some(Self { subscription, error: None })
    }

    pub(crate) fn read(&mut self) {
        self.subscription.read();
    }

    pub(crate) fn poll(&mut self, mode: ReadMode, cx: &mut Context<'_>) -> Poll<LinkEvent> {
        // Unread content stays in the subscription, which never ends. The driver polls again when
        // it wants to read.
        if mode == ReadMode::Pause {
            return Poll::Pending;
        }
        loop {
            match ready!(self.subscription.poll(cx)) {
                Content::Response(response) => return Poll::Ready(LinkEvent::Message(response)),
                Content::Unreadable(why) => return Poll::Ready(LinkEvent::Unreadable(why)),
                _ => {}
            }
        }
    }

    /// Records the file's current error, if any, and returns whether it differs from the last one.
    pub(crate) fn is_new_error(&mut self, error: Option<&Arc<str>>) -> bool {
        let is_new = self.error.as_ref() != error;
        self.error = error.cloned();
        is_new
    }
}
