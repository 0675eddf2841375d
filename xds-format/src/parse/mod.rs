//! Files into documents.

mod binary;
mod collector;
mod shapes;
mod text;
mod yaml_file;

pub use self::yaml_file::YamlFile;

use self::collector::Collector;
use crate::check;
use crate::document::Document;
use crate::encode::{At, Dialect, Encoder};
use crate::error::{ErrorKind, Fault, FormatError, Path};
use crate::format::Format;
use crate::options::ParseOptions;
use crate::schema::Schema;
use crate::tree::{json, text as text_tree, yaml};

type Result<T> = core::result::Result<T, Box<Fault>>;

/// Reads a file (or a REST body) that holds resources. `source_name` is what errors call it,
/// usually the path.
///
/// JSON and YAML may be
///
/// - one resource: an object with `@type`;
/// - a list of those;
/// - a `DiscoveryResponse`: an object with `resources`, perhaps `version_info`, `type_url`, `nonce`
///   (S0.012);
/// - in YAML, several documents, each one of these.
///
/// Proto text is a `DiscoveryResponse`, or the single message that a leading comment `#
/// proto-message: full.name` names. Binary is a `DiscoveryResponse`. Wherever a resource may stand,
/// an `envoy.service.discovery.v3.Resource` around it may; its name wins.
///
/// Spellings are read strictly: [`parse_with`] reads files as Envoy does.
///
/// The resource bytes are canonical for all formats but binary, whose bytes are kept as they are:
/// see [the crate documentation](crate#the-same-bytes).
///
/// # Errors
///
/// The first thing that is wrong: grammar, unknown types, fields and enum values, values that do
/// not fit, two resources of one type and name, resources without a name, and a file with nothing
/// in it. All or nothing: a file with one broken resource gives none, so that its last good state
/// can stay (S0.018).
pub fn parse(
    schema: &Schema,
    source_name: &str,
    format: Format,
    input: &[u8],
) -> core::result::Result<Document, FormatError> {
    parse_with(schema, source_name, format, input, ParseOptions::default())
}

/// Reads a file as [`parse`] does, by other rules. The formats for programs, proto text and binary, know only strict
/// ones.
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
/// Those of [`parse`].
pub fn parse_with(
    schema: &Schema,
    source_name: &str,
    format: Format,
    input: &[u8],
    options: ParseOptions,
) -> core::result::Result<Document, FormatError> {
    let mut collector = Collector::new(schema);
    match format {
        Format::Binary => {
            binary::response(schema, input, &[], &mut collector)
                .map_err(|f| f.in_source(source_name, None))?;
        }
        Format::Json | Format::Yaml | Format::Text => {
            let text = utf8(source_name, input)?;
            let read = match format {
                Format::Json => json::parse(text, options.leniency).and_then(|node| {
                    shapes::documents(schema, Dialect::Json, options, &[node], &mut collector)
                }),
                Format::Yaml => yaml::parse(text, options.leniency).and_then(|nodes| {
                    shapes::documents(schema, Dialect::Yaml, options, &nodes, &mut collector)
                }),
                _ => text::document(schema, text, &mut collector),
            };
            read.map_err(|fault| fault.in_source(source_name, Some(text)))?;
        }
    }
    Ok(collector.finish())
}

/// Encodes one message of a known type, without `@type` around it: a `DiscoveryRequest` of a REST
/// client, a bootstrap.
///
/// # Errors
///
/// As [`parse`], as far as they concern a message; [`ErrorKind::UnknownType`] when the schema lacks
/// `full_name`. Binary input is checked with its nested `Any`s and returned as it is.
pub fn encode_message(
    schema: &Schema,
    source_name: &str,
    full_name: &str,
    format: Format,
    input: &[u8],
) -> core::result::Result<Vec<u8>, FormatError> {
    encode_message_with(schema, source_name, full_name, format, input, ParseOptions::default())
}

/// Encodes one message as [`encode_message`] does, by other rules.
///
/// # Errors
///
/// Those of [`encode_message`].
pub fn encode_message_with(
    schema: &Schema,
    source_name: &str,
    full_name: &str,
    format: Format,
    input: &[u8],
    options: ParseOptions,
) -> core::result::Result<Vec<u8>, FormatError> {
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
        let encoder = Encoder { schema, dialect, options };
        encoder.message(&message, &node, At::top(&Path::Root), &mut out)?;
        // In text, an `Any` may be written in its bytes, which nobody has looked at.
        if dialect == Dialect::Text {
            check::message(schema, &message, &out, &Path::Root)?;
        }
        Ok(out)
    };
    encode().map_err(|fault: Box<Fault>| fault.in_source(source_name, Some(text)))
}

/// The text without its byte order mark.
fn utf8<'i>(source_name: &str, input: &'i [u8]) -> core::result::Result<&'i str, FormatError> {
    match core::str::from_utf8(input) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(error) => {
            let valid = core::str::from_utf8(&input[..error.valid_up_to()]).unwrap_or_default();
            let fault = Fault::new(valid.len(), &Path::Root, ErrorKind::NotUtf8);
            Err(fault.in_source(source_name, Some(valid)))
        }
    }
}
