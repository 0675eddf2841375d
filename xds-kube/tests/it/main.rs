//! Tests with a real API server. `XDS_KUBE_APISERVER` and `XDS_ETCD` name the binaries:
//! `XDS_KUBE_APISERVER=kube-apiserver XDS_ETCD=etcd cargo test -p xds-kube -- --include-ignored`.

mod cluster;
mod feedback;
mod manifests;
mod objects;
mod permissions;
mod proxy;
mod rollouts;
mod scale;
mod source;
mod watching;
