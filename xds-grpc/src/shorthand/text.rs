//! Parts of the shorthand: peer-controlled text, lists, type names.

use core::fmt::{self, Write as _};

use xds_core::{proto, types};

use super::Names;

/// Number of list items shown for [`Names::Few`].
const MAX_FEW_NAMES: usize = 5;

/// Display of peer-controlled text for log lines: control characters are escaped and long text is
/// truncated.
pub(crate) struct Printable<'a>(pub(crate) &'a str);

/// Display of an error text for log lines, like [`Printable`]. It is truncated later, because it
/// may list several addresses and end with advice.
pub(crate) struct PrintableReason<'a>(pub(crate) &'a str);

const MAX_PRINTED_CHARS: usize = 256;
const MAX_REASON_CHARS: usize = 2_048;

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, self.0, MAX_PRINTED_CHARS)
    }
}

impl fmt::Display for PrintableReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, self.0, MAX_REASON_CHARS)
    }
}

fn print(f: &mut fmt::Formatter<'_>, text: &str, max_chars: usize) -> fmt::Result {
    for (at, character) in text.chars().enumerate() {
        if at == max_chars {
            return write!(f, "..{} bytes", text.len());
        }
        if character.is_control() {
            write!(f, "{}", character.escape_default())?;
        } else {
            f.write_char(character)?;
        }
    }
    Ok(())
}

/// Returns the name of a type for logs: a short name such as `cds`, or the message name.
pub(crate) fn type_name(type_url: &str) -> &str {
    types::short_name(type_url).unwrap_or_else(|| type_url.rsplit('/').next().unwrap_or(type_url))
}

/// Writes the end of a request.
pub(super) fn end(f: &mut fmt::Formatter<'_>, nonce: &str, type_url: &str) -> fmt::Result {
    write!(f, ",N={},T={})", Printable(nonce), Printable(type_name(type_url)))
}

/// Writes the end of a response, with the control plane's identifier if there is one.
// B12
pub(super) fn end_of_response(
    f: &mut fmt::Formatter<'_>,
    nonce: &str,
    type_url: &str,
    control_plane: Option<&proto::ControlPlane>,
) -> fmt::Result {
    write!(f, ",N={},T={}", Printable(nonce), Printable(type_name(type_url)))?;
    match control_plane {
        Some(control_plane) if !control_plane.identifier.is_empty() => {
            write!(f, ",C={})", Printable(&control_plane.identifier))
        }
        _ => f.write_char(')'),
    }
}

pub(super) fn list<T>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    names: Names,
    item: impl Fn(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    let items = items.into_iter();
    let count = items.len();
    let shown = match names {
        Names::Few => count.min(MAX_FEW_NAMES),
        Names::All => count,
    };
    f.write_char('[')?;
    for (at, one) in items.take(shown).enumerate() {
        if at > 0 {
            f.write_char(' ')?;
        }
        item(f, one)?;
    }
    if shown < count {
        write!(f, " ..{count}")?;
    }
    f.write_char(']')
}
