//! Addresses: of a management server, as clients dial it, and of a server's listeners.

mod fault;
mod listen;
mod target;

pub(crate) use self::target::{Endpoint, Scheme, Target, without_credentials};
pub use self::{
    fault::AddressFault,
    listen::{BoundAddress, ListenAddress, UnixSocket},
    target::{InvalidAddress, check_address},
};
