//! Endpoints of a Service, from an EndpointSlice.

use std::net::IpAddr;

use super::types::{Conditions, EndpointSlice};

/// Endpoints of a Service, from an EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// Name of the Service.
    pub(crate) service: String,
    pub(crate) revision: u64,
    pub(crate) ports: Vec<SlicePort>,
    pub(crate) endpoints: Vec<SliceEndpoint>,
}

/// Port that endpoints listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlicePort {
    /// Name of the port of the Service; empty if it has no name.
    pub(crate) name: String,
    pub(crate) number: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceEndpoint {
    pub(crate) address: IpAddr,
    pub(crate) zone: Box<str>,
    pub(crate) state: EndpointState,
    /// Uid of the Pod. The slices of both address families have it.
    pub(crate) target: Option<Box<str>>,
}

/// Use of an endpoint. If slices disagree about an endpoint, the later variant applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndpointState {
    /// The endpoint is not ready, and does not serve while it terminates.
    Unusable,
    /// The endpoint terminates, and still serves.
    Draining,
    Ready,
}

/// Label of an EndpointSlice with the name of its Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl Slice {
    /// Converts an EndpointSlice. Returns `None` if it belongs to no Service. Addresses that are
    /// not IP addresses are omitted: slices with host names are deprecated. Ports outside 1 to
    /// 65535 are omitted too.
    pub(crate) fn of(slice: EndpointSlice) -> Option<Self> {
        let service = slice.metadata.labels.get(SERVICE_NAME)?.clone();
        let revision = slice.metadata.resource_version.parse().unwrap_or(0);
        let ports = slice.ports.into_iter().filter(|port| is_tcp(port.protocol.as_deref()));
        let ports = ports.filter_map(|port| {
            let number = u16::try_from(port.port?).ok().filter(|number| *number != 0)?;
            Some(SlicePort { name: port.name.unwrap_or_default(), number })
        });
        let endpoints = slice.endpoints.into_iter().filter_map(|endpoint| {
            let address = endpoint.addresses.first()?.parse().ok()?;
            let state = state_of(endpoint.conditions);
            let target = endpoint.target_ref.map(|target| target.uid);
            let target = target.filter(|uid| !uid.is_empty()).map(String::into_boxed_str);
            let zone = endpoint.zone.unwrap_or_default().into_boxed_str();
            Some(SliceEndpoint { address, zone, state, target })
        });
        let endpoints = endpoints.collect();
        Some(Self { service, revision, ports: ports.collect(), endpoints })
    }
}

/// Returns the use of an endpoint. An unset `ready` counts as true, an unset `serving` has the
/// value of `ready`, and an unset `terminating` counts as false.
fn state_of(conditions: Conditions) -> EndpointState {
    let ready = conditions.ready.unwrap_or(true);
    let serving = conditions.serving.unwrap_or(ready);
    let terminating = conditions.terminating.unwrap_or(false);
    match (ready, serving && terminating) {
        // `ready` is also true for other Pods if the Service has `publishNotReadyAddresses`.
        (true, _) => EndpointState::Ready,
        (false, true) => EndpointState::Draining,
        (false, false) => EndpointState::Unusable,
    }
}

pub(crate) fn is_tcp(protocol: Option<&str>) -> bool {
    protocol.is_none_or(|it| it == "TCP")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(
        ready: Option<bool>,
        serving: Option<bool>,
        terminating: Option<bool>,
    ) -> Conditions {
        Conditions { ready, serving, terminating }
    }

    #[test]
    fn unset_conditions_have_the_defaults_of_kubernetes() {
        use EndpointState::{Draining, Ready, Unusable};
        let (yes, no) = (Some(true), Some(false));
        for (given, expected) in [
            (conditions(None, None, None), Ready),
            (conditions(yes, None, None), Ready),
            (conditions(yes, yes, yes), Ready),
            (conditions(no, None, None), Unusable),
            (conditions(no, None, yes), Unusable),
            (conditions(no, no, yes), Unusable),
            (conditions(no, yes, yes), Draining),
            // Serving without terminating is not ready for another reason.
            (conditions(no, yes, no), Unusable),
        ] {
            assert_eq!(state_of(given), expected, "{given:?}");
        }
    }

    #[test]
    fn empty_lists_may_be_null() {
        let text = r#"{"metadata": {"name": "a", "labels": {"kubernetes.io/service-name": "s"},
            "annotations": null}, "endpoints": null, "ports": null}"#;
        let slice = Slice::of(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!((slice.service.as_str(), slice.endpoints.len()), ("s", 0));
    }

    #[test]
    fn slice_without_a_service_is_not_used() {
        assert_eq!(Slice::of(EndpointSlice::default()), None);
    }

    #[test]
    fn other_protocols_and_host_names_are_left_out() {
        let text = r#"{"metadata": {"labels": {"kubernetes.io/service-name": "s"}},
            "endpoints": [{"addresses": ["a.example"]}, {"addresses": ["10.0.0.1", "10.0.0.2"]}],
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "all"},
                      {"name": "large", "port": 70000}, {"name": "negative", "port": -1},
                      {"name": "zero", "port": 0}, {"port": 80, "protocol": "TCP"}]}"#;
        let slice = Slice::of(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(slice.ports, [SlicePort { name: String::new(), number: 80 }]);
        let addresses: Vec<_> = slice.endpoints.iter().map(|it| it.address.to_string()).collect();
        assert_eq!(addresses, ["10.0.0.1"]);
    }
}
