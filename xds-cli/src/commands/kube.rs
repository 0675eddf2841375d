//! Connection to Kubernetes, from the arguments.

use xds_kube::{KubeClient, KubeOptions, KubeRollouts};

use crate::{
    args::{KubeArgs, KubeClusterArgs},
    failure::Failure,
    process_name::process_name,
};

/// Creates the client for the objects that are served.
pub(crate) async fn client(args: &KubeArgs) -> Result<KubeClient, Failure> {
    let mut options = options(&args.cluster).with_namespaces(&args.kube_namespace);
    if let Some(selector) = &args.kube_selector {
        options = options.with_selector(selector);
    }
    connect(options).await
}

/// Creates the client for the state of rollouts alone.
pub(crate) async fn cluster_client(args: &KubeClusterArgs) -> Result<KubeClient, Failure> {
    connect(options(args)).await
}

fn options(args: &KubeClusterArgs) -> KubeOptions {
    let mut options = KubeOptions::default();
    if let Some(file) = &args.kubeconfig {
        options = options.with_kubeconfig(file);
    }
    if let Some(context) = &args.kube_context {
        options = options.with_context(context);
    }
    options
}

async fn connect(options: KubeOptions) -> Result<KubeClient, Failure> {
    let client = KubeClient::new(options).await;
    client.map_err(|why| Failure::Usage(format!("kube://: {why}")))
}

/// Returns the state of rollouts in the cluster.
pub(crate) fn rollouts(client: &KubeClient, args: &KubeClusterArgs) -> KubeRollouts {
    let (namespace, name) = match args.kube_rollouts.split_once('/') {
        Some((namespace, name)) => (namespace, name),
        None => (client.default_namespace(), &*args.kube_rollouts),
    };
    KubeRollouts::new(client.clone(), namespace, name, &process_name())
}
