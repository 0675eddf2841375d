//! Management servers of a bootstrap.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use xds_core::client::{ServerFeature, ServerFeatures};

use crate::{
    credentials::{CallCredentials, ChannelCredentials},
    error::{BootstrapError, Warning, WarningKind},
    feature_switches::FeatureSwitches,
    json::Field,
};

/// Management server: its address, credentials and features.
///
/// Two entries share a channel exactly if they are equal: URI, selected credentials, and known and
/// enabled features. Other fields of the entries make no difference.
// BS-25, FE-16
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct XdsServer {
    /// Target URI of the gRPC channel.
    pub uri: Arc<str>,
    /// Security of the channel.
    pub channel_credentials: ChannelCredentials,
    /// Credentials sent with each call, all together.
    pub call_credentials: Arc<[CallCredentials]>,
    /// Known and enabled features of the server.
    pub features: BTreeSet<ServerFeature>,
}

impl XdsServer {
    /// Parses one entry of `xds_servers`, or a server in the same form from another configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the entry is invalid. The path of the error is relative to the entry.
    // BS-26
    pub fn from_value(value: &Value, switches: &FeatureSwitches) -> Result<Self, BootstrapError> {
        Self::read(&Field::root(value), switches, &mut Vec::new())
    }

    pub(crate) fn read(
        entry: &Field<'_>,
        switches: &FeatureSwitches,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, BootstrapError> {
        entry.object()?;
        let uri = entry.require("server_uri")?.nonempty()?.into();
        let credentials = entry.require("channel_creds")?;
        let channel_credentials = ChannelCredentials::first_supported(&credentials, warnings)?;
        let call_credentials = match entry.get("call_creds") {
            None => Arc::default(),
            Some(list) if switches.call_credentials.is_on() => {
                CallCredentials::all_supported(&list, warnings)?
            }
            Some(list) => {
                let why = WarningKind::SwitchedOff(FeatureSwitches::CALL_CREDENTIALS);
                warnings.push(Warning::new(list.path, why));
                Arc::default()
            }
        };
        let features = match entry.get("server_features") {
            Some(list) => read_features(&list, switches, warnings)?,
            None => BTreeSet::new(),
        };
        Ok(Self { uri, channel_credentials, call_credentials, features })
    }

    /// Parses a list of servers in order of preference. Only the first is used if fallback is off.
    // BS-14
    pub(crate) fn read_list(
        list: &Field<'_>,
        switches: &FeatureSwitches,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Self>, BootstrapError> {
        let mut servers = list
            .elements()?
            .map(|entry| Self::read(&entry, switches, warnings))
            .collect::<Result<Vec<_>, _>>()?;
        if servers.len() > 1 && !switches.fallback.is_on() {
            servers.truncate(1);
            let path = format!("{}[1]", list.path);
            warnings.push(Warning::new(path, WarningKind::SwitchedOff(FeatureSwitches::FALLBACK)));
        }
        Ok(servers)
    }

    /// Whether the server has a feature, and the switch of the feature is on.
    #[must_use]
    pub fn has(&self, feature: ServerFeature) -> bool {
        self.features.contains(&feature)
    }

    /// Returns the entry in its bootstrap form. Parsing it gives an equal server.
    // BS-26
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "`entry` is an object")]
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
            entry["server_features"] =
                self.features.iter().map(|feature| feature.as_str()).collect();
        }
        entry
    }
}

/// Reads the known and enabled features. Entries may be of any JSON type; unknown ones are ignored.
// BS-11
fn read_features(
    list: &Field<'_>,
    switches: &FeatureSwitches,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeSet<ServerFeature>, BootstrapError> {
    let mut features = BTreeSet::new();
    for entry in list.elements()? {
        let Some(written) = entry.value.as_str() else { continue };
        let (known, odd) = ServerFeatures::parse([written]);
        let Some(feature) = known.iter().next() else { continue };
        if let Some(variable) = switched_off(feature, switches) {
            warnings.push(Warning::new(entry.path, WarningKind::SwitchedOff(variable)));
            continue;
        }
        features.insert(feature);
        // Without data error handling, ignoring deletions is not the default (S3.100).
        let has_effect =
            feature == ServerFeature::IgnoreResourceDeletion && !switches.data_errors.is_on();
        if !has_effect {
            let odd = odd.into_iter().map(WarningKind::Feature);
            warnings.extend(odd.map(|kind| Warning::new(entry.path.clone(), kind)));
        }
    }
    Ok(features)
}

/// Returns the variable of the switch that disables a feature, if it is off.
// S3.100
fn switched_off(feature: ServerFeature, switches: &FeatureSwitches) -> Option<&'static str> {
    let (switch, variable) = match feature {
        ServerFeature::FailOnDataErrors | ServerFeature::ResourceTimerIsTransientError => {
            (switches.data_errors, FeatureSwitches::DATA_ERRORS)
        }
        ServerFeature::TrustedXdsServer => {
            (switches.authority_rewrite, FeatureSwitches::AUTHORITY_REWRITE)
        }
        _ => return None,
    };
    if switch.is_on() { None } else { Some(variable) }
}
