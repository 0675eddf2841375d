//! The incremental variant: what is subscribed, what is answered, and what a nonce means.

mod absence;
mod answers;
mod returning;
mod subscriptions;
