//! Session affinity by cookies ([gRFC A55], [gRFC A60]).
//!
//! The cookie of a session contains the addresses of the endpoint that serves the session, and the
//! name of its cluster. The [router](crate::router) reads it from the request
//! ([`Decision::session`](crate::router::Decision::session)), the
//! [picker](crate::balancer::Picker::pick_for) prefers the endpoint, and
//! [`Session::set_cookie`] returns the header for the response if another endpoint was picked.
//!
//! [gRFC A55]:
//!     https://github.com/grpc/proposal/blob/master/A55-xds-stateful-session-affinity.md
//! [gRFC A60]:
//!     https://github.com/grpc/proposal/blob/master/A60-xds-stateful-session-affinity-weighted-clusters.md
// B39a

mod cookie;
mod session;
mod validate;

pub(crate) use self::validate::{validate_session, validate_session_override};
pub use self::{
    cookie::{SessionCookie, StatefulSession},
    session::Session,
};
