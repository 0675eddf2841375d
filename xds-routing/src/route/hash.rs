//! Hash policies of routes: hashes of calls, for session affinity ([gRFC A42]).
//!
//! [gRFC A42]: https://github.com/grpc/proposal/blob/master/A42-xds-ring-hash-lb-policy.md

use alloc::{borrow::Cow, string::String};

use crate::{
    pattern::{Headers, MatchProfile, Rewrite},
    proto::envoy::config::route::v3 as schema,
    text_hash::hash_text,
    validation::Validator,
};
use schema::route_action::hash_policy::PolicySpecifier;

/// Hash policy: a property of a call that is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashPolicy {
    /// Hashed property.
    pub source: HashSource,
    /// Whether later policies are ignored if this one or an earlier one produced a hash.
    pub is_terminal: bool,
}

/// Property of a call that is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HashSource {
    /// Value of a header, after the rewrite.
    Header {
        /// Name of the header, in lower case.
        name: String,
        /// Rewrite of the value.
        rewrite: Option<Rewrite>,
    },
    /// The channel (`io.grpc.channel_id`).
    Channel,
}

const CHANNEL_ID: &str = "io.grpc.channel_id";

/// Returns the combined hash of a call. `None` if no policy produces one.
pub(super) fn combined_hash(
    policies: &[HashPolicy],
    headers: &(impl Headers + ?Sized),
    channel: u64,
) -> Option<u64> {
    let mut combined: Option<u64> = None;
    for policy in policies {
        if let Some(hash) = policy.source.hash(headers, channel) {
            combined = Some(combined.map_or(hash, |before| before.rotate_left(1) ^ hash));
        }
        if policy.is_terminal && combined.is_some() {
            break;
        }
    }
    combined
}

impl HashSource {
    fn hash(&self, headers: &(impl Headers + ?Sized), channel: u64) -> Option<u64> {
        match self {
            Self::Channel => Some(channel),
            Self::Header { name, rewrite } => {
                let value = MatchProfile::GRPC.header(headers, name)?;
                let rewritten = match rewrite {
                    Some(rewrite) => rewrite.apply(&value),
                    None => Cow::Borrowed(&*value),
                };
                Some(hash_text(&rewritten))
            }
        }
    }
}

/// Validates a policy. Returns `None` for a kind that gRPC ignores, or after an error.
pub(super) fn validate_hash(
    policy: &schema::route_action::HashPolicy,
    validator: &mut Validator<'_>,
) -> Option<HashPolicy> {
    let source = match policy.policy_specifier.as_ref()? {
        PolicySpecifier::Header(header) => validator.field("header", |validator| {
            if header.header_name.is_empty() {
                validator.error_in("header_name", "must not be empty");
            }
            let name = header.header_name.to_ascii_lowercase();
            let Some(rewrite) = header.regex_rewrite.as_ref() else {
                return Some(HashSource::Header { name, rewrite: None });
            };
            validator.field("regex_rewrite.pattern", |validator| {
                let Some(pattern) = rewrite.pattern.as_ref() else {
                    validator.error("must be set");
                    return None;
                };
                validator.field("regex", |validator| {
                    if pattern.regex.is_empty() {
                        validator.error("must not be empty");
                        return None;
                    }
                    let rewrite = validator.rewrite(&pattern.regex, &rewrite.substitution)?;
                    Some(HashSource::Header { name, rewrite: Some(rewrite) })
                })
            })
        })?,
        PolicySpecifier::FilterState(state) if state.key == CHANNEL_ID => HashSource::Channel,
        // gRPC ignores other kinds.
        PolicySpecifier::FilterState(_) => return None,
    };
    Some(HashPolicy { source, is_terminal: policy.terminal })
}
