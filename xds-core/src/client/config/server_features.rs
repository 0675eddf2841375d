//! Server features of a bootstrap.

use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

/// Known entry of `server_features` in a bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ServerFeature {
    /// `fail_on_data_errors`: deleted and invalid resources, and those with an error reported by
    /// the server, are dropped, see
    /// [gRFC A88](https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md).
    // S3.024
    FailOnDataErrors,
    /// `resource_timer_is_transient_error`: a missing resource is a transient error, not a
    /// nonexistent one, because the server reports resources that do not exist
    /// ([xRFC TP3](https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md)).
    /// The timeout is 30 s instead of 15 s. For servers without TP3, it only delays the detection
    /// of missing resources.
    // S3.041-S3.047
    ResourceTimerIsTransientError,
    /// `ignore_resource_deletion`: deprecated. The core ignores it; `xds-bootstrap` uses it if data
    /// error handling is disabled by the environment, see [gRFC
    /// A53](https://github.com/grpc/proposal/blob/master/A53-xds-ignore-resource-deletion.md).
    // S3.050
    IgnoreResourceDeletion,
    /// `trusted_xds_server`: resources may set security-sensitive fields. Validation sees it in its
    /// [`ValidationContext`](crate::client::ValidationContext), see
    /// [gRFC A81](https://github.com/grpc/proposal/blob/master/A81-xds-authority-rewriting.md).
    // B46
    TrustedXdsServer,
}

/// Set of [`ServerFeature`]s.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerFeatures(u8);

/// Warning about a server feature that was recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FeatureWarning {
    /// The feature is misspelled.
    // X14, D30
    #[error(
        "server feature resource_timer_is_transient_failure is misspelled: use {RESOURCE_TIMER}"
    )]
    Misspelled,
    /// The feature is deprecated. It applies only if data error handling is disabled.
    #[error(
        "server feature {IGNORE_DELETION} is deprecated: it applies only if data error handling \
         (gRFC A88) is disabled"
    )]
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

    /// Returns the feature's name in a bootstrap.
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
    /// Empty set.
    pub const NONE: Self = Self(0);

    /// Parses the strings of `server_features`. Unknown strings are ignored, so that a client works
    /// with a bootstrap for newer clients.
    // BS-11
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

    /// Returns the set with one more feature.
    #[must_use]
    pub const fn with(self, feature: ServerFeature) -> Self {
        Self(self.0 | feature.bit())
    }

    /// Returns whether the feature is in the set.
    #[must_use]
    pub const fn contains(self, feature: ServerFeature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// Returns the features in the set.
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
    use crate::client::config::server_features::*;

    #[test]
    fn every_server_feature_is_parsed_by_its_name() {
        for feature in ServerFeature::ALL {
            let (features, warnings) = ServerFeatures::parse([feature.as_str()]);
            assert!(features.iter().eq([feature]));
            let is_odd = feature == ServerFeature::IgnoreResourceDeletion;
            assert_eq!(!warnings.is_empty(), is_odd, "{feature:?}");
        }
    }

    // BS-11, BS-12, X14, D30, S3.050
    #[test]
    fn unknown_features_are_ignored_and_deprecated_or_misspelled_ones_warn() {
        let names = ["xds_v3", RESOURCE_TIMER_ALIAS, "", FAIL_ON_DATA_ERRORS, IGNORE_DELETION];
        let (features, warnings) = ServerFeatures::parse(names);
        assert!(features.contains(ServerFeature::ResourceTimerIsTransientError));
        assert!(features.contains(ServerFeature::FailOnDataErrors));
        assert!(!features.contains(ServerFeature::TrustedXdsServer));
        assert_eq!(warnings, [FeatureWarning::Misspelled, FeatureWarning::Deprecated]);
    }
}
