//! Arguments of commands that use etcd.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::{
    Args,
    builder::{OsStringValueParser, TypedValueParser},
};
use thiserror::Error;
use xds_core::guards::ChangeId;
use xds_source::FORCE_FILE;

use crate::text::shell_word;

/// Credentials of the connection to etcd.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection to etcd")]
pub(crate) struct EtcdArgs {
    /// Connect over TLS, and trust the certificate authorities in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_ca: Option<PathBuf>,

    /// Present the certificate chain in this PEM file.
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    pub(crate) etcd_cert: Option<PathBuf>,

    /// Private key of --etcd-cert, in a PEM file.
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    pub(crate) etcd_key: Option<PathBuf>,

    /// Authenticate as this user.
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    pub(crate) etcd_user: Option<String>,

    /// File with the password of --etcd-user. A line feed at its end is ignored.
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    pub(crate) etcd_password_file: Option<PathBuf>,
}

/// Source of the resources to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceAddress {
    Directory(PathBuf),
    Etcd(EtcdAddress),
    /// Kubernetes. The cluster is selected by separate options.
    Kube,
}

/// Members of an etcd cluster, and the prefix of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdAddress {
    pub(crate) members: Vec<String>,
    pub(crate) prefix: String,
}

/// Prefix of keys if the address has none.
const DEFAULT_PREFIX: &str = "/xds";

#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum InvalidAddress {
    #[error("the address is empty: name a directory, etcd://HOST:PORT/PREFIX or kube://")]
    Empty,
    #[error(
        "expected kube:// and nothing behind it: the options --kubeconfig, --kube-context and \
         --kube-namespace select the cluster and its namespaces"
    )]
    BehindKube,
}

impl FromStr for SourceAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        if text.is_empty() {
            return Err(InvalidAddress::Empty);
        }
        if let Some(rest) = text.strip_prefix("kube://") {
            return if rest.is_empty() { Ok(Self::Kube) } else { Err(InvalidAddress::BehindKube) };
        }
        let Some(rest) = text.strip_prefix("etcd://") else {
            return Ok(Self::Directory(text.into()));
        };
        let (members, prefix) = match rest.split_once('/') {
            Some((members, prefix)) if !prefix.trim_matches('/').is_empty() => {
                (members, format!("/{}", prefix.trim_end_matches('/')))
            }
            Some((members, _)) => (members, DEFAULT_PREFIX.to_owned()),
            None => (rest, DEFAULT_PREFIX.to_owned()),
        };
        let members = members.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
        Ok(Self::Etcd(EtcdAddress { members, prefix }))
    }
}

impl SourceAddress {
    /// Parses an argument. A directory may have any name.
    pub(crate) fn parse(argument: OsString) -> Result<Self, InvalidAddress> {
        match argument.to_str() {
            Some(text) => text.parse(),
            None => Ok(Self::Directory(argument.into())),
        }
    }

    /// Returns a parser of arguments.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(Self::parse)
    }

    /// Returns the name of the source in messages.
    pub(crate) fn place(&self) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.clone(),
            Self::Etcd(EtcdAddress { members, prefix }) => {
                format!("etcd://{}{prefix}", members.join(",")).into()
            }
            Self::Kube => "kube://".into(),
        }
    }

    /// Returns the word for one object of the source, and for several.
    pub(crate) const fn words(&self) -> [&'static str; 2] {
        match self {
            Self::Directory(_) => ["file", "files"],
            Self::Etcd(_) => ["key", "keys"],
            Self::Kube => ["object", "objects"],
        }
    }

    /// Returns a shell command that forces a refused change.
    pub(crate) fn force(&self, change: ChangeId) -> String {
        match self {
            Self::Directory(directory) => {
                let file = directory.join(FORCE_FILE).display().to_string();
                format!("echo {change} >> {}", shell_word(&file))
            }
            Self::Etcd(EtcdAddress { prefix, .. }) => {
                let key = format!("{}/@force", prefix.trim_end_matches('/'));
                format!("etcdctl put {} {change}", shell_word(&key))
            }
            Self::Kube => format!(
                "kubectl annotate --overwrite configmap NAME xds-force={change}, for any ConfigMap \
                 with resources"
            ),
        }
    }

    /// Returns the directory, if it is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(directory) => Some(directory),
            Self::Etcd(_) | Self::Kube => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> SourceAddress {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_of_etcd_have_members_and_a_prefix() {
        let etcd = |members: &[&str], prefix: &str| {
            let members = members.iter().map(|&it| it.to_owned()).collect();
            SourceAddress::Etcd(EtcdAddress { members, prefix: prefix.to_owned() })
        };
        assert_eq!(parse("etcd://a:1,b:2/mesh/prod/"), etcd(&["a:1", "b:2"], "/mesh/prod"));
        assert_eq!(parse("etcd://a:1"), etcd(&["a:1"], "/xds"));
        assert_eq!(parse("etcd://a:1/"), etcd(&["a:1"], "/xds"));
        assert_eq!(parse("config"), SourceAddress::Directory("config".into()));
        assert_eq!(parse("etcd://a:1/x").place(), PathBuf::from("etcd://a:1/x"));
    }

    #[test]
    fn address_of_kubernetes_has_nothing_behind_it() {
        assert_eq!(parse("kube://"), SourceAddress::Kube);
        assert_eq!(parse("kube://").place(), PathBuf::from("kube://"));
        assert_eq!("kube://prod".parse::<SourceAddress>(), Err(InvalidAddress::BehindKube));
    }
}
