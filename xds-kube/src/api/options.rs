//! Choice of a cluster and of its objects.

use std::{path::PathBuf, time::Duration};

use kube_client::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::error::KubeError;

/// Cluster to connect to, and objects to read.
///
/// If neither a kubeconfig nor a context is set, the files in the environment variable
/// `KUBECONFIG`, or otherwise `~/.kube/config`, are used. If these do not exist, the service
/// account of the Pod is used.
#[derive(Clone, Debug, Default)]
pub struct KubeOptions {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) selector: Option<String>,
}

impl KubeOptions {
    /// Uses the kubeconfig in this file.
    #[must_use]
    pub fn with_kubeconfig(mut self, file: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(file.into());
        self
    }

    /// Uses this context of the kubeconfig instead of its current one.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// Reads these namespaces only. By default, all namespaces are read.
    #[must_use]
    pub fn with_namespaces<N: Into<String>>(
        mut self,
        namespaces: impl IntoIterator<Item = N>,
    ) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self.namespaces.sort();
        self.namespaces.dedup();
        self
    }

    /// Reads only objects that match a [label selector]. It applies to `ConfigMaps`, Services and
    /// `EndpointSlices`. Kubernetes copies the labels of a Service to its `EndpointSlices`.
    ///
    /// [label selector]: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
    #[must_use]
    pub fn with_selector(mut self, selector: impl Into<String>) -> Self {
        self.selector = Some(selector.into());
        self
    }

    pub(super) async fn config(&self) -> Result<Config, KubeError> {
        let options = KubeConfigOptions { context: self.context.clone(), ..Default::default() };
        let mut config = match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file).map_err(KubeError::configuration)?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(KubeError::configuration)?
            }
            None if self.context.is_some() => {
                Config::from_kubeconfig(&options).await.map_err(KubeError::configuration)?
            }
            None => Config::infer().await.map_err(KubeError::configuration)?,
        };
        // The server ends each watch earlier, so a connection that is silent for this long is lost.
        config.read_timeout = Some(READ_TIMEOUT);
        config.reset_reader_on_write = true;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // `xds_source::Follower` decides when to try again.
        config.default_retry = false;
        Ok(config)
    }
}

/// Duration of a watch, in seconds. The server ends it then, after a bookmark.
pub(super) const WATCH_SECONDS: u32 = 60;
const READ_TIMEOUT: Duration = Duration::from_secs(75);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
