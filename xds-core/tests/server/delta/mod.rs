//! The incremental variant: subscriptions, answers and nonces.

mod absence;
mod nonces_and_nacks;
mod reconnects;
mod subscriptions;
