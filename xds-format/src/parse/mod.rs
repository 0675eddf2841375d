//! Parsing of files and REST bodies into documents.

mod binary;
mod collector;
mod marks;
mod mentions;
mod messages;
mod positions;
mod shapes;
mod text;
mod yaml_file;

pub use self::messages::{TypedMessage, parse_messages};
pub use self::{positions::ResourcePositions, yaml_file::YamlFile};

use self::collector::Collector;
use crate::encode::{Dialect, Encoder, Location};
use crate::error::{ErrorKind, Fault, FormatError, Path, Result};
use crate::faults::{Faults, FormatErrors};
use crate::format::Format;
use crate::options::ParseOptions;
use crate::resource::check;
use crate::resource::document::Document;
use crate::schema::Schema;
use crate::tree::{json, text as text_tree, yaml};

/// Parses a file (or a REST body) of resources.
///
/// `source_name` is the name of the input in errors, usually its path. JSON and YAML may contain
///
/// - a resource: an object with `@type`;
/// - a list of resources;
/// - a `DiscoveryResponse`: an object with `resources`, and optionally `version_info`, `type_url`
///   and `nonce`;
/// - in YAML, several documents of these kinds.
///
/// Proto text contains a `DiscoveryResponse`, or the message type that a leading comment
/// `# proto-message: full.name` states. Binary input is a `DiscoveryResponse`. Every resource may
/// be wrapped in an `envoy.service.discovery.v3.Resource`, whose name takes precedence.
///
/// Spellings are read strictly. [`parse_with`] can read files as Envoy does.
///
/// Resource bytes are deterministic for all formats except binary, whose bytes are kept: see [the
/// crate documentation](crate#deterministic-encoding).
///
/// # Errors
///
/// Returns the first error: invalid syntax, an unknown type, field or enum value, a value that does
/// not fit its field, two resources of the same type and name, a resource without a name, or an
/// empty file. One invalid resource fails the whole file, so that the caller can keep the last
/// valid state.
// S0.012, S0.018
pub fn parse(
    schema: &Schema,
    source_name: &str,
    format: Format,
    input: &[u8],
) -> Result<Document, FormatError> {
    parse_with(schema, source_name, format, input, ParseOptions::default())
}

/// Parses a file as [`parse`] does, with the given options. They apply to JSON and YAML; proto text
/// and binary input are always read strictly.
///
/// ```
/// # #[cfg(feature = "envoy")] {
/// use xds_format::{Format, Leniency, ParseOptions, Schema, parse, parse_with};
///
/// // As in Envoy's documentation: the type in lower case, one resource without a list around it.
/// let file = br#"
/// resources:
///   "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
///   name: backend
///   type: strict_dns
/// "#;
/// let options = ParseOptions::default().with_leniency(Leniency::Envoy);
/// let document = parse_with(Schema::envoy(), "cds.yaml", Format::Yaml, file, options)?;
/// assert_eq!(document.resources[0].name, "backend");
/// assert!(parse(Schema::envoy(), "cds.yaml", Format::Yaml, file).is_err());
/// # }
/// # Ok::<(), xds_format::FormatError>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`parse`].
pub fn parse_with(
    schema: &Schema,
    source_name: &str,
    format: Format,
    input: &[u8],
    options: ParseOptions,
) -> Result<Document, FormatError> {
    let text = text_of(source_name, format, input)?;
    document(schema, format, input, text, options, None)
        .map_err(|fault| fault.in_source(source_name, text))
}

/// Parses a file as [`parse_with`] does, and returns all errors instead of the first.
///
/// Parsing continues after an error in a resource or in one of its fields. A syntax error ends it.
/// At most `most` errors are returned; the others are counted.
///
/// ```
/// # #[cfg(feature = "envoy")] {
/// use xds_format::{Format, ParseOptions, Schema, parse_all};
///
/// let file = br#"
/// "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
/// name: backend
/// typ: EDS
/// connect_timeout: 5
/// "#;
/// let (yaml, options) = (Format::Yaml, ParseOptions::default());
/// let errors = parse_all(Schema::envoy(), "cds.yaml", yaml, file, options, 20).unwrap_err();
/// let lines: Vec<_> = errors.errors.iter().map(|it| it.position().unwrap().line).collect();
/// assert_eq!(lines, [4, 5]);
/// # }
/// ```
///
/// # Errors
///
/// Returns the errors of [`parse`].
pub fn parse_all(
    schema: &Schema,
    source_name: &str,
    format: Format,
    input: &[u8],
    options: ParseOptions,
    most: usize,
) -> Result<Document, FormatErrors> {
    let text = text_of(source_name, format, input)?;
    let faults = Faults::new(most);
    let parsed = document(schema, format, input, text, options, Some(&faults));
    faults.finish(parsed, source_name, text)
}

