//! What there is of each type, as files from which clients subscribe.

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

/// What the files of an [`Export`] are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportFormat {
    /// Canonical JSON (`.json`), which people can read. It has no form for an `Any` of a type that the schema lacks:
    /// a resource with one is [`Unprintable`]. [`Binary`](Self::Binary) has.
    #[default]
    Json,
    /// Protobuf (`.pb`).
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

/// What [`Export::write`] did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The files that were written.
    pub changed: Vec<PathBuf>,
    /// The resources that could not be written.
    pub unprintable: Vec<Unprintable>,
}

/// A resource that the format of an [`Export`] has no form for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprintable {
    /// The type of the resource.
    pub type_url: TypeUrl,
    /// The name of the resource.
    pub name: ResourceName,
    /// The part of the resource that cannot be written, and why.
    pub why: FormatError,
    /// What became of the file of the type.
    pub file: FileState,
}

/// What became of a file that cannot have all resources of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The file has an older state of a resource that cannot be written now: it stays as it was.
    Kept,
    /// The file has all other resources. There was no file, or the resource was not in it.
    WithoutIt,
}

impl fmt::Display for Unprintable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_url, name, why, file } = self;
        let file = match file {
            FileState::Kept => "the file of its type stays as it was",
            FileState::WithoutIt => "the file of its type is written without it",
        };
        write!(f, "the resource `{name}` of type `{type_url}` cannot be exported, {file}: {why}")
    }
}

/// A directory in which each resource type has a file: all there is of it, as one `DiscoveryResponse` (M199). It is
/// what a proxy's filesystem subscription reads, and [`FileSubscription`](crate::FileSubscription).
///
/// - A file is written beside its place, brought to the disk and renamed over the old one, for proxies take
///   notice of nothing else (M200). Whoever reads at any moment, also after a crash, has all of the old state or all of
///   the new one (M203).
/// - What is no longer there is not in the next file (M201); a type of which nothing is left keeps a file that says
///   so. That holds for files from before this process, too.
/// - A resource that the format has no form for keeps the file of its type as it was, if the file has an older state of
///   the resource. Otherwise the file is written without the resource, until the resource can be written. Both hold after
///   a restart, too: what counts is what is in the file.
/// - Where nothing has changed, nothing is written (M202). The version is made of the resources alone, so that it is
///   the same after a restart (M203).
///
/// Files are called by the short name of the type, as in `cds.json`; other types by their type URL, in which what
/// stands in the way is escaped as in URIs.
///
/// Secrets are written as they are. On Unix, only the owner can read a file (mode 0600) if it holds a secret: the type
/// is SDS, or a field has a value that the API marks as sensitive. An `Any` of a type that the schema lacks counts as a
/// secret, because nobody can tell what is in it. A file that stays as it was gets mode 0600 as well if it holds a secret.
/// The directory is created with mode 0700, whatever the umask. A directory that exists keeps its mode; see [`open_to_others`](Self::open_to_others).
#[derive(Debug)]
pub struct Export {
    directory: PathBuf,
    format: ExportFormat,
    schema: &'static Schema,
    /// What is in the file of each type that has one.
    exported: BTreeMap<TypeUrl, InFile>,
}

/// What is in a file.
#[derive(Debug)]
struct InFile {
    names: BTreeSet<ResourceName>,
    /// Who may read it.
    access: Access,
}

