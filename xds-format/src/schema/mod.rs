//! The schema: which messages exist, what their fields are, which fields are secret, and what messages were called
//! before.

mod annotations;
mod set;
mod unknown;

use core::fmt;
#[cfg(feature = "envoy")]
use std::sync::OnceLock;

use prost_reflect::{DescriptorPool, MessageDescriptor};

use self::annotations::Annotations;
use crate::error::{ErrorKind, FormatError, abbreviate};

/// The full name of the message that every file boils down to.
pub(crate) const DISCOVERY_RESPONSE: &str = "envoy.service.discovery.v3.DiscoveryResponse";
/// The full name of the wrapper that gives a resource a name, a version and a TTL.
pub(crate) const RESOURCE_WRAPPER: &str = "envoy.service.discovery.v3.Resource";

/// The full names of the message that stands for others without their schema: a type URL and the value as a
/// `Struct`.
pub(crate) const TYPED_STRUCT: [&str; 2] = ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"];

/// The messages of `proto/xds` and `proto/udpa`, made by `cargo xtask gen`.
const XDS_TYPES: &[u8] = include_bytes!("xds_types.bin");

/// A set of message types that files may hold.
///
/// Most programs use [`Schema::envoy`]. [`Schema::with_descriptor_set`] adds other types: those of Envoy's contrib
/// extensions, or one's own. A set is a file that `protoc --include_imports --descriptor_set_out=FILE` or
/// `buf build -o FILE` makes. A schema is cheap to share by reference and costly to make: keep one.
///
/// ```
/// # #[cfg(feature = "envoy")] {
/// # use prost_reflect::prost::Message as _;
/// use xds_format::{Format, Schema, parse};
///
/// // acme/gadget.proto, compiled: package acme; message Gadget { string name = 1; }
/// # let set = prost_reflect::prost_types::FileDescriptorSet { file: vec![prost_reflect::prost_types::FileDescriptorProto {
/// #     name: Some("acme/gadget.proto".into()), package: Some("acme".into()), syntax: Some("proto3".into()),
/// #     message_type: vec![prost_reflect::prost_types::DescriptorProto { name: Some("Gadget".into()),
/// #         field: vec![prost_reflect::prost_types::FieldDescriptorProto { name: Some("name".into()), number: Some(1),
/// #             label: Some(1), r#type: Some(9), ..Default::default() }], ..Default::default() }],
/// #     ..Default::default() }] }.encode_to_vec();
/// # /*
/// let set = std::fs::read("gadget.binpb")?;
/// # */
/// let schema = Schema::envoy().with_descriptor_set(&set)?;
///
/// let file = br#"{"@type": "type.googleapis.com/acme.Gadget", "name": "g"}"#;
/// let document = parse(&schema, "gadget.json", Format::Json, file)?;
/// assert_eq!(document.resources[0].name, "g");
/// # }
/// # Ok::<(), xds_format::FormatError>(())
/// ```
#[derive(Clone)]
pub struct Schema {
    pool: DescriptorPool,
    annotations: Annotations,
}

impl Schema {
    /// The full Envoy v3 API and the [types of cncf/xds](Schema::with_xds_types), embedded in the program and
    /// decoded on first use (tens of milliseconds, once).
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
                .and_then(|schema| schema.with_xds_types())
                .expect("the embedded Envoy descriptor set is valid")
        })
    }

    /// The messages of an encoded `google.protobuf.FileDescriptorSet`, imports included, and no others: a set of
    /// the Envoy API usually needs [`Schema::with_xds_types`] as well.
    ///
    /// # Errors
    ///
    /// Those of [`Schema::with_descriptor_set`].
    pub fn from_descriptor_set(set: &[u8]) -> Result<Self, FormatError> {
        Self { pool: DescriptorPool::new(), annotations: Annotations::default() }
            .with_descriptor_set(set)
    }

    /// This schema and the messages of another encoded `FileDescriptorSet`.
    ///
    /// Files of the set that the schema has already, by name, stay as they are, so that a set may repeat its
    /// imports. [`Schema::passed_over`] lists what is lost by that.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Descriptors`], with what to do about it: the bytes are no descriptor set but, for example, the
    /// source of a schema; a file imports one that neither the set nor the schema has; a file defines what a file
    /// of another name defines already; a definition contradicts itself.
    pub fn with_descriptor_set(&self, set: &[u8]) -> Result<Self, FormatError> {
        let Self { mut pool, mut annotations } = self.clone();
        let new = set::encode_new(&pool, &set::files(set)?)?;
        pool.decode_file_descriptor_set(new.as_slice()).map_err(set::error)?;
        annotations.collect(&new).map_err(set::error)?;
        Ok(Self { pool, annotations })
    }

    /// This schema and the messages of [cncf/xds](https://github.com/cncf/xds) that it lacks: the packages `xds` and
    /// `udpa`, with the expressions of CEL that they refer to. `google.protobuf.FieldMask` is added as well.
    ///
    /// The Envoy API names many of them only inside an `Any`, such as `xds.type.matcher.v3.CelMatcher` or
    /// `xds.type.v3.TypedStruct`, so that a descriptor set made from that API lacks them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Descriptors`] if the schema defines one of them in a file of another name.
    pub fn with_xds_types(&self) -> Result<Self, FormatError> {
        self.with_descriptor_set(XDS_TYPES)
    }

    /// The definitions that [`Schema::with_descriptor_set`] passes over: messages, fields and enum values of files
    /// that the schema has in another version. Each is its full name, in the order of the set.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Descriptors`] if the bytes are no descriptor set.
    pub fn passed_over(&self, set: &[u8]) -> Result<Vec<String>, FormatError> {
        set::passed_over(&self.pool, &set::files(set)?)
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

    fn unknown_type(&self, type_url: &str, full_name: &str) -> ErrorKind {
        ErrorKind::UnknownType {
            type_url: abbreviate(type_url),
            suggestion: unknown::suggestion(&self.pool, full_name),
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
