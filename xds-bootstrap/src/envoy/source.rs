//! `ConfigSource`: the source of the resources of one type.
// S0.052

use std::{path::PathBuf, time::Duration};

use xds_core::{TypeUrl, types};

use super::{
    api::{ApiConfigSource, ApiType, ApiVersion},
    message::Message,
};
use crate::{
    error::{BootstrapError, ErrorKind},
    json::{self, Field},
};

/// Default timeout for the first response to a subscription.
// B18
const DEFAULT_INITIAL_FETCH: Duration = Duration::from_secs(15);

/// Source of the resources of one type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConfigSource {
    /// Authorities for which the source may be used.
    // B20
    pub authorities: Vec<String>,
    /// Location of the resources.
    pub specifier: Specifier,
    /// Timeout for the first response to a subscription; it is not the timer of a single resource.
    /// Default: 15 s. `None`, written as 0, means no timeout.
    pub initial_fetch_timeout: Option<Duration>,
    /// Version of the resources.
    // S0.005
    pub resource_api_version: ApiVersion,
}

/// Location of resources.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Specifier {
    /// A file.
    // S0.010
    Path(PathSource),
    /// A server.
    // S0.053
    Api(Box<ApiConfigSource>),
    /// The aggregated stream of the bootstrap.
    // S0.054
    Ads,
    /// The server that sent the resource with this source, possibly over another stream. gRPC
    /// treats it as [`Specifier::Ads`] ([gRFC
    /// A47](https://github.com/grpc/proposal/blob/master/A47-xds-federation.md)).
    SelfServer {
        /// Version of requests and responses.
        transport_api_version: ApiVersion,
    },
}

/// A file that is read again when it is replaced.
// X42
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathSource {
    /// Path of the file.
    pub path: PathBuf,
    /// Directory in which a move (rename) triggers a read of the file. With `None`, the file itself
    /// is watched: for moves only in Envoy, and for any change in this project's client.
    pub watched_directory: Option<PathBuf>,
}

impl ConfigSource {
    /// Parses the proto3 JSON form of the message.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON or a field is missing or invalid.
    pub fn from_json(text: &str) -> Result<Self, BootstrapError> {
        Self::read(Field::root(&json::parse(text)?))
    }

    pub(super) fn read(field: Field<'_>) -> Result<Self, BootstrapError> {
        let message = Message::read(
            field,
            &[
                "authorities",
                "path",
                "path_config_source",
                "api_config_source",
                "ads",
                "self",
                "initial_fetch_timeout",
                "resource_api_version",
            ],
        )?;
        let authorities = message
            .elements("authorities")?
            .into_iter()
            .map(|field| {
                let authority = Message::read(field, &["name"])?;
                Ok(authority.require("name")?.nonempty()?.into())
            })
            .collect::<Result<_, _>>()?;
        let names = ["path_config_source", "path", "api_config_source", "ads", "self"];
        let specifier = match message.one_of(&names)? {
            None => return Err(message.error(ErrorKind::InvalidValue(NO_SPECIFIER))),
            Some(("path_config_source", field)) => Specifier::Path(PathSource::read(field)?),
            Some(("path", field)) => Specifier::Path(PathSource {
                path: field.nonempty()?.into(),
                watched_directory: None,
            }),
            Some(("api_config_source", field)) => {
                Specifier::Api(Box::new(ApiConfigSource::read(field)?))
            }
            Some(("ads", field)) => {
                Message::read(field, &[])?;
                Specifier::Ads
            }
            Some((_, field)) => {
                let message = Message::read(field, &["transport_api_version"])?;
                let version = ApiVersion::read(&message, "transport_api_version")?;
                Specifier::SelfServer { transport_api_version: version }
            }
        };
        let initial_fetch_timeout = match message.get("initial_fetch_timeout") {
            None => Some(DEFAULT_INITIAL_FETCH),
            Some(field) => Some(field.duration()?).filter(|timeout| !timeout.is_zero()),
        };
        let resource_api_version = ApiVersion::read(&message, "resource_api_version")?;
        Ok(Self { authorities, specifier, initial_fetch_timeout, resource_api_version })
    }

