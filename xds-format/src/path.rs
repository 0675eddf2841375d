//! Paths of values in error messages, and the names and values that errors quote.

use core::fmt;

/// Placeholder for a hidden value.
pub const REDACTED: &str = "[redacted]";

/// Path of a value, as a linked list on the stack: it costs nothing unless an error prints it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'p> {
    /// Top of the file or message.
    Root,
    /// A part of a file, given by its path.
    Raw(&'p str),
    /// A field of a message.
    Field(&'p Self, &'p str),
    /// An element of a list.
    Index(&'p Self, usize),
    /// A value of a map.
    Key(&'p Self, &'p str),
    /// A value whose content may be secret, by its path.
    Private(&'p Self),
}

impl Path<'_> {
    /// Whether this is the top of the file or message.
    fn is_top(&self) -> bool {
        match self {
            Self::Root | Self::Raw("") => true,
            Self::Private(inner) => inner.is_top(),
            _ => false,
        }
    }

    /// Whether errors must not quote the content of this value.
    pub(crate) fn is_private(&self) -> bool {
        match self {
            Self::Root | Self::Raw(_) => false,
            Self::Private(_) => true,
            Self::Field(parent, _) | Self::Index(parent, _) | Self::Key(parent, _) => {
                parent.is_private()
            }
        }
    }

    /// Returns a text in this value for an error message: shortened, or [`REDACTED`].
    pub(crate) fn quote(&self, text: &str) -> String {
        if self.is_private() { REDACTED.to_owned() } else { abbreviate(text) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Raw(path) => f.write_str(path),
            Self::Field(parent, name) if parent.is_top() => {
                write!(f, "{parent}{}", abbreviate(name))
            }
            Self::Field(parent, name) => write!(f, "{parent}.{}", abbreviate(name)),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => write!(f, "{parent}[{:?}]", parent.quote(key)),
            Self::Private(inner) => inner.fmt(f),
        }
    }
}

/// Shortens a name or value from the input, which may be megabytes long, for an error message.
pub(crate) fn abbreviate(text: &str) -> String {
    const SHOWN: usize = 120;
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((end, _)) => {
            format!("{}... ({} bytes)", text.get(..end).unwrap_or_default(), text.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_use_field_and_index_notation() {
        let resources = Path::Field(&Path::Root, "resources");
        let third = Path::Index(&resources, 3);
        let metadata = Path::Field(&third, "filter_metadata");
        assert_eq!(
            Path::Key(&metadata, "envoy.lb").to_string(),
            r#"resources[3].filter_metadata["envoy.lb"]"#
        );
        assert_eq!(Path::Field(&Path::Index(&Path::Root, 0), "name").to_string(), "[0].name");
    }

    #[test]
    fn long_names_are_abbreviated() {
        let name = "ä".repeat(1 << 20);
        assert_eq!(abbreviate(&name), format!("{}... (2097152 bytes)", "ä".repeat(120)));
    }

    #[test]
    fn content_of_a_private_value_is_not_quoted() {
        let secrets = Path::Field(&Path::Root, "secrets");
        let private = Path::Private(&secrets);
        let entry = Path::Key(&private, "hunter2");
        assert_eq!(entry.to_string(), r#"secrets["[redacted]"]"#);
        assert_eq!((entry.quote("x"), secrets.quote("x")), ("[redacted]".into(), "x".into()));
        let top = Path::Private(&Path::Root);
        assert_eq!(Path::Field(&top, "name").to_string(), "name");
    }
}
