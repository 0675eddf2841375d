//! What logs say about the content of resources.

use core::fmt;
use std::sync::Arc;

/// Prints resources in logs at the level TRACE.
///
/// Resources hold secrets, so by default only their sizes are printed. An application that wants to
/// see more gives its own printer, which also has to leave out what must not be seen.
pub trait PayloadPrinter: Send + Sync {
    /// Prints one resource: the message that `type_url` names, in its binary encoding.
    ///
    /// # Errors
    ///
    /// Only those of `out`. Bytes that do not decode are to be printed as such. A panic is told in the log.
    fn print(&self, type_url: &str, resource: &[u8], out: &mut dyn fmt::Write) -> fmt::Result;
}

/// Prints how long resources are, and nothing of what is in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct SizesOnly;

impl PayloadPrinter for SizesOnly {
    fn print(&self, _type_url: &str, resource: &[u8], out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{} bytes", resource.len())
    }
}

/// The printer of a client or server.
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
