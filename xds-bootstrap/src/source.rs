//! Where a bootstrap comes from: a file or a text, both named by the environment (A27, BS-01).

use std::{
    env, fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use crate::{
    error::{BootstrapError, ErrorKind},
    grpc::Bootstrap,
    guards::Guards,
    json::MAX_BYTES,
};

/// The variable that names the file of a bootstrap.
pub const BOOTSTRAP_FILE: &str = "GRPC_XDS_BOOTSTRAP";
/// The variable that holds a bootstrap itself.
pub const BOOTSTRAP_TEXT: &str = "GRPC_XDS_BOOTSTRAP_CONFIG";

/// Where a bootstrap comes from.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BootstrapSource {
    /// A file.
    File(PathBuf),
    /// A text.
    Inline(Arc<str>),
}

impl BootstrapSource {
    /// The source that variables name: the file before the text (BS-01). A variable that is set to
    /// nothing is not set. `None` where neither is.
    #[must_use]
    pub fn from_variables(mut variable: impl FnMut(&str) -> Option<String>) -> Option<Self> {
        let mut set = |name| variable(name).filter(|value| !value.is_empty());
        match set(BOOTSTRAP_FILE) {
            Some(path) => Some(Self::File(path.into())),
            None => set(BOOTSTRAP_TEXT).map(|text| Self::Inline(text.into())),
        }
    }

    /// Reads the bootstrap.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the bootstrap is not one (BS-02); the error names the source.
    pub fn load(&self, guards: Guards) -> Result<Bootstrap, BootstrapError> {
        match self {
            Self::File(path) => read_file(path)
                .and_then(|text| Bootstrap::from_json_with(&text, guards))
                .map_err(|why| why.in_source(path.to_string_lossy())),
            Self::Inline(text) => {
                Bootstrap::from_json_with(text, guards).map_err(|why| why.in_source(BOOTSTRAP_TEXT))
            }
        }
    }
}

/// A text may hold secrets, so it is not printed.
impl fmt::Debug for BootstrapSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Inline(text) => write!(f, "Inline({} bytes)", text.len()),
        }
    }
}

impl Bootstrap {
    /// Reads the bootstrap and the guards that variables name.
    ///
    /// # Errors
    ///
    /// No variable names a bootstrap, or what it names is not one.
    pub fn from_variables(
        mut variable: impl FnMut(&str) -> Option<String>,
    ) -> Result<Self, BootstrapError> {
        let source = BootstrapSource::from_variables(&mut variable)
            .ok_or_else(|| BootstrapError::new("", ErrorKind::NotConfigured))?;
        source.load(Guards::from_variables(variable))
    }

    /// Reads the bootstrap and the guards that this process's environment names, now.
    ///
    /// # Errors
    ///
    /// No variable names a bootstrap, or what it names is not one.
    pub fn from_env() -> Result<Self, BootstrapError> {
        Self::from_variables(|name| env::var(name).ok())
    }

    /// The bootstrap of this process: read at the first call and never again, so that a file that
    /// changes does not change a running client, and one that is bad stays bad (BS-27).
    ///
    /// # Errors
    ///
    /// Those of [`Bootstrap::from_env`] at the first call.
    pub fn of_process() -> Result<&'static Self, &'static BootstrapError> {
        static BOOTSTRAP: OnceLock<Result<Bootstrap, BootstrapError>> = OnceLock::new();
        BOOTSTRAP.get_or_init(Self::from_env).as_ref()
    }
}

fn read_file(path: &Path) -> Result<String, BootstrapError> {
    let unreadable =
        |why: io::Error| BootstrapError::new("", ErrorKind::Unreadable(why.to_string().into()));
    let mut text = String::new();
    // One byte more than is taken, so that a longer file is seen to be longer.
    let limit = MAX_BYTES as u64 + 1;
    File::open(path)
        .map_err(unreadable)?
        .take(limit)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text)
}
