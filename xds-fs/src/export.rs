//! Export of the resources of each type to files that xDS clients can subscribe to.

use core::fmt::{self, Write as _};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ResourceName, TypeUrl,
    proto::{Any, DiscoveryResponse, Resource},
    types::{SECRET, by_short_name, short_name},
};
use xds_format::{
    Document, FormatError, PrintOptions, Redaction, Schema, UnknownTypes, has_sensitive_fields,
    message_to_json, parse_with, resource_name, to_json,
};

use crate::{
    access::{Access, create_directory, open_to_others},
    content::OPTIONS,
    files::list,
};

/// Format of the files of an [`Export`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFormat {
    /// Canonical JSON (`.json`). It has no form for an `Any` of a type that the schema lacks, so a
    /// resource with one is [`Unprintable`]. [`Binary`](Self::Binary) has no such limit.
    #[default]
    Json,
    /// Binary protobuf (`.pb`).
    Binary,
}

impl ExportFormat {
    fn suffix(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Binary => "pb",
        }
    }
}

/// Result of [`Export::write`].
#[derive(Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Files that were written.
    pub changed: Vec<PathBuf>,
    /// Resources that could not be written.
    pub unprintable: Vec<Unprintable>,
}

/// Resource that the format of an [`Export`] cannot represent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unprintable {
    /// Type of the resource.
    pub type_url: TypeUrl,
    /// Name of the resource.
    pub name: ResourceName,
    /// Error with the path of the part that cannot be written.
    pub why: FormatError,
    /// State of the file of the resource's type.
    pub file: FileState,
}

/// State of a file that cannot contain all resources of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileState {
    /// The file is unchanged, because it has an older version of a resource that cannot be written.
    Kept,
    /// The file has all resources except those that cannot be written. It did not exist before, or
    /// had none of them.
    WithoutResource,
}

impl fmt::Display for Unprintable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_url, name, why, file } = self;
        let file = match file {
            FileState::Kept => "the file of this type is unchanged",
            FileState::WithoutResource => "the file of this type is written without it",
        };
        write!(f, "the resource `{name}` of type `{type_url}` cannot be exported, {file}: {why}")
    }
}

/// Directory with one file per resource type, which contains all resources of the type as one
/// `DiscoveryResponse`.
///
/// Envoy's filesystem subscriptions and [`FileSubscription`](crate::FileSubscription) can read it.
///
/// - A new file is written under a temporary name, synced to disk, and renamed over the old one.
///   Envoy only notices renames. A reader always gets either the old or the new state as a whole,
///   even after a crash.
/// - Removed resources are absent from the next file. A type that no longer has resources keeps a
///   file with an empty list. Both also hold for files that an earlier process has written.
/// - If the format cannot represent a resource, and the existing file has an older version of it,
///   the file stays unchanged. Otherwise the file is written without the resource. The content of
///   the file decides, so this also holds after a restart.
/// - A file is only written if its content changes. The version depends only on the resources, so
///   it is the same after a restart.
///
/// The file name is the short name of the type, such as `cds.json`. For types without a short name
/// it is the percent-encoded type URL.
///
/// Secrets are written in plain text. On Unix, a file that contains secrets has mode 0600,
/// including an existing file whose content does not change. A file contains secrets if its type is
/// SDS, if a field that the API annotates as sensitive has a value, or if it has an `Any` of a type
/// that the schema lacks. The directory is created with mode 0700, regardless of the umask. An
/// existing directory keeps its mode; see [`open_to_others`](Self::open_to_others).
// M199, M200, M201, M202, M203
#[derive(Debug)]
pub struct Export {
    directory: PathBuf,
    format: ExportFormat,
    schema: &'static Schema,
    /// Resources in the existing files, by type.
    exported: BTreeMap<TypeUrl, InFile>,
}

/// Resources and permissions of a file.
#[derive(Debug)]
struct InFile {
    names: BTreeSet<ResourceName>,
    /// Readers of the file.
    access: Access,
}

impl Export {
    /// Creates the directory with mode 0700, unless it exists, and reads the files of earlier
    /// exports.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created or read.
    pub fn new(
        directory: impl Into<PathBuf>,
        format: ExportFormat,
        schema: &'static Schema,
    ) -> io::Result<Self> {
        let directory = directory.into();
        create_directory(&directory)?;
        let mut export = Self { directory, format, schema, exported: BTreeMap::new() };
        for file in list(&export.directory)? {
            let Ok(content) = &file.content else { continue };
            let path = file.path.to_string_lossy();
            let Ok(document) = parse_with(schema, &path, file.format, content, OPTIONS) else {
                continue;
            };
            let Some(type_url) = document.type_url.as_deref().map(TypeUrl::from) else { continue };
            // Other files in the directory are not part of the export.
            if export.path_of(&type_url) == file.path {
                let in_file = InFile::of(&type_url, &document, schema);
                export.exported.insert(type_url, in_file);
            }
        }
        Ok(export)
    }

