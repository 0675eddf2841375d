//! The source to serve, from the arguments.

#[cfg(feature = "etcd")]
use std::hash::{BuildHasher as _, RandomState};

use crate::{
    args::{ServeArgs, SourceAddress},
    directory::Origin,
    failure::Failure,
};

/// Opens the source. Nothing is read yet, except files with credentials.
pub(super) fn origin(args: &ServeArgs) -> Result<Origin, Failure> {
    match &args.source {
        SourceAddress::Directory(directory) => Origin::directory(directory)
            .map_err(|why| Failure::Directory { directory: directory.clone(), why }),
        #[cfg(feature = "etcd")]
        SourceAddress::Etcd(address) => {
            let client = etcd::client(address, &args.etcd)?;
            let source = xds_etcd::EtcdSource::new(client, &address.prefix);
            let place = args.source.place().to_string_lossy().into_owned();
            let seed = RandomState::new().hash_one(0);
            Ok(Origin::Etcd(Box::new(crate::directory::Remote::new(source, place, seed))))
        }
        #[cfg(not(feature = "etcd"))]
        SourceAddress::Etcd(_) => Err(Failure::Usage(
            "this build has no support for etcd: build it with --features etcd".to_owned(),
        )),
    }
}

#[cfg(feature = "etcd")]
mod etcd {
    use std::{fs, path::Path};

    use xds_bootstrap::TlsFiles;
    use xds_etcd::{EtcdClient, EtcdOptions};
    use xds_tokio::{Tokio, credentials::Credentials};

    use crate::{
        args::{EtcdAddress, EtcdArgs},
        failure::Failure,
    };

    /// Creates the client of a cluster, which connects when it is used.
    pub(super) fn client(address: &EtcdAddress, args: &EtcdArgs) -> Result<EtcdClient, Failure> {
        let mut options = EtcdOptions::new(&address.members).with_credentials(credentials(args));
        if let (Some(name), Some(file)) = (&args.etcd_user, &args.etcd_password_file) {
            options = options.with_user(name, password(file)?);
        }
        EtcdClient::new(Tokio, options).map_err(|why| Failure::Usage(format!("etcd: {why}")))
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
}
