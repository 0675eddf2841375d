//! Configuration of a gRPC server by xDS ([gRFC A36]): filter chains, routes and access rules.
//!
//! [gRFC A36]: https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md

pub use crate::connection::{ClientIdentity, Connection, ConnectionSecurity};
