//! Input of a conversion.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use xds_format::Format;

use crate::{
    args::ConvertFormat,
    bounded::{MOST_INPUT, read_at_most},
    failure::Failure,
    text::escaped,
};

/// Content of a file or of standard input.
#[derive(Debug)]
pub(super) struct Input {
    /// Name for errors.
    pub(super) name: String,
    pub(super) format: Format,
    pub(super) content: Vec<u8>,
}

impl Input {
    pub(super) fn read(path: &Path, from: Option<ConvertFormat>) -> Result<Self, Failure> {
        let unreadable = |file: PathBuf| move |why| Failure::Unreadable { file, why };
        if path == Path::new("-") {
            let missing = "the format of standard input is missing: use --from yaml, json, textproto or \
                           binary";
            let format = from.ok_or_else(|| Failure::Usage(missing.to_owned()))?.into();
            let name = "<stdin>";
            let content =
                read_at_most(io::stdin().lock(), MOST_INPUT).map_err(unreadable(name.into()))?;
            return Ok(Self { name: name.to_owned(), format, content });
        }
        // Read first: that a file is missing matters more than its suffix.
        let content = File::open(path)
            .and_then(|file| read_at_most(file, MOST_INPUT))
            .map_err(unreadable(path.to_owned()))?;
        let format = match from {
            Some(format) => format.into(),
            None => Format::from_path(path)
                .map_err(|why| Failure::Usage(format!("{why}; or state the format with --from")))?,
        };
        Ok(Self { name: escaped(&path.display().to_string()), format, content })
    }
}
