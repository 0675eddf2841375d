//! One management server of a bootstrap.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use crate::{
    credentials::{CallCredentials, ChannelCredentials},
    error::{BootstrapError, Warning, WarningKind},
    guards::Guards,
    json::Field,
};

/// A management server: where it is, how to reach it, what it can do.
///
/// Two entries are the same channel exactly when they are equal: URI, the credentials chosen and
/// the features that are known and in use (BS-25, FE-16). Whatever else the entries say makes no
/// difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct XdsServer {
    /// A gRPC target.
    pub uri: Arc<str>,
    /// How the channel is secured.
    pub channel_credentials: ChannelCredentials,
    /// What calls carry, all of it.
    pub call_credentials: Arc<[CallCredentials]>,
    /// What is special about the server.
    pub features: BTreeSet<ServerFeature>,
}

/// What a server can be said to do (B25, BS-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ServerFeature {
    /// Data errors drop the cached resource (S3.024).
    FailOnDataErrors,
    /// Deletions do not drop the cached resource, which is the default by now (B36).
    IgnoreResourceDeletion,
    /// A resource that does not come in time is an error of the server (S3.041).
    ResourceTimerIsTransientError,
    /// Fields that concern security are believed (B46).
    TrustedXdsServer,
    /// The server speaks version 3, as all do.
    XdsV3,
}

impl ServerFeature {
    const ALL: [Self; 5] = [
        Self::FailOnDataErrors,
        Self::IgnoreResourceDeletion,
        Self::ResourceTimerIsTransientError,
        Self::TrustedXdsServer,
        Self::XdsV3,
    ];
    /// The other spelling that is about (D30, X14).
    const TIMER_ALIAS: &str = "resource_timer_is_transient_failure";

    /// The feature as a bootstrap spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FailOnDataErrors => "fail_on_data_errors",
            Self::IgnoreResourceDeletion => "ignore_resource_deletion",
            Self::ResourceTimerIsTransientError => "resource_timer_is_transient_error",
            Self::TrustedXdsServer => "trusted_xds_server",
            Self::XdsV3 => "xds_v3",
        }
    }

    /// The variable of the guard that is off, if one is (S3.100).
    const fn guarded_off(self, guards: &Guards) -> Option<&'static str> {
        let (guard, variable) = match self {
            Self::FailOnDataErrors | Self::ResourceTimerIsTransientError => {
                (guards.data_errors, Guards::DATA_ERRORS)
            }
            Self::TrustedXdsServer => (guards.authority_rewrite, Guards::AUTHORITY_REWRITE),
            Self::IgnoreResourceDeletion | Self::XdsV3 => return None,
        };
        if guard.is_on() { None } else { Some(variable) }
    }
}

impl XdsServer {
    /// Reads one entry of `xds_servers`, as it also stands in the configuration of other things
    /// (BS-26).
    ///
    /// # Errors
    ///
    /// What is wrong, with the field relative to the entry.
    pub fn from_value(value: &Value, guards: &Guards) -> Result<Self, BootstrapError> {
        Self::read(&Field::root(value), guards, &mut Vec::new())
    }

    pub(crate) fn read(
        entry: &Field<'_>,
        guards: &Guards,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, BootstrapError> {
        entry.object()?;
        let uri = entry.require("server_uri")?.nonempty()?.into();
        let credentials = entry.require("channel_creds")?;
        let channel_credentials = ChannelCredentials::first_supported(&credentials, warnings)?;
        let call_credentials = match entry.get("call_creds") {
            None => Arc::default(),
            Some(list) if guards.call_credentials.is_on() => CallCredentials::all_supported(&list)?,
            Some(list) => {
                let why = WarningKind::GuardedOff(Guards::CALL_CREDENTIALS);
                warnings.push(Warning::new(list.path, why));
                Arc::default()
            }
        };
        let features = match entry.get("server_features") {
            Some(list) => read_features(&list, guards, warnings)?,
            None => BTreeSet::new(),
        };
        Ok(Self { uri, channel_credentials, call_credentials, features })
    }

    /// A list of servers in order of preference; only the first one where fallback is off (BS-14).
    pub(crate) fn read_list(
        list: &Field<'_>,
        guards: &Guards,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Self>, BootstrapError> {
        let mut servers = list
            .elements()?
            .map(|entry| Self::read(&entry, guards, warnings))
            .collect::<Result<Vec<_>, _>>()?;
        if servers.len() > 1 && !guards.fallback.is_on() {
            servers.truncate(1);
            let path = format!("{}[1]", list.path);
            warnings.push(Warning::new(path, WarningKind::GuardedOff(Guards::FALLBACK)));
        }
        Ok(servers)
    }

    /// Whether the server is said to have a feature, and its guard lets it be used.
    #[must_use]
    pub fn has(&self, feature: ServerFeature) -> bool {
        self.features.contains(&feature)
    }

    /// The entry as a bootstrap has it. Reading it gives an equal server (BS-26).
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut entry = json!({
            "server_uri": *self.uri,
            "channel_creds": [self.channel_credentials.to_json()],
        });
        if !self.call_credentials.is_empty() {
            entry["call_creds"] =
                self.call_credentials.iter().map(CallCredentials::to_json).collect();
        }
        if !self.features.is_empty() {
            entry["server_features"] = self.features.iter().map(|feature| feature.name()).collect();
        }
        entry
    }
}

/// The features that are known and in use. Entries may be of any JSON type; what is not known is
/// passed over (BS-11).
fn read_features(
    list: &Field<'_>,
    guards: &Guards,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeSet<ServerFeature>, BootstrapError> {
    let mut features = BTreeSet::new();
    for entry in list.elements()? {
        let Some(written) = entry.value.as_str() else { continue };
        let known = ServerFeature::ALL.into_iter().find(|feature| feature.name() == written);
        let feature = match known {
            Some(feature) => feature,
            None if written == ServerFeature::TIMER_ALIAS => {
                let feature = ServerFeature::ResourceTimerIsTransientError;
                let (spelling, feature_name) = (ServerFeature::TIMER_ALIAS, feature.name());
                let kind = WarningKind::FeatureAlias { spelling, feature: feature_name };
                warnings.push(Warning::new(entry.path.clone(), kind));
                feature
            }
            None => continue,
        };
        if let Some(variable) = feature.guarded_off(guards) {
            warnings.push(Warning::new(entry.path, WarningKind::GuardedOff(variable)));
            continue;
        }
        // While data errors are handled in the old way, ignoring deletions is no default (S3.100).
        let is_default =
            feature == ServerFeature::IgnoreResourceDeletion && guards.data_errors.is_on();
        if is_default || feature == ServerFeature::XdsV3 {
            let kind = WarningKind::DeprecatedFeature(feature.name());
            warnings.push(Warning::new(entry.path, kind));
        }
        features.insert(feature);
    }
    Ok(features)
}
