//! Sans-IO protocol cores for both ends of xDS; so far the messages of the transport.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;

pub mod proto;
