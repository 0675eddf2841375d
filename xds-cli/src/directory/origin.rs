//! Source that is followed: reading it, and waiting for its changes.

use std::{
    io,
    path::{Path, PathBuf},
};

use xds_source::Revision;
use xds_tokio::ServerHandle;

#[cfg(any(feature = "etcd", feature = "kube"))]
use super::remote::Remote;
use super::{
    files::{Directory, Subdirectories},
    sources::Update,
};

/// Source that is followed.
#[derive(Debug)]
pub(crate) enum SourceReader {
    Directory(Directory),
    #[cfg(feature = "etcd")]
    Etcd(Box<Remote<xds_etcd::EtcdSource>>),
    #[cfg(feature = "kube")]
    Kube(Box<Remote<xds_kube::KubeSource>>),
}

impl SourceReader {
    /// Starts watching a directory, without reading it.
    pub(crate) fn directory(path: &Path, subdirectories: Subdirectories) -> io::Result<Self> {
        Directory::watch(path, subdirectories).map(Self::Directory)
    }

    /// Returns the name of the source in messages.
    pub(super) fn place(&self) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.path().to_owned(),
            #[cfg(feature = "etcd")]
            Self::Etcd(remote) => remote.place().into(),
            #[cfg(feature = "kube")]
            Self::Kube(remote) => remote.place().into(),
        }
    }

    /// Returns the revision up to which the source was read; `None` if it has no revisions that other
    /// servers share.
    pub(super) fn revision(&self) -> Option<Revision> {
        match self {
            Self::Directory(_) => None,
            #[cfg(feature = "etcd")]
            Self::Etcd(remote) => remote.revision(),
            #[cfg(feature = "kube")]
            Self::Kube(remote) => remote.revision(),
        }
    }

    /// Whether the last call to the source has succeeded.
    pub(super) fn is_reachable(&self) -> bool {
        match self {
            Self::Directory(_) => true,
            #[cfg(feature = "etcd")]
            Self::Etcd(remote) => remote.is_reachable(),
            #[cfg(feature = "kube")]
            Self::Kube(remote) => remote.is_reachable(),
        }
    }

    /// Begins to answer the server's requests for a confirmation of the source.
    pub(super) fn confirm_for(&mut self, server: &ServerHandle) {
        match self {
            Self::Directory(_) => {
                let _ = server;
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(remote) => remote.confirm_for(server.clone()),
            #[cfg(feature = "kube")]
            Self::Kube(remote) => remote.confirm_for(server.clone()),
        }
    }

    /// Reads the source for the first time. Changes of a directory since its watch started are
    /// included.
    pub(super) async fn first(&mut self) -> io::Result<Update> {
        match self {
            Self::Directory(directory) => directory.read().await,
            #[cfg(feature = "etcd")]
            Self::Etcd(remote) => remote.next().await,
            #[cfg(feature = "kube")]
            Self::Kube(remote) => remote.next().await,
        }
    }

    /// Waits for the next change, or for a failure to report. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<Update> {
        match self {
            Self::Directory(directory) => directory.next().await,
            #[cfg(feature = "etcd")]
            Self::Etcd(remote) => remote.next().await,
            #[cfg(feature = "kube")]
            Self::Kube(remote) => remote.next().await,
        }
    }
}