    /// Returns the mode of the directory, such as `0o755`, if it gives permissions to others than
    /// the owner. Always `None` on systems without file modes.
    ///
    /// # Errors
    ///
    /// Returns an error if the metadata of the directory cannot be read.
    pub fn open_to_others(&self) -> io::Result<Option<u32>> {
        fs::metadata(&self.directory).map(|metadata| open_to_others(&metadata))
    }

    /// Returns the path of the file for a type.
    #[must_use]
    pub fn path_of(&self, type_url: &TypeUrl) -> PathBuf {
        let stem = match short_name(type_url.as_str()) {
            // Type URLs of version 2 have separate files.
            Some(short) if by_short_name(short) == Some(type_url.as_str()) => short.to_owned(),
            _ => escaped(type_url.as_str()),
        };
        self.directory.join(format!("{stem}.{}", self.format.suffix()))
    }

    /// Exports all resources of a view. Blocks on file I/O.
    ///
    /// A file that cannot be written stays unchanged, and the other files are still written.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be written. The error names the first such file.
    pub fn write<'a>(
        &mut self,
        resources: impl IntoIterator<Item = (&'a TypeUrl, &'a ResourceName, &'a Bytes)>,
    ) -> io::Result<Exported> {
        let mut types: BTreeMap<TypeUrl, Vec<(&ResourceName, Any)>> =
            self.exported.keys().map(|type_url| (type_url.clone(), Vec::new())).collect();
        for (type_url, name, bytes) in resources {
            let resource = self.wrapped(type_url, name, bytes);
            types.entry(type_url.clone()).or_default().push((name, resource));
        }
        let mut exported = Exported::default();
        let mut failed = None;
        for (type_url, mut resources) in types {
            let path = self.path_of(&type_url);
            let mut content = self.content(&type_url, &resources);
            if content.is_err() {
                let unprintable = self.unprintable(&type_url, &resources);
                let is_restricted = unprintable.iter().any(|it| it.file == FileState::Kept);
                let left_out: BTreeSet<_> = unprintable.iter().map(|it| it.name.clone()).collect();
                exported.unprintable.extend(unprintable);
                if is_restricted {
                    if let Some(file) = self.exported.get(&type_url)
                        && let Err(why) = file.access.restrict(&path)
                    {
                        failed.get_or_insert_with(|| about(&path, why));
                    }
                    continue;
                }
                resources.retain(|(name, _)| !left_out.contains(*name));
                content = self.content(&type_url, &resources);
            }
            let put = content.map_err(io::Error::other).and_then(|it| {
                let is_changed = fs::read(&path).map_or(true, |old| old != it);
                let access = match self.exported.get(&type_url) {
                    Some(file) if !is_changed => file.access,
                    _ => {
                        let parts = resources.iter().map(|(_, any)| (&*any.type_url, &any.value));
                        access(&type_url, parts, self.schema)
                    }
                };
                let is_written = is_changed || !access.is_restricted(&path);
                if is_written {
                    put(&path, &it, access)?;
                }
                Ok((is_written, access))
            });
            match put {
                Ok((is_written, access)) => {
                    let names = resources.iter().map(|(name, _)| (*name).clone()).collect();
                    self.exported.insert(type_url, InFile { names, access });
                    exported.changed.extend(is_written.then_some(path));
                }
                Err(why) => {
                    failed.get_or_insert_with(|| about(&path, why));
                }
            }
        }
        failed.map_or(Ok(exported), Err)
    }

    /// Returns the resources that the format cannot represent.
    fn unprintable(
        &self,
        type_url: &TypeUrl,
        resources: &[(&ResourceName, Any)],
    ) -> Vec<Unprintable> {
        let has_file = self.path_of(type_url).is_file();
        let in_file = self.exported.get(type_url).filter(|_| has_file);
        // If the file does not contain the resource, a new file without it deletes nothing.
        let has_older = |name| in_file.is_some_and(|file| file.names.contains(name));
        let mut unprintable = Vec::new();
        let mut file = FileState::WithoutResource;
        for (name, any) in resources {
            let printed = to_json(self.schema, &any.type_url, &any.value, &for_programs());
            let Err(why) = printed else { continue };
            if has_older(*name) {
                file = FileState::Kept;
            }
            let (type_url, name) = (type_url.clone(), (*name).clone());
            unprintable.push(Unprintable { type_url, name, why, file });
        }
        // If one resource keeps the file unchanged, it is unchanged for all of them.
        unprintable.iter_mut().for_each(|it| it.file = file);
        unprintable
    }

