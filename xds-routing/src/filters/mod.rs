//! HTTP filters of listeners, and their overrides in routes ([gRFC A39]).
//!
//! [`Rules`](crate::Rules) define which filters a client supports. A resource with an unsupported
//! filter that is not optional is rejected, because its effect would be missing. Configurations of
//! gRPC's filters are decoded and validated. The [router](crate::router) applies
//! [`FaultInjection`] and reads the cookies of [`StatefulSession`]. A server applies [`Rbac`] to each request, with the configuration that
//! [`HttpFilter::effective`] returns:
//!
//! ```
//! use xds_routing::{filters::*, serving::Connection};
//!
//! # let filters: Vec<HttpFilter> = Vec::new();
//! # let (of_route, of_host, of_routes) = Default::default();
//! # let (server, client) = ("10.0.0.1:443".parse().unwrap(), "10.0.0.2:5000".parse().unwrap());
//! let connection = Connection::new(server, client);
//! let headers = [("user-agent", "grpc")];
//! let request = RbacRequest::new("/shop.Cart/Add", Some("shop"), &headers, &connection);
//! for filter in &filters {
//!     if let FilterConfig::Rbac(rbac) = filter.effective([&of_route, &of_host, &of_routes]) {
//!         rbac.decide(&request)?;
//!     }
//! }
//! # Ok::<(), AccessDenied>(())
//! ```
//!
//! [gRFC A39]: https://github.com/grpc/proposal/blob/master/A39-xds-http-filters.md

mod faults;
mod filter_config;
mod rbac;
mod sessions;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString as _},
    vec::Vec,
};

use xds_core::proto::Any;

use self::filter_config::validate_config;
pub use self::{
    faults::{
        Abort, AbortStatus, ActiveFault, ActiveFaults, Delay, DelayLength, Fault, FaultInjection,
        Share,
    },
    filter_config::FilterConfig,
    rbac::{AccessCondition, AccessDenied, AccessPolicy, Rbac, RbacRequest},
    sessions::{Session, SessionCookie, StatefulSession},
};
use crate::{
    extensions::{decode, validate_extension},
    proto::envoy::{
        config::route::v3::FilterConfig as FilterConfigSchema,
        extensions::filters::network::http_connection_manager::v3::{
            HttpFilter as HttpFilterSchema, http_filter::ConfigType,
        },
    },
    rules::{FilterPlace, Side},
    validation::Validator,
};

/// HTTP filter of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpFilter {
    /// Name, to which overrides in routes refer.
    pub name: String,
    /// Kind and configuration.
    pub config: FilterConfig,
}

impl HttpFilter {
    /// Returns the configuration in effect for a route: the first override for the name of this
    /// filter or, if there is none, the configuration of the listener. Overrides are in the order of
    /// [`FilterOverrides`] and are not merged. An override that is of another kind of filter has no
    /// effect.
    pub fn effective<'a>(
        &'a self,
        overrides: impl IntoIterator<Item = &'a FilterOverrides>,
    ) -> &'a FilterConfig {
        overrides
            .into_iter()
            .find_map(|overrides| overrides.get(&self.name))
            .filter(|config| self.config.is_replaced_by(config))
            .unwrap_or(&self.config)
    }
}

/// Filter overrides by the name of the filter in the listener. Those of a weighted cluster precede
/// those of its route, followed by those of the virtual host and of the route configuration (gRFC
/// A39).
pub type FilterOverrides = BTreeMap<String, FilterConfig>;

const FILTER_CONFIG: &str = "type.googleapis.com/envoy.config.route.v3.FilterConfig";

pub(crate) fn validate_overrides(
    overrides: &BTreeMap<String, Any>,
    validator: &mut Validator<'_>,
) -> Option<FilterOverrides> {
    let mut validated = FilterOverrides::new();
    for (name, config) in overrides {
        let config = validator.element("typed_per_filter_config", name, |validator| {
            if name.is_empty() {
                validator.error("the name of a filter must not be empty");
            }
            validate_override(config, validator)
        });
        if let Some(config) = config {
            validated.insert(name.clone(), config);
        }
    }
    Some(validated)
}

fn validate_override(config: &Any, validator: &mut Validator<'_>) -> Option<FilterConfig> {
    let mut is_optional = false;
    let mut unwrapped = None;
    if config.type_url == FILTER_CONFIG {
        let wrapper: FilterConfigSchema = decode(&config.value, validator)?;
        is_optional = wrapper.is_optional;
        if wrapper.config.is_none() {
            validator.error_in("config", "must be set");
            return None;
        }
        unwrapped = wrapper.config;
    }
    let config = unwrapped.as_ref().unwrap_or(config);
    let extension = validate_extension(config, validator)?;
    let problem = match validator.rules.http_filters.get(&extension.type_url) {
        Some(kind) if kind.role.is_for_routes() => {
            return validate_config(config, extension, validator);
        }
        Some(_) => "cannot be overridden in routes",
        None => "is not known",
    };
    if !is_optional {
        validator.error(format_args!("the HTTP filter `{}` {problem}", extension.type_url));
    }
    None
}

/// Validates the filters of a listener. Names must be unique, unsupported optional filters are left
/// out, and exactly the last filter must be terminal.
pub(crate) fn validate_http_filters(
    filters: &[HttpFilterSchema],
    side: Side,
    validator: &mut Validator<'_>,
) -> Vec<HttpFilter> {
    let mut validated: Vec<HttpFilter> = Vec::new();
    let mut names = BTreeSet::new();
    // Whether each filter is terminal.
    let mut terminal = Vec::new();
    for (index, filter) in filters.iter().enumerate() {
        validator.element("http_filters", index, |validator| {
            if filter.name.is_empty() {
                validator.error_in("name", "must not be empty");
            } else if !names.insert(filter.name.as_str()) {
                validator.error_in("name", format_args!("duplicate name `{}`", filter.name));
            }
            if let Some((filter, place)) = validate_http_filter(filter, side, validator) {
                validated.extend(filter);
                terminal.push(place == FilterPlace::Last);
            }
        });
    }
    match terminal.split_last() {
        None => validator.error_in("http_filters", "must have a terminal filter"),
        Some((false, _)) => validator.error_in("http_filters", "the last filter must be terminal"),
        Some((true, before)) if before.contains(&true) => {
            validator.error_in("http_filters", "only the last filter may be terminal");
        }
        Some(_) => {}
    }
    validated
}

/// Returns a filter and its required position, or `None` if it is left out. For an invalid
/// configuration only the position is returned.
fn validate_http_filter(
    filter: &HttpFilterSchema,
    side: Side,
    validator: &mut Validator<'_>,
) -> Option<(Option<HttpFilter>, FilterPlace)> {
    let Some(ConfigType::TypedConfig(config)) = filter.config_type.as_ref() else {
        if !filter.is_optional {
            validator.error_in("typed_config", "must be set");
        }
        return None;
    };
    validator.field("typed_config", |validator| {
        let extension = validate_extension(config, validator)?;
        let problem = match validator.rules.http_filters.get(&extension.type_url).copied() {
            Some(kind) if !kind.role.is_for_listeners() => "is only valid in routes",
            Some(kind) if kind.sides.include(side) => {
                let config = validate_config(config, extension, validator);
                let name = filter.name.to_string();
                return Some((config.map(|config| HttpFilter { name, config }), kind.place));
            }
            Some(_) => "is not supported on this side",
            None => "is not known",
        };
        if !filter.is_optional {
            validator.error(format_args!("the HTTP filter `{}` {problem}", extension.type_url));
        }
        None
    })
}
