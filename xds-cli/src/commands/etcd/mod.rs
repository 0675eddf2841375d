//! `xds apply`, `xds pull` and `xds register`: the resources in etcd.

mod apply;
mod pull;
mod register;

use std::{fs, net::IpAddr, path::Path};

use xds_bootstrap::TlsFiles;
use xds_etcd::{EtcdClient, EtcdError, EtcdOptions, EtcdRollouts};
use xds_tokio::{Tokio, credentials::Credentials};

pub(crate) use self::{
    apply::{apply, values_of},
    pull::pull,
    register::register,
};
use crate::{
    args::{EtcdAddress, EtcdArgs, SourceAddress},
    failure::Failure,
    process_name::process_name,
    tls_advice::TlsOptions,
};

/// Creates the client of a cluster, which connects when it is used.
pub(crate) fn client(address: &EtcdAddress, args: &EtcdArgs) -> Result<EtcdClient, Failure> {
    let is_encrypted = args.etcd_ca.is_some() || args.etcd_cert.is_some();
    if args.etcd_user.is_some() && !is_encrypted {
        let exposed = address.members.iter().find(|member| !is_local(member));
        if let Some(member) = exposed {
            return Err(Failure::Usage(format!(
                "--etcd-user: the password would be sent to {member} without encryption: give --etcd-ca"
            )));
        }
    }
    let mut options = EtcdOptions::new(&address.members).with_credentials(credentials(args));
    if let (Some(name), Some(file)) = (&args.etcd_user, &args.etcd_password_file) {
        options = options.with_user(name, password(file)?);
    }
    EtcdClient::new(Tokio, options).map_err(|why| Failure::Usage(format!("etcd: {why}")))
}

/// Whether a member, `host:port`, is on this machine.
fn is_local(member: &str) -> bool {
    let host = member.rsplit_once(':').map_or(member, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

/// Returns the state of rollouts below the prefix of an address.
pub(crate) fn rollouts(client: &EtcdClient, address: &EtcdAddress) -> EtcdRollouts {
    EtcdRollouts::new(client.clone(), &address.prefix, &process_name())
}

/// Returns the address in etcd; other sources cannot be written.
fn etcd_address(address: &SourceAddress) -> Result<&EtcdAddress, Failure> {
    match address {
        SourceAddress::Etcd(address) => Ok(address),
        SourceAddress::Directory(_) | SourceAddress::Kube => Err(Failure::Usage(format!(
            "{}: expected an address of etcd, such as etcd://127.0.0.1:2379/xds",
            address.place().display()
        ))),
    }
}

/// Returns the failure of a request to the cluster.
fn failed(address: &SourceAddress, why: &EtcdError) -> Failure {
    let address = address.place().display().to_string();
    match why {
        EtcdError::Denied(why) => Failure::Denied { address, why: why.clone() },
        why if why.is_of_member() => {
            Failure::Unreached { address, why: TlsOptions::Etcd.named_in(&why.to_string()) }
        }
        why => Failure::Request { address, why: why.to_string() },
    }
}

fn credentials(args: &EtcdArgs) -> Credentials {
    if args.etcd_ca.is_none() && args.etcd_cert.is_none() {
        return Credentials::default();
    }
    let mut files = TlsFiles::default();
    if let Some(file) = &args.etcd_ca {
        files = files.with_ca_certificate(file);
    }
    if let (Some(certificate), Some(key)) = (&args.etcd_cert, &args.etcd_key) {
        files = files.with_identity(certificate, key);
    }
    Credentials::tls(files)
}

fn password(file: &Path) -> Result<String, Failure> {
    let unreadable = |why| Failure::Unreadable { file: file.to_owned(), why };
    let text = fs::read_to_string(file).map_err(unreadable)?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}