    /// Packs a resource into an `Any`, in a wrapper unless its name field has its name.
    fn wrapped(&self, type_url: &TypeUrl, name: &ResourceName, bytes: &Bytes) -> Any {
        let any = Any { type_url: type_url.as_str().into(), value: bytes.clone() };
        let own = resource_name(self.schema, type_url.as_str(), bytes);
        if own.is_ok_and(|own| own == name.as_str()) {
            return any;
        }
        let wrapper =
            Resource { name: name.as_str().into(), resource: Some(any), ..Default::default() };
        Any { type_url: WRAPPER.into(), value: wrapper.encode_to_vec().into() }
    }

    /// Returns the content of the file for a type.
    fn content(
        &self,
        type_url: &TypeUrl,
        resources: &[(&ResourceName, Any)],
    ) -> Result<Vec<u8>, FormatError> {
        let resources = resources.iter().map(|(_, any)| any.clone()).collect();
        let type_url = type_url.as_str().to_owned();
        let mut response = DiscoveryResponse { type_url, resources, ..Default::default() };
        let hash = blake3::hash(&response.encode_to_vec()).to_hex();
        response.version_info = hash.chars().take(16).collect();
        let bytes = response.encode_to_vec();
        if self.format == ExportFormat::Binary {
            return Ok(bytes);
        }
        let mut json = message_to_json(self.schema, RESPONSE, &bytes, &for_programs())?;
        // An empty list would be omitted, but readers need the key `resources` to recognise a
        // response.
        if response.resources.is_empty()
            && let Some(response) = json.as_object_mut()
        {
            response.insert("resources".to_owned(), Vec::<String>::new().into());
        }
        Ok(format!("{json:#}\n").into_bytes())
    }
}

const RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";
const WRAPPER: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";

fn for_programs() -> PrintOptions {
    let options = PrintOptions::default().with_redaction(Redaction::Shown);
    options.with_unknown_types(UnknownTypes::Refused)
}

impl InFile {
    fn of(type_url: &TypeUrl, document: &Document, schema: &Schema) -> Self {
        let parts = document.resources.iter().map(|it| (it.type_url.as_str(), &it.bytes));
        let access = access(type_url, parts, schema);
        let names = document.resources.iter().map(|it| it.name.as_str().into()).collect();
        Self { names, access }
    }
}

/// Returns the readers of a file with these resources, given as type URLs and values.
fn access<'a>(
    type_url: &TypeUrl,
    resources: impl IntoIterator<Item = (&'a str, &'a Bytes)>,
    schema: &Schema,
) -> Access {
    let mut resources = resources.into_iter();
    let is_secret = type_url.as_str() == SECRET
        || resources.any(|(type_url, bytes)| has_sensitive_fields(schema, type_url, bytes));
    if is_secret { Access::Owner } else { Access::ByUmask }
}

/// Encodes a type URL as a file name.
fn escaped(type_url: &str) -> String {
    const USUAL: &str = "type.googleapis.com/";
    let name = type_url.strip_prefix(USUAL).unwrap_or(type_url);
    let mut file = String::with_capacity(name.len());
    for byte in name.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        // A leading dot would hide the file.
        match is_plain || (byte == b'.' && !file.is_empty()) {
            true => file.push(byte.into()),
            // Writing to a string does not fail.
            false => drop(write!(file, "%{byte:02X}")),
        }
    }
    file
}

/// Replaces a file atomically and durably.
fn put(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    // Hidden, so that it is not read as a resource file. One left by a crash may have another mode.
    let new = directory.join(format!(".{}.new", name.to_string_lossy()));
    let _ = fs::remove_file(&new);
    let written = access.create(&new).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    if let Err(why) = written.and_then(|()| fs::rename(&new, path)) {
        let _ = fs::remove_file(&new);
        return Err(why);
    }
    // Some file systems cannot sync a directory. The file is complete anyway.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

fn about(path: &Path, why: io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_file_names_escape_type_urls() {
        assert_eq!(escaped("type.googleapis.com/a.B"), "a.B");
        assert_eq!(escaped("other.example/a.B"), "other.example%2Fa.B");
        assert_eq!(escaped("../../etc/passwd"), "%2E.%2F..%2Fetc%2Fpasswd");
        assert_eq!(escaped("a%2Fb"), "a%252Fb");
    }
}
