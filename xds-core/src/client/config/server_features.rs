//! What a bootstrap says a management server can do, or can be relied on for.

use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

/// One entry of `server_features` in a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ServerFeature {
    /// `fail_on_data_errors`: deleted, invalid and refused resources are dropped rather than kept in
    /// use (S3.024, A88).
    FailOnDataErrors,
    /// `resource_timer_is_transient_error`: the server reports by TP3 what it does not have, so
    /// silence is trouble on its side. It gets 30 seconds instead of 15, and a resource that does not
    /// come is not taken not to exist (S3.041-S3.047). Not for servers without TP3, where it takes
    /// longer to notice what is missing.
    ResourceTimerIsTransientError,
    /// `ignore_resource_deletion`: has no effect any more (S3.050, A53).
    IgnoreResourceDeletion,
    /// `trusted_xds_server`: resources may have security-sensitive fields. Seen in the
    /// [`Context`](crate::client::Context) of validation (B46, A81).
    TrustedXdsServer,
}

/// A set of [`ServerFeature`]s.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerFeatures(u8);

/// What is odd about a server feature that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FeatureWarning {
    /// It goes by another name (X14, D30).
    #[error("server feature resource_timer_is_transient_failure is spelled {RESOURCE_TIMER}")]
    Misspelled,
    /// It has no effect.
    #[error("server feature {IGNORE_DELETION} is deprecated and has no effect")]
    Deprecated,
}

const FAIL_ON_DATA_ERRORS: &str = "fail_on_data_errors";
const RESOURCE_TIMER: &str = "resource_timer_is_transient_error";
const RESOURCE_TIMER_ALIAS: &str = "resource_timer_is_transient_failure";
const IGNORE_DELETION: &str = "ignore_resource_deletion";
const TRUSTED: &str = "trusted_xds_server";

impl ServerFeature {
    const ALL: [Self; 4] = [
        Self::FailOnDataErrors,
        Self::ResourceTimerIsTransientError,
        Self::IgnoreResourceDeletion,
        Self::TrustedXdsServer,
    ];

    /// The feature's name in a bootstrap.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FailOnDataErrors => FAIL_ON_DATA_ERRORS,
            Self::ResourceTimerIsTransientError => RESOURCE_TIMER,
            Self::IgnoreResourceDeletion => IGNORE_DELETION,
            Self::TrustedXdsServer => TRUSTED,
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl ServerFeatures {
    /// No feature at all.
    pub const NONE: Self = Self(0);

    /// Reads the strings of `server_features`. Unknown ones are passed over, as a client that is
    /// older than its bootstrap must (BS-11).
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> (Self, Vec<FeatureWarning>) {
        let (mut features, mut warnings) = (Self::NONE, Vec::new());
        for name in names {
            let known = ServerFeature::ALL.into_iter().find(|feature| feature.as_str() == name);
            match known {
                Some(ServerFeature::IgnoreResourceDeletion) => {
                    warnings.push(FeatureWarning::Deprecated);
                }
                None if name == RESOURCE_TIMER_ALIAS => warnings.push(FeatureWarning::Misspelled),
                _ => {}
            }
            let alias = (name == RESOURCE_TIMER_ALIAS)
                .then_some(ServerFeature::ResourceTimerIsTransientError);
            features = known.or(alias).map_or(features, |feature| features.with(feature));
        }
        (features, warnings)
    }

    /// The set with one more feature.
    #[must_use]
    pub const fn with(self, feature: ServerFeature) -> Self {
        Self(self.0 | feature.bit())
    }

    /// Whether the feature is in the set.
    #[must_use]
    pub const fn contains(self, feature: ServerFeature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// The features in the set.
    pub fn iter(self) -> impl Iterator<Item = ServerFeature> {
        ServerFeature::ALL.into_iter().filter(move |&feature| self.contains(feature))
    }
}

impl FromIterator<ServerFeature> for ServerFeatures {
    fn from_iter<T: IntoIterator<Item = ServerFeature>>(features: T) -> Self {
        features.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Debug for ServerFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_read_by_its_name() {
        for feature in ServerFeature::ALL {
            let (features, warnings) = ServerFeatures::parse([feature.as_str()]);
            assert!(features.iter().eq([feature]));
            let is_odd = feature == ServerFeature::IgnoreResourceDeletion;
            assert_eq!(!warnings.is_empty(), is_odd, "{feature:?}");
        }
    }

    /// BS-11, BS-12, X14, D30, S3.050.
    #[test]
    fn unknown_features_are_passed_over_and_odd_ones_warned_of() {
        let names = ["xds_v3", RESOURCE_TIMER_ALIAS, "", FAIL_ON_DATA_ERRORS, IGNORE_DELETION];
        let (features, warnings) = ServerFeatures::parse(names);
        assert!(features.contains(ServerFeature::ResourceTimerIsTransientError));
        assert!(features.contains(ServerFeature::FailOnDataErrors));
        assert!(!features.contains(ServerFeature::TrustedXdsServer));
        assert_eq!(warnings, [FeatureWarning::Misspelled, FeatureWarning::Deprecated]);
    }
}
