//! Permissions of exported files and directories, on systems that have them.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind},
    path::Path,
};

/// Readers of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only the owner: mode 0600.
    Owner,
    /// All users that the umask of the process allows.
    ByUmask,
}

/// Mode of a directory that only its owner can enter.
#[cfg(unix)]
const OWN_DIRECTORY: u32 = 0o700;
/// Mode of a file that only its owner can read.
#[cfg(unix)]
const OWN_FILE: u32 = 0o600;
/// Mode bits of the group and of all others.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

impl Access {
    /// Creates a file that must not exist yet. It has the right mode from the beginning, and for
    /// [`Owner`](Self::Owner) the mode does not depend on the umask.
    pub(crate) fn create(self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        match self {
            Self::ByUmask => options.open(path),
            #[cfg(unix)]
            Self::Owner => {
                use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

                let file = options.mode(OWN_FILE).open(path)?;
                // The umask may have removed a permission that the owner needs.
                file.set_permissions(fs::Permissions::from_mode(OWN_FILE))?;
                Ok(file)
            }
            #[cfg(not(unix))]
            Self::Owner => options.open(path),
        }
    }

    /// Whether the mode of the file gives access to nobody besides these readers.
    pub(crate) fn is_restricted(self, path: &Path) -> bool {
        self == Self::ByUmask || fs::metadata(path).is_ok_and(|it| open_to_others(&it).is_none())
    }

    /// Removes the permissions of everybody besides these readers.
    pub(crate) fn restrict(self, path: &Path) -> io::Result<()> {
        if self.is_restricted(path) {
            return Ok(());
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;

            fs::set_permissions(path, fs::Permissions::from_mode(OWN_FILE))?;
        }
        Ok(())
    }
}

/// Creates a directory that only its owner can enter, unless it exists.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::create_dir_all(above)?;
    }
    match create_own(path) {
        // Another process created it meanwhile.
        Err(why) if why.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        created => created,
    }
}

#[cfg(unix)]
fn create_own(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

    DirBuilder::new().mode(OWN_DIRECTORY).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(OWN_DIRECTORY))
}

#[cfg(not(unix))]
fn create_own(path: &Path) -> io::Result<()> {
    DirBuilder::new().create(path)
}

/// Returns the mode if it gives any permission to others than the owner.
#[cfg(unix)]
pub(crate) fn open_to_others(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = metadata.permissions().mode() & 0o7777;
    (mode & OTHERS != 0).then_some(mode)
}

#[cfg(not(unix))]
pub(crate) fn open_to_others(_: &fs::Metadata) -> Option<u32> {
    None
}
