//! Tests that need more than one crate:
//!
//! - `scripts.rs` runs the protocol scripts in `scripts/`.
//! - `calls.rs` tests calls between outputs, which a script cannot express.
//! - The programs in the README and in the book are documentation tests of this crate.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Pages of the book.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../docs/book/src/quick-start.md")]
    struct QuickStart;
    #[doc = include_str!("../../docs/book/src/watch.md")]
    struct Watch;
    #[doc = include_str!("../../docs/book/src/serve.md")]
    struct Serve;
    #[doc = include_str!("../../docs/book/src/rest.md")]
    struct Rest;
    #[doc = include_str!("../../docs/book/src/guards.md")]
    struct Guards;
    #[doc = include_str!("../../docs/book/src/rollouts.md")]
    struct Rollouts;
    #[doc = include_str!("../../docs/book/src/channel.md")]
    struct Channel;
    #[doc = include_str!("../../docs/book/src/grpc-server.md")]
    struct GrpcServer;
    #[doc = include_str!("../../docs/book/src/simulate.md")]
    struct Simulate;
    #[doc = include_str!("../../docs/book/src/embed.md")]
    struct Embed;
    #[doc = include_str!("../../docs/book/src/operate.md")]
    struct Operate;
}
