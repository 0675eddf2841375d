//! The constraints of the API beyond its types: the option `validate.rules` of the .proto files
//! (protoc-gen-validate, S4.027), read off the descriptors and checked against resources.

mod number;
mod plan;
mod rules;
mod text;
mod tighten;
mod walk;

pub(crate) use plan::Options;
pub(crate) use rules::FieldRules;
pub(crate) use tighten::tightened;
pub(crate) use walk::refuses_absence;

use std::sync::Arc;
#[cfg(feature = "envoy")]
use std::sync::OnceLock;

use prost_reflect::DynamicMessage;

use self::plan::Plans;
use self::walk::Walk;
use crate::check;
use crate::error::{ErrorKind, Fault, FormatError, Path};
use crate::schema::Schema;

/// How many violations of one resource are told.
const MOST_VIOLATIONS: usize = 100;

/// Checks resources against the constraints that stand next to the fields in the schema: an
/// interval of numbers, a string that is not empty, a duration above zero, a oneof that is set
/// (S4.028-S4.031), and all others of protoc-gen-validate.
///
/// A layer of its own, off unless somebody asks for it (X39): constraints are added and loosened
/// over time, so who only passes resources on, or knows less of them than the schema, does well to
/// leave them alone (B15). Proxies do check, and what they find they reject.
///
/// It looks into every `Any` whose type the schema has. Not checked are constraints of timestamps
/// that depend on the present (`lt_now`, `gt_now`, `within`): there is no clock. E-mail addresses
/// and URIs are checked for their outline only.
///
/// Made once, shared by cloning.
///
/// ```
/// # #[cfg(feature = "envoy")] {
/// use xds_format::{Format, Schema, Validator, parse};
///
/// let file = br#"{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "c", "connectTimeout": "0s"}"#;
/// let document = parse(Schema::envoy(), "cds.json", Format::Json, file)?;
/// let cluster = &document.resources[0];
/// let error = Validator::envoy().check(&cluster.type_url, &cluster.bytes).unwrap_err();
/// assert_eq!(error.to_string(), "connect_timeout: must be greater than 0s, is 0s");
/// # }
/// # Ok::<(), xds_format::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Validator {
    schema: Schema,
    plans: Arc<Plans>,
}

impl Validator {
    /// The constraints of a schema. One that has no `validate/validate.proto` has none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Descriptors`] when a constraint of the schema makes no sense: a pattern that is
    /// no regular expression.
    pub fn new(schema: &Schema) -> Result<Self, FormatError> {
        let plans = Plans::new(schema.pool())
            .map_err(|reason| FormatError::new("", ErrorKind::Descriptors { reason }))?;
        Ok(Self { schema: schema.clone(), plans: Arc::new(plans) })
    }

    /// The constraints of [`Schema::envoy`], read on first use.
    ///
    /// # Panics
    ///
    /// As [`Schema::envoy`].
    #[cfg(feature = "envoy")]
    #[must_use]
    pub fn envoy() -> &'static Self {
        static ENVOY: OnceLock<Validator> = OnceLock::new();
        ENVOY.get_or_init(|| {
            Self::new(Schema::envoy()).expect("the constraints of the Envoy API make sense")
        })
    }

    /// Checks one encoded resource. A type that the schema lacks has no constraints.
    ///
    /// # Errors
    ///
    /// Those of [`decode_check`](crate::decode_check) for a type that is known;
    /// [`ErrorKind::Constraint`] with the path of the first field that breaks one.
    pub fn check(&self, type_url: &str, bytes: &[u8]) -> Result<(), FormatError> {
        match self.walk(type_url, bytes, 1)?.into_iter().next() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    /// All that [`check`](Self::check) could complain of, in the order of the fields; no more than
    /// a hundred.
    ///
    /// # Errors
    ///
    /// Those of [`decode_check`](crate::decode_check) for a type that is known.
    pub fn violations(
        &self,
        type_url: &str,
        bytes: &[u8],
    ) -> Result<Vec<FormatError>, FormatError> {
        self.walk(type_url, bytes, MOST_VIOLATIONS)
    }

    fn walk(
        &self,
        type_url: &str,
        bytes: &[u8],
        most: usize,
    ) -> Result<Vec<FormatError>, FormatError> {
        let Some(descriptor) = self.schema.message_of(type_url) else { return Ok(Vec::new()) };
        let walked = || {
            // All of it decodes then, and nothing is too deep.
            check::message(&self.schema, &descriptor, bytes, &Path::Root)?;
            let message = DynamicMessage::decode(descriptor.clone(), bytes).map_err(|why| {
                let message = descriptor.full_name().to_owned();
                let kind = ErrorKind::Corrupt { message, reason: why.to_string() };
                Fault::new(None, &Path::Root, kind)
            })?;
            let mut walk = Walk::new(&self.schema, &self.plans, most);
            walk.message(&message, &Path::Root);
            Ok(walk.into_faults())
        };
        let faults = walked().map_err(|fault: Box<Fault>| fault.in_source("", None))?;
        Ok(faults.into_iter().map(|fault| fault.in_source("", None)).collect())
    }
}
