//! Memory that clients can make a server use: budgets of a server and of a connection.
//!
//! | file | content |
//! |---|---|
//! | `budgets.rs` | the budgets of a server, and those of a connection |
//! | `requests.rs` | memory of incomplete requests |
//! | `responses.rs` | memory of responses that are not read |
//! | `response_waits.rs` | streams that wait for memory for a response |
//! | `eviction.rs` | connections that must release memory |
//! | `transport_stats.rs` | counters of connections and budgets |

pub(crate) mod budgets;
mod eviction;
pub(crate) mod requests;
pub(crate) mod response_waits;
pub(crate) mod responses;
pub(crate) mod transport_stats;
