//! The schema: which messages exist, what their fields are, which fields are secret, and what messages were called
//! before.

mod annotations;
mod extra;

pub(crate) use extra::{TYPED_STRUCT, is_added};

use core::fmt;
#[cfg(feature = "envoy")]
use std::sync::OnceLock;

use prost_reflect::{DescriptorPool, MessageDescriptor};

use self::annotations::Annotations;
use crate::error::{ErrorKind, FormatError, abbreviate};
use crate::suggest;
use crate::wire;

/// The full name of the message that every file boils down to.
pub(crate) const DISCOVERY_RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";
/// The full name of the wrapper that gives a resource a name, a version and a TTL.
pub(crate) const RESOURCE_WRAPPER: &str = "envoy.service.discovery.v3.Resource";

/// `FileDescriptorSet.file`; `FileDescriptorProto.name` and `.syntax`.
const SET_FILE: u32 = 1;
const FILE_NAME: u32 = 1;
const FILE_SYNTAX: u32 = 12;

/// A set of message types that files may hold.
///
/// Most programs use [`Schema::envoy`]. Extensions of one's own come in through
/// [`Schema::with_descriptor_set`], from `protoc --include_imports --descriptor_set_out=FILE` or
/// `buf build -o FILE`. Cheap to share by reference, costly to make: keep one.
#[derive(Clone)]
pub struct Schema {
    pool: DescriptorPool,
    annotations: Annotations,
}

