//! Validation against the constraints in the schema, the option `validate.rules` of
//! protoc-gen-validate, and detection of deprecated fields.
// S4.027

mod deprecated;
mod number;
mod plan;
mod rules;
mod text;
mod tighten;
mod walk;

pub use deprecated::{Deprecated, deprecated_uses};
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
use crate::error::{ErrorKind, Fault, FormatError, Path};
use crate::resource::check;
use crate::schema::Schema;

/// Maximum number of violations reported for a resource.
const MOST_VIOLATIONS: usize = 100;

/// Checks resources against the protoc-gen-validate constraints in the schema, such as a range of
/// numbers, a nonempty string, a positive duration or a required oneof.
///
/// Validation is optional. Constraints are added and loosened over time, so a program that only
/// passes resources on, or that has an older schema, should not apply them. Envoy does, and rejects
/// resources that violate them.
///
/// Every nested `Any` of a known type is checked. Timestamp constraints that depend on the current
/// time (`lt_now`, `gt_now`, `within`) are not checked. E-mail addresses and URIs are only checked
/// roughly.
///
/// Creating a validator is expensive: create it once and share it.
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
// S4.028, S4.029, S4.030, S4.031, X39, B15
#[derive(Clone, Debug)]
pub struct Validator {
    schema: Schema,
    plans: Arc<Plans>,
}

impl Validator {
    /// Creates a validator with the constraints of a schema. There are none if the schema lacks
    /// `validate/validate.proto`.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Descriptors`] if a constraint has a pattern that is not a valid regular
    /// expression.
    pub fn new(schema: &Schema) -> Result<Self, FormatError> {
        let plans = Plans::new(schema.pool())
            .map_err(|reason| FormatError::new("", ErrorKind::Descriptors { reason }))?;
        Ok(Self { schema: schema.clone(), plans: Arc::new(plans) })
    }

    /// Returns a validator for [`Schema::envoy`], created on first use.
    ///
    /// # Panics
    ///
    /// Panics like [`Schema::envoy`], and if a constraint of that schema is invalid.
    #[cfg(feature = "envoy")]
    #[expect(clippy::expect_used, reason = "the documentation states when it panics")]
    #[must_use]
    pub fn envoy() -> &'static Self {
        static ENVOY: OnceLock<Validator> = OnceLock::new();
        ENVOY.get_or_init(|| {
            Self::new(Schema::envoy()).expect("the constraints of the Envoy API are valid")
        })
    }

    /// Checks one encoded resource. A resource of an unknown type passes.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`decode_check`](crate::decode_check), if the type is known;
    /// [`ErrorKind::Constraint`] with the path of the first violation.
    pub fn check(&self, type_url: &str, bytes: &[u8]) -> Result<(), FormatError> {
        match self.walk(type_url, bytes, 1)?.into_iter().next() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    /// Returns the constraint violations of a resource, in the order of the fields, at most 100.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`decode_check`](crate::decode_check), if the type is known.
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
            // After this check everything decodes and nothing is nested too deeply.
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
