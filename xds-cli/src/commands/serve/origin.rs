//! The source to serve, from the arguments.

use std::sync::Arc;

use xds_source::{DirectorySource, RolloutStore, Subdirectories};

#[cfg(feature = "kube")]
use crate::commands::kube;
use crate::{
    args::{ServeArgs, SourceAddress},
    directory::SourceReader,
    failure::Failure,
};

/// Source, and the connection to its cluster.
pub(super) struct OpenedSource {
    pub(super) reader: SourceReader,
    /// Cluster to which rejections by clients are written, if they are.
    #[cfg(any(feature = "etcd", feature = "kube"))]
    pub(super) feedback: Option<FeedbackTarget>,
    /// Place of the state of rollouts in the source.
    rollouts: Option<Arc<dyn RolloutStore>>,
}

impl OpenedSource {
    /// Returns the place of the state of rollouts in the source; `None` if it has none.
    pub(super) fn rollouts(&self) -> Option<Arc<dyn RolloutStore>> {
        self.rollouts.clone()
    }
}

/// Cluster to which rejections by clients are written.
#[cfg(any(feature = "etcd", feature = "kube"))]
pub(super) enum FeedbackTarget {
    #[cfg(feature = "etcd")]
    Etcd(xds_etcd::EtcdClient, String),
    #[cfg(feature = "kube")]
    Kube(xds_kube::KubeSource),
}

impl From<SourceReader> for OpenedSource {
    fn from(reader: SourceReader) -> Self {
        Self {
            reader,
            #[cfg(any(feature = "etcd", feature = "kube"))]
            feedback: None,
            rollouts: None,
        }
    }
}

/// Opens the source. Nothing is read yet, except files with credentials.
pub(super) async fn open_source(args: &ServeArgs) -> Result<OpenedSource, Failure> {
    match &args.source {
        SourceAddress::Directory(directory) => {
            DirectorySource::watch(directory, subdirectories(args))
                .map(|source| reader(source, args).into())
                .map_err(|why| Failure::Directory { directory: directory.clone(), why })
        }
        #[cfg(feature = "etcd")]
        SourceAddress::Etcd(address) => {
            let client = crate::commands::etcd::client(address, &args.etcd)?;
            let source = xds_etcd::EtcdSource::new(client.clone(), &address.prefix);
            let reader = reader(source, args);
            let rollouts = Arc::new(crate::commands::etcd::rollouts(&client, address));
            let target = FeedbackTarget::Etcd(client, address.prefix.clone());
            let feedback = args.report_rejections.then_some(target);
            Ok(OpenedSource { reader, feedback, rollouts: Some(rollouts) })
        }
        #[cfg(not(feature = "etcd"))]
        SourceAddress::Etcd(_) => Err(Failure::Usage(
            "this build has no support for etcd: build it with --features etcd".to_owned(),
        )),
        #[cfg(feature = "kube")]
        SourceAddress::Kube => {
            let client = kube::client(&args.kube).await?;
            let source = xds_kube::KubeSource::new(client.clone());
            let reader = reader(source.clone(), args);
            let rollouts = Arc::new(kube::rollouts(&client, &args.kube.cluster));
            let is_written = !args.kube.kube_read_only;
            let feedback = is_written.then_some(FeedbackTarget::Kube(source));
            let rollouts = is_written.then_some(rollouts as Arc<dyn RolloutStore>);
            Ok(OpenedSource { reader, feedback, rollouts })
        }
        #[cfg(not(feature = "kube"))]
        SourceAddress::Kube => Err(Failure::Usage(
            "this build has no support for Kubernetes: cargo install --path xds-cli --features kube \
             builds one that has"
                .to_owned(),
        )),
    }
}

/// Returns the meaning of the subdirectories of a directory.
pub(super) fn subdirectories(args: &ServeArgs) -> Subdirectories {
    match args.views {
        Some(_) => Subdirectories::Views,
        None => Subdirectories::Ignored,
    }
}

fn reader(source: impl xds_source::Source, args: &ServeArgs) -> SourceReader {
    SourceReader::new(source, args.source.place())
}