impl Schema {
    /// The full Envoy v3 API, embedded in the program and decoded on first use (tens of
    /// milliseconds, once).
    ///
    /// # Panics
    ///
    /// Never with a descriptor set that the build has found by itself. A broken file given through
    /// `XDS_ENVOY_DESCRIPTORS` at build time shows here, on every first call.
    #[cfg(feature = "envoy")]
    #[must_use]
    pub fn envoy() -> &'static Self {
        static ENVOY: OnceLock<Schema> = OnceLock::new();
        ENVOY.get_or_init(|| {
            Self::from_descriptor_set(include_bytes!(concat!(env!("OUT_DIR"), "/envoy.bin")))
                .expect("the embedded Envoy descriptor set is valid")
        })
    }

    /// The messages of an encoded `google.protobuf.FileDescriptorSet`, imports included.
    ///
    /// `xds.type.v3.TypedStruct` and `udpa.type.v1.TypedStruct` are added when the set lacks them
    /// and has `google/protobuf/struct.proto`: configurations use them, generated sets tend to
    /// leave them out.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Descriptors`] when the bytes are no descriptor set or refer to files that are
    /// not in it.
    pub fn from_descriptor_set(set: &[u8]) -> Result<Self, FormatError> {
        Self { pool: DescriptorPool::new(), annotations: Annotations::default() }
            .with_descriptor_set(set)
    }

    /// This schema and the messages of another encoded `FileDescriptorSet`. Files that are known
    /// already, by name, stay as they are, so that a set may well repeat its imports.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Descriptors`] when the bytes are no descriptor set, refer to files that are
    /// neither in it nor known, or define a message again that a file of another name defines
    /// already.
    pub fn with_descriptor_set(&self, set: &[u8]) -> Result<Self, FormatError> {
        let Self { mut pool, mut annotations } = self.clone();
        let new = new_files(&pool, set)?;
        pool.decode_file_descriptor_set(new.as_slice()).map_err(|e| descriptor_error(&e))?;
        extra::add_missing(&mut pool).map_err(|e| descriptor_error(&e))?;
        annotations.collect(&new).map_err(|e| descriptor_error(&e))?;
        Ok(Self { pool, annotations })
    }

    /// The descriptors, for callers that reflect on their own.
    #[must_use]
    pub fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// The message of this full name, such as `envoy.config.cluster.v3.Cluster`.
    #[must_use]
    pub fn message(&self, full_name: &str) -> Option<MessageDescriptor> {
        self.pool.get_message_by_name(full_name)
    }

    /// The message that a type URL names: what follows the last slash (S4.050). The prefix does not
    /// matter.
    ///
    /// A name from before is another one for the message that has the option
    /// `udpa.annotations.versioning` with it (S4.051), as `envoy.api.v2.Cluster` for
    /// `envoy.config.cluster.v3.Cluster`: their bytes are the same, and so are the names of the fields that both have.
    #[must_use]
    pub fn message_of(&self, type_url: &str) -> Option<MessageDescriptor> {
        self.by_any_name(type_url.rsplit_once('/')?.1)
    }

    fn by_any_name(&self, full_name: &str) -> Option<MessageDescriptor> {
        let by_older_name = || self.message(self.annotations.name_now(full_name)?);
        self.message(full_name).or_else(by_older_name)
    }

    pub(crate) fn require(&self, full_name: &str) -> Result<MessageDescriptor, ErrorKind> {
        self.message(full_name).ok_or_else(|| self.unknown_type(full_name, full_name))
    }

    pub(crate) fn require_url(&self, type_url: &str) -> Result<MessageDescriptor, ErrorKind> {
        match type_url.rsplit_once('/') {
            None | Some((_, "")) => {
                Err(ErrorKind::InvalidTypeUrl { type_url: abbreviate(type_url) })
            }
            Some((_, name)) => {
                self.by_any_name(name).ok_or_else(|| self.unknown_type(type_url, name))
            }
        }
    }

    /// A name that exists in another package is the usual slip, as of a moved extension.
    fn unknown_type(&self, type_url: &str, full_name: &str) -> ErrorKind {
        let short_name = full_name.rsplit('.').next().unwrap_or(full_name);
        let namesakes: Vec<_> =
            self.pool.all_messages().filter(|m| m.name() == short_name).collect();
        let namesake = namesakes
            .iter()
            .map(MessageDescriptor::full_name)
            .max_by_key(|name| (common_prefix(name, full_name), core::cmp::Reverse(name.len())));
        let all: Vec<_> =
            if namesake.is_none() { self.pool.all_messages().collect() } else { Vec::new() };
        let suggestion = namesake
            .or_else(|| suggest::nearest(full_name, all.iter().map(MessageDescriptor::full_name)));
        ErrorKind::UnknownType {
            type_url: abbreviate(type_url),
            suggestion: suggestion.map(str::to_owned),
        }
    }

    pub(crate) fn is_sensitive(&self, field_full_name: &str) -> bool {
        self.annotations.is_sensitive(field_full_name)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("files", &self.pool.files().len())
            .field("messages", &self.pool.all_messages().len())
            .finish_non_exhaustive()
    }
}

fn descriptor_error(reason: &dyn fmt::Display) -> FormatError {
    FormatError::new("", ErrorKind::Descriptors { reason: reason.to_string() })
}

/// The files of a set that the pool does not have, still encoded: their extension options stay.
fn new_files(known: &DescriptorPool, set: &[u8]) -> Result<Vec<u8>, FormatError> {
    let mut new = Vec::with_capacity(set.len());
    for field in wire::Fields::new(set) {
        let field = field.map_err(|e| descriptor_error(&e))?;
        let (SET_FILE, wire::Payload::Len(file)) = (field.number, field.payload) else { continue };
        let string = |number| wire::last_string(file, number).map_err(|e| descriptor_error(&e));
        let name = string(FILE_NAME)?;
        // The pool panics at a syntax that it does not know, editions for one.
        let syntax = string(FILE_SYNTAX)?;
        if !["", "proto2", "proto3"].contains(&syntax) {
            return Err(descriptor_error(&format_args!(
                "{} is written in {}",
                abbreviate(name),
                abbreviate(syntax)
            )));
        }
        if known.get_file_by_name(name).is_none() {
            new.extend_from_slice(field.raw);
        }
    }
    Ok(new)
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}
