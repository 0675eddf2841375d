//! Shorthand of incremental messages.

use core::fmt::{self, Display as _};

use xds_core::proto;

use super::{
    Names,
    text::{Printable, end, end_of_response, list},
};

pub(super) fn request(
    f: &mut fmt::Formatter<'_>,
    request: &proto::DeltaDiscoveryRequest,
    names: Names,
) -> fmt::Result {
    f.write_str("(S=")?;
    list(f, &request.resource_names_subscribe, names, |f, name| Printable(name).fmt(f))?;
    f.write_str(",U=")?;
    list(f, &request.resource_names_unsubscribe, names, |f, name| Printable(name).fmt(f))?;
    f.write_str(",I=")?;
    list(f, &request.initial_resource_versions, names, |f, (name, version)| {
        write!(f, "{}={}", Printable(name), Printable(version))
    })?;
    end(f, &request.response_nonce, &request.type_url)
}

pub(super) fn response(
    f: &mut fmt::Formatter<'_>,
    response: &proto::DeltaDiscoveryResponse,
    names: Names,
) -> fmt::Result {
    write!(f, "(V={},R=", Printable(&response.system_version_info))?;
    list(f, &response.resources, names, |f, resource| {
        // A resource with dynamic parameters has its name in `resource_name`.
        let name = resource.resource_name.as_ref().map_or(&resource.name, |it| &it.name);
        write!(f, "{}={}", Printable(name), Printable(&resource.version))
    })?;
    f.write_str(",D=")?;
    list(f, &response.removed_resources, names, |f, name| Printable(name).fmt(f))?;
    end_of_response(f, &response.nonce, &response.type_url, response.control_plane.as_ref())
}
