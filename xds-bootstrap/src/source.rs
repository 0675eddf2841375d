//! Sources of a bootstrap: a file or a text, given by environment variables.
// A27, BS-01

use std::{
    env, fmt,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use crate::{
    error::{BootstrapError, ErrorKind},
    feature_switches::FeatureSwitches,
    grpc::Bootstrap,
    json::MAX_BYTES,
};

/// Environment variable with the path of a bootstrap file.
pub const BOOTSTRAP_FILE: &str = "GRPC_XDS_BOOTSTRAP";
/// Environment variable with the text of a bootstrap.
pub const BOOTSTRAP_TEXT: &str = "GRPC_XDS_BOOTSTRAP_CONFIG";

/// Source of a bootstrap.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BootstrapSource {
    /// Path of a file.
    File(PathBuf),
    /// Text of the bootstrap.
    Inline(Arc<str>),
}

impl BootstrapSource {
    /// Returns the source that the variables configure: the file if its variable is set, otherwise
    /// the text; `None` if neither is set. An empty variable counts as not set.
    // BS-01
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
    /// Returns an error if the file cannot be read or the bootstrap is invalid. The error names the
    /// source.
    // BS-02
    pub fn load(&self, switches: FeatureSwitches) -> Result<Bootstrap, BootstrapError> {
        match self {
            Self::File(path) => read_file(path)
                .and_then(|text| Bootstrap::from_json_with(&text, switches))
                .map_err(|why| why.in_source(path.to_string_lossy())),
            Self::Inline(text) => Bootstrap::from_json_with(text, switches)
                .map_err(|why| why.in_source(BOOTSTRAP_TEXT)),
        }
    }
}

/// Prints only the length of a text, because it may contain secrets.
impl fmt::Debug for BootstrapSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Inline(text) => write!(f, "Inline({} bytes)", text.len()),
        }
    }
}

impl Bootstrap {
    /// Reads the bootstrap that the variables configure, with the switches that they set.
    ///
    /// # Errors
    ///
    /// Returns an error if no variable gives a bootstrap, or the bootstrap is invalid.
    pub fn from_variables(
        mut variable: impl FnMut(&str) -> Option<String>,
    ) -> Result<Self, BootstrapError> {
        let source = BootstrapSource::from_variables(&mut variable)
            .ok_or_else(|| BootstrapError::new("", ErrorKind::NotConfigured))?;
        let loaded = source.load(FeatureSwitches::from_variables(variable));
        loaded.map_err(|why| match source {
            BootstrapSource::File(_) => why.named_by(BOOTSTRAP_FILE),
            BootstrapSource::Inline(_) => why,
        })
    }

    /// Reads the bootstrap that the environment variables of the process configure, with the
    /// switches that they set.
    ///
    /// # Errors
    ///
    /// Returns an error if no variable gives a bootstrap, or the bootstrap is invalid.
    pub fn from_env() -> Result<Self, BootstrapError> {
        Self::from_variables(|name| env::var(name).ok())
    }

    /// Returns the bootstrap of this process.
    ///
    /// Only the first call reads it. Later changes of the file have no effect, and after an error,
    /// every later call returns the same error.
    // BS-27
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Bootstrap::from_env`] at the first call.
    pub fn of_process() -> Result<&'static Self, &'static BootstrapError> {
        static BOOTSTRAP: OnceLock<Result<Bootstrap, BootstrapError>> = OnceLock::new();
        BOOTSTRAP.get_or_init(Self::from_env).as_ref()
    }
}

fn read_file(path: &Path) -> Result<String, BootstrapError> {
    let unreadable =
        |why: io::Error| BootstrapError::new("", ErrorKind::Unreadable(why.to_string().into()));
    let mut text = String::new();
    // One byte more than the limit, to detect a longer file.
    let limit = MAX_BYTES as u64 + 1;
    File::open(path)
        .map_err(unreadable)?
        .take(limit)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok(text)
}