    /// Returns the source as seen by a client that received it from `origin`: `self` becomes
    /// `origin`.
    pub(super) fn resolve_self(self, origin: Option<&Self>) -> Self {
        let (Specifier::SelfServer { transport_api_version }, Some(origin)) =
            (&self.specifier, origin)
        else {
            return self;
        };
        let mut specifier = origin.specifier.clone();
        if let (Specifier::Api(api), ApiVersion::V2 | ApiVersion::V3) =
            (&mut specifier, transport_api_version)
        {
            api.transport_api_version = *transport_api_version;
        }
        Self { specifier, ..self }
    }

    /// Checks that the source supports the resource type. `ads` is the source of the aggregated
    /// stream, if there is one.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::IncrementalOnly`] if the type has only an incremental variant and the
    /// transport is not incremental. The path is relative to this source, or begins with
    /// `ads_config`.
    // S0.042, S0.180
    pub fn check_type(
        &self,
        type_url: &TypeUrl,
        ads: Option<&ApiConfigSource>,
    ) -> Result<(), BootstrapError> {
        if type_url.as_str() != types::VIRTUAL_HOST {
            return Ok(());
        }
        let (path, api_type) = match (&self.specifier, ads) {
            (Specifier::Api(api), _) => ("api_config_source.api_type", api.api_type),
            (Specifier::Ads, Some(ads)) => ("ads_config.api_type", ads.api_type),
            // A file is state of the world.
            (Specifier::Path(_), _) => {
                let kind = ErrorKind::IncrementalOnly { short: "VirtualHost", api_type: "a file" };
                return Err(BootstrapError::new("path_config_source", kind));
            }
            // The server and its transport are those that this source came from.
            (Specifier::Ads, None) | (Specifier::SelfServer { .. }, _) => return Ok(()),
        };
        if api_type.is_incremental() {
            return Ok(());
        }
        let kind = ErrorKind::IncrementalOnly { short: "VirtualHost", api_type: api_type.name() };
        Err(BootstrapError::new(path, kind))
    }

    /// Checks that gRPC accepts the source in a Listener or a Cluster. It accepts only the
    /// aggregated stream, as `ads` or as `self`.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::NotAggregated`] if the source is a server or a file.
    // S0.060, S0.062
    pub fn check_for_grpc(&self) -> Result<(), BootstrapError> {
        let path = match self.specifier {
            Specifier::Ads | Specifier::SelfServer { .. } => return Ok(()),
            Specifier::Api(_) => "api_config_source",
            Specifier::Path(_) => "path_config_source",
        };
        Err(BootstrapError::new(path, ErrorKind::NotAggregated))
    }
}

impl ApiConfigSource {
    /// Checks that the source can be the aggregated stream of a client.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::RestAggregated`] if the source is REST, which has no aggregated stream.
    // S0.204
    pub fn check_as_ads(&self) -> Result<(), BootstrapError> {
        match self.api_type {
            ApiType::Rest => Err(BootstrapError::new("api_type", ErrorKind::RestAggregated)),
            _ => Ok(()),
        }
    }
}

const NO_SPECIFIER: &str =
    "must have one of `ads`, `api_config_source`, `path_config_source` and `self`";

impl PathSource {
    fn read(field: Field<'_>) -> Result<Self, BootstrapError> {
        let message = Message::read(field, &["path", "watched_directory"])?;
        let path = message.require("path")?.nonempty()?.into();
        let watched_directory = match message.get("watched_directory") {
            None => None,
            Some(field) => {
                let directory = Message::read(field, &["path"])?;
                Some(directory.require("path")?.nonempty()?.into())
            }
        };
        Ok(Self { path, watched_directory })
    }
}
