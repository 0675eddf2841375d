//! gRPC's feature guards: environment variables that keep new features out of use (S2.064, S2.065).
//!
//! Here they are plain data. Each is on unless somebody turns it off, and whoever reads a
//! configuration decides whether the environment has a say.

/// Whether a feature may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// It may.
    #[default]
    On,
    /// It may not: what configures it is passed over.
    Off,
}

impl Guard {
    /// Whether the feature may be used.
    #[must_use]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }

    /// The guard that a variable's value stands for; `None` where the value is no answer. Case is
    /// ignored, and the forms gRPC's C-core takes are taken.
    fn from_value(value: &str) -> Option<Self> {
        match value.trim().to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "1" => Some(Self::On),
            "false" | "f" | "no" | "n" | "0" => Some(Self::Off),
            _ => None,
        }
    }
}

/// The guards that have a meaning for a client. All are on by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guards {
    /// Resource errors, the two server features of A88 and the keeping of deleted resources (S3.099,
    /// S3.100).
    pub data_errors: Guard,
    /// Route matching and actions beyond those of A27 (S2.066).
    pub routing: Guard,
    /// Authorities, and names with structure (A47, FE-14).
    pub federation: Guard,
    /// Servers after the first (A71, BS-14).
    pub fallback: Guard,
    /// Rewriting of the authority, and with it the feature `trusted_xds_server` (A81, BS-12).
    pub authority_rewrite: Guard,
    /// `call_creds` of a server (A97, BS-23).
    pub call_credentials: Guard,
    /// `allowed_grpc_services` (A102, BS-24). No variable sets it here.
    pub allowed_grpc_services: Guard,
}

impl Guards {
    /// The variable of [`Guards::data_errors`].
    pub const DATA_ERRORS: &str = "GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING";
    /// The variable of [`Guards::routing`].
    pub const ROUTING: &str = "GRPC_XDS_EXPERIMENTAL_ROUTING";
    /// The variable of [`Guards::federation`].
    pub const FEDERATION: &str = "GRPC_EXPERIMENTAL_XDS_FEDERATION";
    /// The variable of [`Guards::fallback`].
    pub const FALLBACK: &str = "GRPC_EXPERIMENTAL_XDS_FALLBACK";
    /// The variable of [`Guards::authority_rewrite`].
    pub const AUTHORITY_REWRITE: &str = "GRPC_EXPERIMENTAL_XDS_AUTHORITY_REWRITE";
    /// The variable of [`Guards::call_credentials`].
    pub const CALL_CREDENTIALS: &str = "GRPC_EXPERIMENTAL_XDS_BOOTSTRAP_CALL_CREDS";

    /// The guards as variables state them. What is not set, or is neither a yes nor a no, is on.
    #[must_use]
    pub fn from_variables(mut variable: impl FnMut(&str) -> Option<String>) -> Self {
        let mut guard =
            |name| variable(name).and_then(|value| Guard::from_value(&value)).unwrap_or_default();
        Self {
            data_errors: guard(Self::DATA_ERRORS),
            routing: guard(Self::ROUTING),
            federation: guard(Self::FEDERATION),
            fallback: guard(Self::FALLBACK),
            authority_rewrite: guard(Self::AUTHORITY_REWRITE),
            call_credentials: guard(Self::CALL_CREDENTIALS),
            allowed_grpc_services: Guard::On,
        }
    }
}
