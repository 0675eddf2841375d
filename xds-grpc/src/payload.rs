//! Printing of resource contents in logs.

use core::fmt;
use std::sync::Arc;

/// Prints resources in logs at the level TRACE.
///
/// Resources may contain secrets, so the default printer, [`SizesOnly`], prints only sizes. A
/// custom printer must omit secrets itself.
pub trait PayloadPrinter: Send + Sync {
    /// Prints one resource. `resource` is the encoded message of type `type_url`.
    ///
    /// # Errors
    ///
    /// Returns errors of `out` only. Print bytes that do not decode in some raw form. A panic is
    /// caught and noted in the log.
    fn print(&self, type_url: &str, resource: &[u8], out: &mut dyn fmt::Write) -> fmt::Result;
}

/// Printer that prints only the size of a resource in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SizesOnly;

impl PayloadPrinter for SizesOnly {
    fn print(&self, _type_url: &str, resource: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} bytes", resource.len())
    }
}

/// Payload printer of a client or server.
#[derive(Clone)]
pub(crate) struct Printer(pub(crate) Arc<dyn PayloadPrinter>);

impl Default for Printer {
    fn default() -> Self {
        Self(Arc::new(SizesOnly))
    }
}

impl fmt::Debug for Printer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PayloadPrinter")
    }
}
