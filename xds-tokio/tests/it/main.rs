//! Integration tests of `xds-tokio`, in one binary because that builds faster.

mod admission;
mod budgets;
mod client;
mod combinations;
mod connect;
mod csds;
mod ends;
mod events;
mod fallback;
mod handle;
mod happy_eyeballs;
mod health;
mod hostile;
mod logs;
mod loopback;
mod panics;
mod rest_logs;
mod rollouts;
mod server;
mod server_csds;
mod server_shutdown;
mod services;
mod sources;
mod support;
mod tls;
mod tokens;
