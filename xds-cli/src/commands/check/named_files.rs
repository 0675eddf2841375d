//! Files that a bootstrap names: certificates, keys, tokens and other data.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;
use xds_bootstrap::{CallCredentials, IdentityFiles, TlsFiles};
use xds_tokio::{
    Credentials,
    credentials::{CredentialsError, ServerCredentials},
};

use super::bootstrap_file::read_bounded;

/// Contents that a named file must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    Roots,
    /// Certificate chain, and the field and file of its private key.
    Certificate {
        key_field: String,
        key: PathBuf,
    },
    Token,
    /// Any contents.
    Data,
    Directory,
}

/// File that a field names.
#[derive(Clone, Debug)]
pub(super) struct NamedFile {
    pub(super) field: String,
    pub(super) path: PathBuf,
    pub(super) contents: Contents,
}

impl NamedFile {
    /// Returns the fault of the file with the field that names it, if there is a fault.
    pub(super) async fn fault(&self) -> Option<(String, String)> {
        let here = |why: String| Some((self.field.clone(), why));
        match &self.contents {
            Contents::Data => read_bounded(&self.path).err().and_then(|why| {
                here(advice(&self.path, &format!("cannot read {}: {why}", self.path.display())))
            }),
            Contents::Directory => match fs::metadata(&self.path) {
                Ok(it) if it.is_dir() => None,
                Ok(_) => here(format!("{} is not a directory", self.path.display())),
                Err(why) => {
                    here(advice(&self.path, &format!("cannot read {}: {why}", self.path.display())))
                }
            },
            Contents::Roots => {
                let files = TlsFiles::default().with_ca_certificate(&self.path);
                let why = Credentials::tls(files).check().await.err()?;
                here(advice(&self.path, &why.to_string()))
            }
            Contents::Token => {
                let token = CallCredentials::JwtTokenFile(self.path.clone());
                let credentials = Credentials::tls(TlsFiles::default());
                match credentials.with_call_credentials(&token).check().await {
                    // Without root certificates only reading can be checked.
                    Ok(()) | Err(CredentialsError::NoSystemRoots(_)) => {
                        let why = read_bounded(&self.path).err()?;
                        here(advice(
                            &self.path,
                            &format!("cannot read {}: {why}", self.path.display()),
                        ))
                    }
                    Err(why) => here(advice(&self.path, &why.to_string())),
                }
            }
            Contents::Certificate { key_field, key } => {
                let files =
                    IdentityFiles { certificate: self.path.clone(), private_key: key.clone() };
                let why = ServerCredentials::tls(files).check().await.err()?;
                // One path may be named by both fields.
                let is_key = matches!(why, CredentialsError::NoPrivateKey { .. })
                    || (why.path() == Some(key) && *key != self.path);
                let (field, path) =
                    if is_key { (key_field, key) } else { (&self.field, &self.path) };
                Some((field.clone(), advice(path, &why.to_string())))
            }
        }
    }
}

/// Adds what a reader may not expect of relative paths.
fn advice(path: &Path, why: &str) -> String {
    match path.is_relative() && why.starts_with("cannot read") {
        true => format!("{why}; a relative path starts at the working directory"),
        false => why.to_owned(),
    }
}

/// Value in a JSON document.
#[derive(Clone, Debug)]
pub(super) struct Found<'j> {
    /// Path from the top.
    pub(super) path: String,
    /// Name of the field in snake case.
    pub(super) key: String,
    pub(super) value: &'j Json,
}

/// Calls `visit` for each object of a document, with the objects around it, innermost last. The
/// parser of the document bounds the depth.
pub(super) fn walk<'j>(value: &'j Json, visit: &mut dyn FnMut(&Found<'j>, &[Found<'j>])) {
    let top = Found { path: String::new(), key: String::new(), value };
    descend(top, &mut Vec::new(), visit);
}

fn descend<'j>(
    found: Found<'j>,
    around: &mut Vec<Found<'j>>,
    visit: &mut dyn FnMut(&Found<'j>, &[Found<'j>]),
) {
    match found.value {
        Json::Object(members) => {
            visit(&found, around);
            let path = found.path.clone();
            around.push(found);
            for (key, value) in members {
                let inner = Found { path: field(&path, key), key: snake_case(key), value };
                descend(inner, around, visit);
            }
            around.pop();
        }
        Json::Array(elements) => {
            for (at, value) in elements.iter().enumerate() {
                let path = format!("{}[{at}]", found.path);
                descend(Found { path, key: found.key.clone(), value }, around, visit);
            }
        }
        _ => {}
    }
}

impl<'j> Found<'j> {
    /// Returns a member of the object by its name in snake case, with its path.
    pub(super) fn get(&self, name: &str) -> Option<(String, &'j Json)> {
        let members = self.value.as_object()?;
        let (key, value) = members.iter().find(|(key, _)| snake_case(key) == name)?;
        Some((field(&self.path, key), value))
    }

    /// Returns a member that is a string, and not empty.
    pub(super) fn text(&self, name: &str) -> Option<(String, &'j str)> {
        let (path, value) = self.get(name)?;
        Some((path, value.as_str().filter(|it| !it.is_empty())?))
    }

    /// Returns a member that is an object.
    pub(super) fn object(&self, name: &str) -> Option<Self> {
        let (path, value) = self.get(name)?;
        value.is_object().then(|| Self { path, key: name.to_owned(), value })
    }
}

/// Returns the path of a field of an object.
pub(super) fn field(path: &str, key: &str) -> String {
    let is_plain =
        !key.is_empty() && key.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    match (path, is_plain) {
        ("", true) => key.to_owned(),
        (_, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

fn snake_case(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for character in key.chars() {
        if character.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}
