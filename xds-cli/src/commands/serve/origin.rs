//! The source to serve, from the arguments.

#[cfg(feature = "etcd")]
use std::hash::{BuildHasher as _, RandomState};

use crate::{
    args::{ServeArgs, SourceAddress},
    directory::SourceReader,
    failure::Failure,
};

/// Opens the source. Nothing is read yet, except files with credentials.
pub(super) fn origin(args: &ServeArgs) -> Result<SourceReader, Failure> {
    match &args.source {
        SourceAddress::Directory(directory) => SourceReader::directory(directory)
            .map_err(|why| Failure::Directory { directory: directory.clone(), why }),
        #[cfg(feature = "etcd")]
        SourceAddress::Etcd(address) => {
            let client = crate::commands::etcd::client(address, &args.etcd)?;
            let source = xds_etcd::EtcdSource::new(client, &address.prefix);
            let place = args.source.place().to_string_lossy().into_owned();
            let seed = RandomState::new().hash_one(0);
            Ok(SourceReader::Etcd(Box::new(crate::directory::Remote::new(source, place, seed))))
        }
        #[cfg(not(feature = "etcd"))]
        SourceAddress::Etcd(_) => Err(Failure::Usage(
            "this build has no support for etcd: build it with --features etcd".to_owned(),
        )),
    }
}