impl Export {
    /// Creates the directory, with mode 0700, if there is none, and looks for what was exported to it before.
    ///
    /// # Errors
    ///
    /// The directory cannot be created or read.
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
            // What else lies there is not ours.
            if export.path_of(&type_url) == file.path {
                let in_file = InFile::of(&type_url, &document, schema);
                export.exported.insert(type_url, in_file);
            }
        }
        Ok(export)
    }

    /// The mode of the directory, as in `0o755`, if others than its owner may list, enter or change it. Always `None`
    /// where files have no modes.
    ///
    /// # Errors
    ///
    /// The directory cannot be looked at.
    pub fn open_to_others(&self) -> io::Result<Option<u32>> {
        fs::metadata(&self.directory).map(|metadata| open_to_others(&metadata))
    }

    /// Where the resources of a type are exported to.
    #[must_use]
    pub fn path_of(&self, type_url: &TypeUrl) -> PathBuf {
        let stem = match short_name(type_url.as_str()) {
            // The names of version 2 have files of their own.
            Some(short) if by_short_name(short) == Some(type_url.as_str()) => short.to_owned(),
            _ => escaped(type_url.as_str()),
        };
        self.directory.join(format!("{stem}.{}", self.format.suffix()))
    }

    /// Exports all resources of a view. A file that cannot be written stays as it was and keeps no other from being
    /// written.
    ///
    /// This reads and writes, and so blocks.
    ///
    /// # Errors
    ///
    /// A file cannot be written; the error names the first such file.
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
                let is_kept = unprintable.iter().any(|it| it.file == FileState::Kept);
                let left_out: BTreeSet<_> = unprintable.iter().map(|it| it.name.clone()).collect();
                exported.unprintable.extend(unprintable);
                if is_kept {
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
                let is_written = is_changed || !access.is_kept(&path);
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

    /// The resources that the format has no form for.
    fn unprintable(
        &self,
        type_url: &TypeUrl,
        resources: &[(&ResourceName, Any)],
    ) -> Vec<Unprintable> {
        let has_file = self.path_of(type_url).is_file();
        let in_file = self.exported.get(type_url).filter(|_| has_file);
        // One that the file does not have is not lost by the next file without it.
        let has_older = |name| in_file.is_some_and(|file| file.names.contains(name));
        let mut unprintable = Vec::new();
        let mut file = FileState::WithoutIt;
        for (name, any) in resources {
            let printed = to_json(self.schema, &any.type_url, &any.value, &for_programs());
            let Err(why) = printed else { continue };
            if has_older(*name) {
                file = FileState::Kept;
            }
            let (type_url, name) = (type_url.clone(), (*name).clone());
            unprintable.push(Unprintable { type_url, name, why, file });
        }
        // One of them keeps the file for all of them.
        unprintable.iter_mut().for_each(|it| it.file = file);
        unprintable
    }

    /// One whose bytes do not say its name goes with a wrapper that does.
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

    /// The file of a type.
    fn content(
        &self,
        type_url: &TypeUrl,
        resources: &[(&ResourceName, Any)],
    ) -> Result<Vec<u8>, FormatError> {
        let resources = resources.iter().map(|(_, any)| any.clone()).collect();
        let type_url = type_url.as_str().to_owned();
        let mut response = DiscoveryResponse { type_url, resources, ..Default::default() };
        let hash = blake3::hash(&response.encode_to_vec()).to_hex();
        response.version_info = hash[..16].to_owned();
        let bytes = response.encode_to_vec();
        if self.format == ExportFormat::Binary {
            return Ok(bytes);
        }
        let mut json = message_to_json(self.schema, RESPONSE, &bytes, &for_programs())?;
        // An empty list would be left out, by which readers tell what the file is.
        if response.resources.is_empty() {
            json["resources"] = Vec::<String>::new().into();
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

/// Who may read a file with these resources, each a type URL and a value.
fn access<'a>(
    type_url: &TypeUrl,
    resources: impl IntoIterator<Item = (&'a str, &'a Bytes)>,
    schema: &Schema,
) -> Access {
    let mut resources = resources.into_iter();
    let is_secret = type_url.as_str() == SECRET
        || resources.any(|(type_url, bytes)| has_sensitive_fields(schema, type_url, bytes));
    if is_secret { Access::Owner } else { Access::Usual }
}

/// A type URL as the name of a file.
fn escaped(type_url: &str) -> String {
    const USUAL: &str = "type.googleapis.com/";
    let name = type_url.strip_prefix(USUAL).unwrap_or(type_url);
    let mut file = String::with_capacity(name.len());
    for byte in name.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        // A file whose name begins with a dot is hidden.
        match is_plain || (byte == b'.' && !file.is_empty()) {
            true => file.push(byte.into()),
            // Writing to a string does not fail.
            false => drop(write!(file, "%{byte:02X}")),
        }
    }
    file
}

/// Has the file have this content, whole, at once and for good.
fn put(path: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    // Hidden, so that nobody takes it for a file of resources. One that a crash left behind may be open to others.
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
    // Not every file system lets a directory be synchronised; the file is whole all the same.
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
    fn no_type_has_a_file_elsewhere_or_a_hidden_one() {
        assert_eq!(escaped("type.googleapis.com/a.B"), "a.B");
        assert_eq!(escaped("other.example/a.B"), "other.example%2Fa.B");
        assert_eq!(escaped("../../etc/passwd"), "%2E.%2F..%2Fetc%2Fpasswd");
        assert_eq!(escaped("a%2Fb"), "a%252Fb");
    }
}
