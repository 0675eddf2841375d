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
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = namespace)]
    pub(crate) kube_namespace: Vec<String>,

    /// Read only objects whose labels match this selector, such as team=payments.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) kube_selector: Option<String>,

    /// Write nothing to the cluster. By default, rejections by clients become Events on the objects
    /// and an annotation.
    #[arg(long)]
    pub(crate) kube_read_only: bool,
}

/// Parses the name of a namespace (a label of RFC 1123).
fn namespace(text: &str) -> Result<String, String> {
    let is_allowed = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    let is_name = !text.is_empty()
        && text.len() <= 63
        && text.chars().all(is_allowed)
        && !text.starts_with('-')
        && !text.ends_with('-');
    match is_name {
        true => Ok(text.to_owned()),
        false => {
            Err("a namespace has at most 63 lower-case letters, digits and hyphens".to_owned())
        }
    }
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
    fn names_that_no_namespace_can_have_are_refused() {
        let parse = |list: &str| {
            let args = ["xds", "serve", "kube://", "--listen", ":0", "--kube-namespace", list];
            Cli::try_parse_from(args).map(|_| ()).map_err(|why| why.to_string())
        };
        assert_eq!(parse("shop,team-2"), Ok(()));
        for list in ["Shop", "shop,", "shop, payments", "a_b", "a-", &"a".repeat(64)] {
            let why = parse(list).unwrap_err();
            assert!(why.contains("lower-case letters, digits and hyphens"), "{list}: {why}");
        }
    }

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