/// Parses a file. `text` is its text, unless the format is binary.
fn document<'s>(
    schema: &'s Schema,
    format: Format,
    input: &[u8],
    text: Option<&str>,
    options: ParseOptions,
    faults: Option<&'s Faults>,
) -> Result<Document> {
    let mut collector = Collector::new(schema);
    let Some(text) = text else {
        binary::response(schema, input, &[], &mut collector)?;
        return Ok(collector.finish());
    };
    match format {
        Format::Json => {
            let nodes = [json::parse(text, options.leniency)?];
            shapes::documents(schema, Dialect::Json, options, faults, &nodes, &mut collector)?;
        }
        Format::Yaml => {
            let nodes = yaml::parse(text, options.leniency)?;
            shapes::documents(schema, Dialect::Yaml, options, faults, &nodes, &mut collector)?;
        }
        _ => text::document(schema, text, faults, &mut collector)?,
    }
    Ok(collector.finish())
}

/// Returns the text of a file, or `None` if the format is binary.
fn text_of<'i>(
    source_name: &str,
    format: Format,
    input: &'i [u8],
) -> Result<Option<&'i str>, FormatError> {
    match format {
        Format::Binary => Ok(None),
        Format::Json | Format::Yaml | Format::Text => utf8(source_name, input).map(Some),
    }
}

/// Encodes one message of a given type, without `@type`, such as the `DiscoveryRequest` of a REST
/// client or a bootstrap.
///
/// # Errors
///
/// Returns the errors of [`parse`] that concern a single message, and [`ErrorKind::UnknownType`] if
/// the schema lacks `full_name`. Binary input is checked with its nested `Any`s and returned
/// unchanged.
pub fn encode_message(
    schema: &Schema,
    source_name: &str,
    full_name: &str,
    format: Format,
    input: &[u8],
) -> Result<Vec<u8>, FormatError> {
    encode_message_with(schema, source_name, full_name, format, input, ParseOptions::default())
}

/// Encodes one message as [`encode_message`] does, with the given options.
///
/// # Errors
///
/// Returns the errors of [`encode_message`].
pub fn encode_message_with(
    schema: &Schema,
    source_name: &str,
    full_name: &str,
    format: Format,
    input: &[u8],
    options: ParseOptions,
) -> Result<Vec<u8>, FormatError> {
    let message = schema.require(full_name).map_err(|kind| FormatError::new(source_name, kind))?;
    if format == Format::Binary {
        return match check::message(schema, &message, input, &Path::Root) {
            Ok(()) => Ok(input.to_vec()),
            Err(fault) => Err(fault.in_source(source_name, None)),
        };
    }
    let text = utf8(source_name, input)?;
    let encode = || {
        let (dialect, node) = match format {
            Format::Json => (Dialect::Json, json::parse(text, options.leniency)?),
            Format::Yaml => (Dialect::Yaml, shapes::only(yaml::parse(text, options.leniency)?)?),
            _ => (Dialect::Text, text_tree::parse(text)?),
        };
        let mut out = Vec::new();
        let encoder = Encoder { schema, dialect, options, faults: None };
        encoder.message(&message, &node, Location::top(&Path::Root), &mut out)?;
        // In text, an `Any` may be given as bytes, which the encoder does not check.
        if dialect == Dialect::Text {
            check::message(schema, &message, &out, &Path::Root)?;
        }
        Ok(out)
    };
    encode().map_err(|fault: Box<Fault>| fault.in_source(source_name, Some(text)))
}

/// Decodes UTF-8 and strips a byte order mark.
fn utf8<'i>(source_name: &str, input: &'i [u8]) -> Result<&'i str, FormatError> {
    match core::str::from_utf8(input) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(_) => {
            let valid = input.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            let kind = match input {
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => ErrorKind::Utf16,
                _ => ErrorKind::NotUtf8,
            };
            let fault = Fault::new(valid.len(), &Path::Root, kind);
            Err(fault.in_source(source_name, Some(valid)))
        }
    }
}
