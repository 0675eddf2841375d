#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "some tests need Linux"))]
//! A temporary folder, and a reader that waits for the results of a subscription.

use std::{
    env, fs,
    path::{Path, PathBuf},
    pin::Pin,
    process,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use prost::Message as _;
use xds_core::{TypeUrl, client::FilePolicy, proto::DiscoveryResponse, types};
use xds_format::Schema;
use xds_fs::{Content, FileSubscription};

/// Maximum time of any wait. On an idle machine nothing takes a second.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);

/// A folder that is removed at the end of the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("xds-fs-{}-{name}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Saves a file in place.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Replaces a file by a rename.
    pub(crate) fn replace(&self, name: &str, text: impl AsRef<[u8]>) {
        let new = self.path("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the text of a file with clusters of the given names.
pub(crate) fn clusters(names: &[&str]) -> String {
    let mut text = "version_info: v\nresources:\n".to_owned();
    for name in names {
        text += &format!("- {{'@type': {}, name: {name}}}\n", types::CLUSTER);
    }
    text
}

/// Returns a policy without periodic checks within the time of a test.
pub(crate) fn noticing() -> FilePolicy {
    let mut policy = FilePolicy::default();
    policy.poll_interval = Duration::from_secs(3600);
    policy
}

/// A subscription with blocking reads.
pub(crate) struct Reader(pub(crate) FileSubscription);

impl Reader {
    pub(crate) fn of(path: &Path, type_url: &str, policy: FilePolicy) -> Self {
        let mut reader = Self::unasked(path, type_url, policy);
        reader.0.read();
        reader
    }

    /// Creates a reader without a read request.
    pub(crate) fn unasked(path: &Path, type_url: &str, policy: FilePolicy) -> Self {
        let (path, type_url) = (path.to_str().unwrap(), TypeUrl::from(type_url));
        Self(FileSubscription::new(path, type_url, policy, Schema::envoy()))
    }

    pub(crate) fn of_clusters(path: &Path) -> Self {
        Self::of(path, types::CLUSTER, noticing())
    }

    /// Waits for the next result.
    pub(crate) fn next(&mut self) -> Content {
        let deadline = Instant::now() + LONGEST;
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut cx = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(content) = Pin::new(&mut self.0).get_mut().poll(&mut cx) {
                return content;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "nothing came");
            thread::park_timeout(left);
        }
    }

    /// Waits for a result that `is_it` accepts, and skips others, such as those read during a
    /// change.
    pub(crate) fn wait_for<T>(&mut self, is_it: impl Fn(&Content) -> Option<T>) -> T {
        let deadline = Instant::now() + LONGEST;
        loop {
            let content = self.next();
            match is_it(&content) {
                Some(it) => return it,
                None => assert!(Instant::now() < deadline, "only {content:?} came"),
            }
        }
    }

    /// Waits for a response with resources of the given names.
    pub(crate) fn wait_for_names(&mut self, names: &[&str]) {
        self.wait_for(|content| (names_in(content)? == names).then_some(()));
    }

    /// Waits for an error and returns its text.
    pub(crate) fn wait_for_trouble(&mut self) -> String {
        self.wait_for(|content| match content {
            Content::Unreadable(why) => Some(why.to_string()),
            _ => None,
        })
    }
}

pub(crate) fn response(content: &Content) -> Option<DiscoveryResponse> {
    match content {
        Content::Response(bytes) => Some(DiscoveryResponse::decode(bytes.clone()).unwrap()),
        _ => None,
    }
}

/// Returns the names of unwrapped resources. In the types of these tests the name is the first
/// field.
pub(crate) fn names_in(content: &Content) -> Option<Vec<String>> {
    let name = |value: &[u8]| {
        let length = usize::from(value[1]);
        String::from_utf8(value[2..2 + length].to_vec()).unwrap()
    };
    Some(response(content)?.resources.iter().map(|any| name(&any.value)).collect())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
