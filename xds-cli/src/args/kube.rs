//! Arguments of `xds serve kube://`.

use std::path::PathBuf;

use clap::Args;

/// Choice of a cluster, and of the objects that are read.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct KubeArgs {
    #[command(flatten)]
    pub(crate) cluster: KubeClusterArgs,

    /// Read the objects in this namespace only. May be given several times.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) kube_namespace: Vec<String>,

    /// Read only objects whose labels match this selector, such as team=payments.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) kube_selector: Option<String>,

    /// Write nothing to the cluster. By default, rejections by clients become Events on the objects
    /// and an annotation.
    #[arg(long)]
    pub(crate) kube_read_only: bool,
}

/// Choice of a cluster, and of the objects with the state of rollouts.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct KubeClusterArgs {
    /// Use this kubeconfig.
    ///
    /// By default the files in KUBECONFIG or ~/.kube/config are used, and without them the service
    /// account of the Pod in which the process runs.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Use this context of the kubeconfig instead of its current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) kube_context: Option<String>,

    /// Keep the state of rollouts in a Lease with this name and in ConfigMaps beside it.
    ///
    /// By default, it is xds-rollout in the namespace of the service account or of the context of the
    /// kubeconfig. Servers with the same one share their rollouts.
    #[arg(long, value_name = "[NAMESPACE/]NAME", default_value = "xds-rollout")]
    pub(crate) kube_rollouts: String,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::{Cli, Command, SourceAddress};

    #[test]
    fn deployment_has_a_valid_command_line() {
        let manifest = include_str!("../../../deploy/kubernetes/server.yaml");
        let args = manifest.lines().find_map(|line| line.trim().strip_prefix("args: ["));
        let args = args.and_then(|line| line.strip_suffix(']')).unwrap().split(',');
        let args = args.map(|it| it.trim().trim_matches('"'));
        let cli = Cli::try_parse_from(["xds"].into_iter().chain(args)).unwrap();
        let Command::Serve(args) = cli.command else { panic!("another command") };
        assert_eq!((args.source, args.listen.as_str()), (SourceAddress::Kube, ":18000"));
        assert!(!args.kube.kube_read_only);
    }
}
