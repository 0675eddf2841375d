//! RBAC: access rules for the requests to a server ([gRFC A41]).
//!
//! [`HttpFilter::effective`](super::HttpFilter::effective) returns the rules that apply to the route
//! of a request, and [`Rbac::decide`] applies them. Each [RBAC filter](Rbac) of a listener decides
//! separately, in the order of the filters. All must allow the request.
//!
//! [gRFC A41]: https://github.com/grpc/proposal/blob/master/A41-xds-rbac.md

mod common;
mod condition;
mod permission;
mod policy;
mod principal;
mod request;
mod validate;

pub(crate) use self::validate::{validate_rbac, validate_rbac_override};
pub use self::{
    condition::AccessCondition,
    policy::{AccessDenied, AccessPolicy, Rbac},
    request::RbacRequest,
};
