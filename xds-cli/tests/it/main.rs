//! Integration tests of `xds-cli`, in one binary because that builds faster.

mod budgets;
mod check;
mod check_bootstrap;
mod check_reports;
mod compat;
mod convert;
mod csds;
mod demo;
#[cfg(feature = "etcd")]
mod denied_etcd;
#[cfg(feature = "etcd")]
mod etcd;
mod export;
mod file_changes;
mod findings;
mod get;
mod guards;
mod load;
mod metrics;
mod proxy_bootstrap;
mod readiness;
mod reloads;
mod replicas;
mod rollouts;
mod route;
mod secured;
mod serve;
mod serve_transports;
mod service;
#[cfg(feature = "etcd")]
mod shared_rollouts;
mod signals;
mod sim;
mod status;
mod support;
mod unread_output;
mod usage;
mod views;
mod watch;
