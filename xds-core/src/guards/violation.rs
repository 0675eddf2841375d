//! Reasons why a change is refused.

use alloc::{
    borrow::Cow,
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use core::fmt;

use thiserror::Error;

use super::change_id::ChangeId;
use crate::{
    TypeUrl, ViewName,
    references::{Finding, ResourceId},
    types,
};

/// Change that guards refuse. What is served stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("change {id} is refused: {}", joined(.violations, "; "))]
#[non_exhaustive]
pub struct RefusedChange {
    /// Id by which the change can be forced.
    pub id: ChangeId,
    /// Reasons, at least one.
    pub violations: Vec<GuardViolation>,
}

/// Rule that a change violates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardViolation {
    /// Text form of the rule.
    pub guard: String,
    /// View in which the rule is violated.
    pub view: ViewName,
    /// Violation with its numbers.
    pub violation: Violation,
}

/// Violation of a rule by a change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Fewer resources of a type than the minimum.
    TooFew {
        /// Resource type.
        type_url: TypeUrl,
        /// Number of resources that would be served.
        after: usize,
        /// Number of resources that are served.
        before: usize,
        /// Required number.
        minimum: usize,
    },
    /// Removal of more resources at once than the limit.
    Removal {
        /// Resource type; `None` for the resources of all types together.
        type_url: Option<TypeUrl>,
        /// Number of resources that would be removed.
        removed: usize,
        /// Number of resources that are served.
        served: usize,
        /// Greatest share of these that may be removed, in percent.
        limit: u8,
        /// First removed resources, at most three.
        first: Vec<ResourceId>,
    },
    /// Absence of a required resource.
    Missing {
        /// Required resource.
        resource: ResourceId,
        /// Whether it is served, and would be removed.
        is_served: bool,
    },
    /// References that would be dangling, and are not dangling now.
    Dangling(Vec<Finding>),
    /// Reason of a function of the application.
    Hook(String),
}

/// Maximum number of resources or references that a text names.
pub(super) const MOST_NAMED: usize = 3;

impl fmt::Display for GuardViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { guard, view, violation } = self;
        match view.is_empty() {
            true => write!(f, "{violation} (guard {guard})"),
            false => write!(f, "{violation} (guard {guard}, view {view})"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { type_url, after, before: 0, minimum } => {
                write!(f, "has {after} of at least {minimum} {}", plural(type_url))
            }
            Self::TooFew { type_url, after, before, minimum } => write!(
                f,
                "would leave {after} of {before} {}, the minimum is {minimum}",
                plural(type_url)
            ),
            Self::Removal { type_url, removed, served, limit, first } => {
                let of = type_url.as_ref().map_or(Cow::Borrowed("resources"), plural);
                // Rounded up, so that it exceeds the limit.
                let percent = removed.saturating_mul(100).div_ceil((*served).max(1));
                write!(
                    f,
                    "would remove {removed} of {served} {of} ({percent} percent), the limit is \
                     {limit} percent: {}",
                    joined(first, ", ")
                )?;
                more(f, *removed, first.len())
            }
            Self::Missing { resource, is_served: true } => {
                write!(f, "would remove {resource}, which is required")
            }
            Self::Missing { resource, is_served: false } => {
                write!(f, "lacks {resource}, which is required")
            }
            Self::Dangling(findings) => {
                let named = findings.get(..MOST_NAMED).unwrap_or(findings);
                let references = if findings.len() == 1 { "reference" } else { "references" };
                let number = findings.len();
                write!(f, "{number} {references} would be dangling: {}", joined(named, "; "))?;
                more(f, number, named.len())
            }
            Self::Hook(why) => f.write_str(why),
        }
    }
}

/// Writes how many of a number of items were not named.
fn more(f: &mut fmt::Formatter<'_>, number: usize, named: usize) -> fmt::Result {
    match number.saturating_sub(named) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

fn joined(items: &[impl fmt::Display], separator: &str) -> String {
    items.iter().map(|it| it.to_string()).collect::<Vec<_>>().join(separator)
}

/// Returns the name of several resources of a type.
fn plural(type_url: &TypeUrl) -> Cow<'static, str> {
    Cow::Borrowed(match types::v3_type_url(type_url.as_str()) {
        types::CLUSTER => "clusters",
        types::CLUSTER_LOAD_ASSIGNMENT => "endpoint resources",
        types::LISTENER => "listeners",
        types::ROUTE_CONFIGURATION => "route configurations",
        types::SCOPED_ROUTE_CONFIGURATION => "scoped routes",
        types::VIRTUAL_HOST => "virtual hosts",
        types::SECRET => "secrets",
        types::EXTENSION_CONFIG => "extension configurations",
        types::RUNTIME => "runtime layers",
        other => return Cow::Owned(format!("resources of type {other}")),
    })
}
