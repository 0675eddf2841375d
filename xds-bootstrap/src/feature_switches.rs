//! gRPC's experimental features, which environment variables can disable.
//!
//! They are plain data here and on by default. The caller decides whether to read the environment.
// S2.064, S2.065

/// State of a feature that can be switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureSwitch {
    /// The feature is enabled.
    #[default]
    On,
    /// The feature is disabled, and its configuration is ignored.
    Off,
}

impl FeatureSwitch {
    /// Whether the feature is enabled.
    #[must_use]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }

    /// Parses the value of a variable, in any case and in the forms that gRPC C-core accepts;
    /// `None` if it is neither true nor false.
    fn from_value(value: &str) -> Option<Self> {
        match value.trim().to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "1" => Some(Self::On),
            "false" | "f" | "no" | "n" | "0" => Some(Self::Off),
            _ => None,
        }
    }
}

/// gRPC features of an xDS client that can be switched off. All are on by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeatureSwitches {
    /// Resource errors, the server features `fail_on_data_errors` and
    /// `resource_timer_is_transient_error`, and keeping deleted resources
    /// ([gRFC A88](https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md)).
    // S3.099, S3.100
    pub data_errors: FeatureSwitch,
    /// Route matching and actions beyond those of
    /// [gRFC A27](https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md).
    // S2.066
    pub routing: FeatureSwitch,
    /// Authorities and `xdstp:` names
    /// ([gRFC A47](https://github.com/grpc/proposal/blob/master/A47-xds-federation.md)).
    // FE-14
    pub federation: FeatureSwitch,
    /// Fallback to servers after the first
    /// ([gRFC A71](https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md)).
    // BS-14
    pub fallback: FeatureSwitch,
    /// Authority rewriting, with the server feature `trusted_xds_server`
    /// ([gRFC A81](https://github.com/grpc/proposal/blob/master/A81-xds-authority-rewriting.md)).
    // BS-12
    pub authority_rewrite: FeatureSwitch,
    /// `call_creds` of a server
    /// ([gRFC A97](https://github.com/grpc/proposal/blob/master/A97-xds-jwt-call-creds.md)).
    // BS-23
    pub call_credentials: FeatureSwitch,
    /// `allowed_grpc_services` (gRFC A102). No variable sets this switch.
    // BS-24
    pub allowed_grpc_services: FeatureSwitch,
}

impl FeatureSwitches {
    /// Environment variable of [`FeatureSwitches::data_errors`].
    pub const DATA_ERRORS: &str = "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING";
    /// Environment variable of [`FeatureSwitches::routing`].
    pub const ROUTING: &str = "GRPC_XDS_EXPERIMENTAL_ROUTING";
    /// Environment variable of [`FeatureSwitches::federation`].
    pub const FEDERATION: &str = "GRPC_EXPERIMENTAL_XDS_FEDERATION";
    /// Environment variable of [`FeatureSwitches::fallback`].
    pub const FALLBACK: &str = "GRPC_EXPERIMENTAL_XDS_FALLBACK";
    /// Environment variable of [`FeatureSwitches::authority_rewrite`].
    pub const AUTHORITY_REWRITE: &str = "GRPC_EXPERIMENTAL_XDS_AUTHORITY_REWRITE";
    /// Environment variable of [`FeatureSwitches::call_credentials`].
    pub const CALL_CREDENTIALS: &str = "GRPC_EXPERIMENTAL_XDS_BOOTSTRAP_CALL_CREDS";

    /// Returns the switches that the given variables set. A variable that is unset or not a boolean
    /// leaves its switch on.
    #[must_use]
    pub fn from_variables(mut variable: impl FnMut(&str) -> Option<String>) -> Self {
        let mut switch = |name| {
            variable(name).and_then(|value| FeatureSwitch::from_value(&value)).unwrap_or_default()
        };
        Self {
            data_errors: switch(Self::DATA_ERRORS),
            routing: switch(Self::ROUTING),
            federation: switch(Self::FEDERATION),
            fallback: switch(Self::FALLBACK),
            authority_rewrite: switch(Self::AUTHORITY_REWRITE),
            call_credentials: switch(Self::CALL_CREDENTIALS),
            allowed_grpc_services: FeatureSwitch::On,
        }
    }
}
