//! Messages of etcd v3. `cargo xtask gen` generates `generated/` from `proto/etcd/`.

#[rustfmt::skip]
#[allow(
    missing_docs,
    unnameable_types,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::use_self,
    clippy::pedantic
)]
mod generated;

pub(crate) use self::generated::{etcdserverpb::*, mvccpb};
