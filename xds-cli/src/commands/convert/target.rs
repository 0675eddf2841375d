//! Output file of a conversion.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    process,
};

use xds_core::types::SECRET;
use xds_format::{TypedMessage, has_sensitive_fields};

use crate::schema::schema;

/// Writes a file. A regular file is replaced at once, so readers get the old or the new content.
///
/// On Unix, a file with secrets has mode 0600: one of its messages is a secret, or has a value in a
/// field that the API marks as sensitive, or an `Any` of an unknown type. Another file keeps the
/// mode of the file that it replaces.
pub(super) fn write(path: &Path, content: &[u8], messages: &[TypedMessage]) -> io::Result<()> {
    // Follows a symbolic link, which would be replaced otherwise.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = fs::metadata(&path).ok();
    if old.as_ref().is_some_and(|it| !it.is_file()) {
        // A device or a pipe. For a directory this fails.
        return OpenOptions::new().write(true).open(&path)?.write_all(content);
    }
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidFilename.into()) };
    // Hidden, so that a server of the directory does not read it.
    let new = path.with_file_name(format!(".{}.{}.new", name.to_string_lossy(), process::id()));
    let is_secret = messages.iter().any(is_secret);
    let written = create(&new, is_secret).and_then(|mut file| {
        if let Some(old) = old.filter(|_| !is_secret) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(content)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&new, &path)).inspect_err(|_| {
        // The error of the write is the one to report.
        let _ = fs::remove_file(&new);
    })
}

fn is_secret(message: &TypedMessage) -> bool {
    message.type_url == SECRET || has_sensitive_fields(schema(), &message.type_url, &message.bytes)
}

/// Creates a file that must not exist. One with secrets has its mode from the beginning.
#[cfg(unix)]
fn create(path: &Path, is_secret: bool) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

    const OWNER_ONLY: u32 = 0o600;

    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if !is_secret {
        return options.open(path);
    }
    let file = options.mode(OWNER_ONLY).open(path)?;
    // The umask may have removed a permission that the owner needs.
    file.set_permissions(fs::Permissions::from_mode(OWNER_ONLY))?;
    Ok(file)
}

#[cfg(not(unix))]
fn create(path: &Path, _is_secret: bool) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}
