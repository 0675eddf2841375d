#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]
//! A folder of a test's own, and somebody who waits for what a subscription brings.

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

/// How long anything may take. Nothing here takes a second on a machine that is not busy.
pub const LONGEST: Duration = Duration::from_secs(30);

/// A folder that goes with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("xds-fs-{}-{name}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Saves in place.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Puts another file in the place of one.
    pub fn replace(&self, name: &str, text: impl AsRef<[u8]>) {
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

/// Clusters of these names, as a file has them.
pub fn clusters(names: &[&str]) -> String {
    let mut text = "version_info: v\nresources:\n".to_owned();
    for name in names {
        text += &format!("- {{'@type': {}, name: {name}}}\n", types::CLUSTER);
    }
    text
}

/// A policy that nothing is read by but what was noticed.
pub fn noticing() -> FilePolicy {
    let mut policy = FilePolicy::default();
    policy.look_anyway = Duration::from_secs(3600);
    policy
}

/// Somebody who wants to know what a file says of a type.
pub struct Reader(pub FileSubscription);

impl Reader {
    pub fn of(path: &Path, type_url: &str, policy: FilePolicy) -> Self {
        let mut reader = Self::unasked(path, type_url, policy);
        reader.0.read();
        reader
    }

    /// The same before anything was asked for.
    pub fn unasked(path: &Path, type_url: &str, policy: FilePolicy) -> Self {
        let (path, type_url) = (path.to_str().unwrap(), TypeUrl::from(type_url));
        Self(FileSubscription::new(path, type_url, policy, Schema::envoy()))
    }

    pub fn of_clusters(path: &Path) -> Self {
        Self::of(path, types::CLUSTER, noticing())
    }

    /// What comes next.
    pub fn next(&mut self) -> Content {
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

    /// The first that is such. What is read in the middle of a change may come before.
    pub fn wait_for<T>(&mut self, is_it: impl Fn(&Content) -> Option<T>) -> T {
        let deadline = Instant::now() + LONGEST;
        loop {
            let content = self.next();
            match is_it(&content) {
                Some(it) => return it,
                None => assert!(Instant::now() < deadline, "only {content:?} came"),
            }
        }
    }

    /// Waits for a response with resources of these names.
    pub fn wait_for_names(&mut self, names: &[&str]) {
        self.wait_for(|content| (names_in(content)? == names).then_some(()));
    }

    /// Waits until the file cannot be read, and returns why.
    pub fn wait_for_trouble(&mut self) -> String {
        self.wait_for(|content| match content {
            Content::Unreadable(why) => Some(why.to_string()),
            _ => None,
        })
    }
}

pub fn response(content: &Content) -> Option<DiscoveryResponse> {
    match content {
        Content::Response(bytes) => Some(DiscoveryResponse::decode(bytes.clone()).unwrap()),
        _ => None,
    }
}

/// The names of plain resources; by chance the name is the first field of all types in these tests.
pub fn names_in(content: &Content) -> Option<Vec<String>> {
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
